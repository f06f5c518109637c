//! Settings, trust and the choice of a model: read, merged, explained.
//!
//! Start reading at `load.rs`: [`load`] reads the layers (user, project, environment, `--settings`), decides
//! what the project may say ([`trust`], `tighten.rs`) and merges them into one [`Settings`]. The keys and
//! how layers merge are in `settings.rs`, how a layer is read from text in `read_settings.rs`, which
//! model answers in `model_choice.rs`, what it costs and how much it reads in `prices.rs`, and agents defined
//! in files in `agent_files.rs`.
//!
//! The rule everything here serves: a repository that was merely cloned can make tenon stricter, never
//! freer.
//!
//! What this crate may not know: the process environment, the home directory, the command line, the
//! network. They are handed in as [`Surroundings`] and plain arguments. It reads the files it names and
//! writes only `trust.json` and, when asked to remember something, the user's `TENON.md`.

mod agent_files;
mod base_url;
mod client_agents;
mod command_files;
mod config_error;
mod duration;
mod expand;
mod files;
mod front_matter;
mod load;
mod masked;
mod mcp_servers;
mod memory;
mod model_choice;
mod prices;
mod problem;
mod project;
mod providers;
mod read_hooks;
mod read_prices;
mod read_settings;
mod reader;
mod secret_env;
mod settings;
mod skill_files;
mod surroundings;
mod telemetry_settings;
mod tighten;
pub mod trust;

pub use agent_files::AgentFile;
pub use base_url::is_loopback_url;
pub use client_agents::read_client_agents;
pub use command_files::{CommandFile, CommandSource};
pub use config_error::ConfigError;
pub use duration::{DurationError, MAX_DURATION, parse_duration, parse_wall_time};
pub use front_matter::{Field, FieldValue, FrontMatter, FrontMatterError, read_front_matter};
pub use load::{ExtraSettings, FileLayer, Loaded, MemoryUse, ProjectTrust, Sources, load};
pub use masked::{MaskedFile, masked_settings};
pub use mcp_servers::{McpServers, merge_mcp_servers, read_client_mcp_servers, read_mcp_config};
pub use memory::{MAX_MEMORY_FILE_BYTES, MAX_MEMORY_TOTAL_BYTES, MemoryFile, add_to_user_memory};
pub use model_choice::{ChoiceError, ModelChoice, ModelFlags, choose_fallback, choose_model, names_provider};
pub use prices::{Place, model_facts, prices_as_of};
pub use problem::{Problem, Severity};
pub use project::project_root;
pub use providers::Wire;
pub use read_settings::{Expand, Layer, read_settings};
pub use secret_env::secret_env_names;
pub use settings::{
    Context, Limit, Limits, Permissions, Provider, Retry, RunSettings, SandboxSettings, SessionSettings,
    Settings, ShellSettings, TaskSettings, Timeouts, ToolSettings,
};
pub use skill_files::SkillFile;
pub use surroundings::Surroundings;
pub use telemetry_settings::TelemetrySettings;
pub use tighten::tighten;
