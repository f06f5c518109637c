//! Everything `tenon-config` promises, at its boundary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "all/agent_files.rs"]
mod agent_files;
#[path = "all/corpus.rs"]
mod corpus;
#[path = "all/durations.rs"]
mod durations;
#[path = "all/files.rs"]
mod files;
#[path = "all/mcp_servers.rs"]
mod mcp_servers;
#[path = "all/memory.rs"]
mod memory;
#[path = "all/model_choice.rs"]
mod model_choice;
#[path = "all/place.rs"]
mod place;
#[path = "all/prices.rs"]
mod prices;
#[path = "all/properties.rs"]
mod properties;
#[path = "all/secret_env.rs"]
mod secret_env;
#[path = "all/settings_errors.rs"]
mod settings_errors;
#[path = "all/settings_keys.rs"]
mod settings_keys;
#[path = "all/skill_files.rs"]
mod skill_files;
#[path = "all/trust_store.rs"]
mod trust_store;
#[path = "all/trust_table.rs"]
mod trust_table;
