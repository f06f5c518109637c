//! What one run is made of. How it runs is `turn_loop.rs`.

use std::sync::Arc;
use std::time::Duration;

use tenon_contract::Contract;
use tenon_core::{
    Budget, Client, Failure, IdSource, Message, ModelClient, Models, Reasoning, RunInfo, Sampling, Success,
    TraceContext, TurnJournal,
};
use tenon_tools::{Hooks, Permissions, Registry, SessionSource};

use crate::drain::BackgroundEnds;
use crate::hooked::SessionEnd;
use crate::{Background, Limits, Lineage, Replay, SchemaMode, Stop};

/// Everything one run needs. A session keeps one and runs a clone of it for every turn.
#[derive(Clone)]
pub struct Agent {
    pub model: Arc<dyn ModelClient>,
    pub system: String,
    /// What was said before: a resumed session, or the turns before this one.
    pub history: Vec<Message>,
    /// What is asked now. `None` goes on where the history ends.
    pub prompt: Option<Message>,
    pub registry: Registry,
    pub permissions: Permissions,
    pub contract: Option<Contract>,
    pub schema_mode: SchemaMode,
    pub limits: Limits,
    pub client: Arc<dyn Client>,
    pub journal: Arc<dyn TurnJournal>,
    pub budget: Arc<dyn Budget>,
    pub stop: Stop,
    pub ids: Arc<IdSource>,
    pub info: RunInfo,
    pub audience: Audience,
    /// Denied calls fail the run.
    pub fail_on_denied: bool,
    /// Signs of life while nothing else happens.
    pub heartbeat: Option<Duration>,
    /// Hands a success over (to a file, say) before it is announced; what fails here fails the run.
    pub deliver: Option<Deliver>,
    /// What is known of the models that may be asked: prices and sizes.
    pub models: Models,
    /// How freely the model words its answers.
    pub sampling: Sampling,
    /// How much work it puts into them.
    pub reasoning: Reasoning,
    /// How long one answer may be; `None` is the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// The share of the context that may fill before older parts are replaced by a summary.
    pub compact_at: f64,
    /// Who is told what happens, and may have a say in it. A sub-agent has its caller's
    /// ([`Hooks::for_agent`]).
    pub hooks: Hooks,
    /// Where the session that this run belongs to comes from, when this run begins it.
    pub session_start: Option<SessionSource>,
    pub session_end: SessionEnd,
    /// The run's place in a distributed trace, when there is one.
    pub trace: Option<TraceContext>,
    /// What the run did before it was cut off.
    pub replay: Replay,
    /// What the caller already has to say.
    pub warnings: Vec<String>,
    /// The run itself, or an agent that works for a call of another.
    pub lineage: Lineage,
    /// Work that goes on beside the conversation.
    pub background: Background,
}

pub type Deliver = Arc<dyn Fn(&Success) -> Result<(), Failure> + Send + Sync>;

impl Agent {
    /// Background work of a session goes on between its turns; everybody else's ends with the run.
    pub(crate) fn background_ends(&self) -> BackgroundEnds {
        match (self.session_end, self.lineage.call_id()) {
            (SessionEnd::Later, None) => BackgroundEnds::WithTheSession,
            _ => BackgroundEnds::WithTheRun,
        }
    }
}

/// What whoever listens wants to see while the answer is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Only whole results: a broken answer can be asked for again.
    Whole,
    /// Messages as they come.
    Live,
    /// Messages as they come, and snapshots of the payload.
    LiveWithSnapshots,
}
