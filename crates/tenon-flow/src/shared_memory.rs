//! What the agents of one run note for each other: `shared_memory_write` and `shared_memory_read`.
//!
//! An entry is kept before its writer is answered, so nothing that was acknowledged is lost with the process; a run that goes
//! on begins with the entries it had. Every agent writes under its own name and reads everybody's. Which steps are offered the
//! tools is decided in `agent_step.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::{ArgReader, Refusal};
use tokio::sync::Mutex;

use crate::signal::{Signal, SignalJournal, Signals};

pub(crate) const READ: &str = "shared_memory_read";
pub(crate) const WRITE: &str = "shared_memory_write";

/// A name, not a text.
const MAX_KEY_BYTES: usize = 256;
/// As much as a tool may answer: what is written can be read in one call.
const MAX_VALUE_BYTES: usize = 32 * 1024;
/// A note of each item of the largest loops, and far from filling this machine.
const MAX_ENTRIES: usize = 10_000;
/// Keys that are named to whoever asks for one that is not there.
const KEYS_SHOWN: usize = 20;

/// The entries of one run.
pub(crate) struct SharedMemory {
    /// Held while an entry is being kept: the journal has entries in the order in which they hold.
    entries: Mutex<BTreeMap<String, String>>,
    journal: Arc<dyn SignalJournal>,
}

impl SharedMemory {
    pub(crate) fn new(signals: &Signals) -> SharedMemory {
        let mut entries = BTreeMap::new();
        for signal in &signals.records {
            if let Signal::MemoryWritten { key, value } = signal {
                entries.insert(key.clone(), value.clone());
            }
        }
        SharedMemory { entries: Mutex::new(entries), journal: Arc::clone(&signals.journal) }
    }

    /// The two tools, for an agent of this name.
    pub(crate) fn tools(self: &Arc<Self>, agent: &str) -> [Arc<dyn Tool>; 2] {
        let namespace = agent.replace('/', "_");
        [
            Arc::new(ReadTool { spec: Arc::new(read_spec()), memory: Arc::clone(self) }),
            Arc::new(WriteTool {
                spec: Arc::new(write_spec(&namespace)),
                memory: Arc::clone(self),
                namespace,
            }),
        ]
    }

    async fn read(&self, key: &str) -> Result<String, Refusal> {
        let entries = self.entries.lock().await;
        if let Some(value) = entries.get(key) {
            return Ok(value.clone());
        }
        let mut message = format!("{READ}: key {key:?} not found");
        if !entries.is_empty() {
            let known: Vec<String> = entries.keys().take(KEYS_SHOWN).map(|key| format!("`{key}`")).collect();
            let more = entries.len().saturating_sub(KEYS_SHOWN);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            message.push_str(&format!("\nThere are {}{rest}.", known.join(", ")));
        }
        Err(Refusal::failed(message))
    }

    async fn write(&self, key: String, value: String) -> Result<(), Refusal> {
        let mut entries = self.entries.lock().await;
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(&key) {
            return Err(Refusal::failed(format!(
                "The shared memory holds {MAX_ENTRIES} entries, which is all it takes. Write to a key that is there."
            )));
        }
        let signal = Signal::MemoryWritten { key: key.clone(), value: value.clone() };
        if let Err(why) = self.journal.write(vec![signal]).await {
            return Err(Refusal::failed(format!("The entry could not be kept: {why}.")));
        }
        entries.insert(key, value);
        Ok(())
    }
}

fn read_spec() -> ToolSpec {
    ToolSpec {
        name: READ.to_owned(),
        description: "Reads an entry that an agent of this workflow has written with `shared_memory_write`."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "key": { "type": "string", "description": "`agent/key`: the name of the agent that wrote it, and its key." }
            },
            "required": ["key"],
            "additionalProperties": false
        }),
        kind: ToolKind::Read,
    }
}

fn write_spec(namespace: &str) -> ToolSpec {
    ToolSpec {
        name: WRITE.to_owned(),
        description: format!(
            "Notes a text for the other agents of this workflow, which read it as `{namespace}/` and the key. What \
             the key held before is replaced."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "key": { "type": "string", "description": "A short name, without the agent's." },
                "value": { "type": "string", "description": "The text." }
            },
            "required": ["key", "value"],
            "additionalProperties": false
        }),
        // It changes nothing but what the agents of this run tell each other, so nobody needs to be asked.
        kind: ToolKind::Read,
    }
}

struct ReadTool {
    spec: Arc<ToolSpec>,
    memory: Arc<SharedMemory>,
}

impl Tool for ReadTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move {
            let key = match ArgReader::new(&self.spec, &args).filled_text("key") {
                Ok(key) => key.trim(),
                Err(refusal) => return refusal.into(),
            };
            self.memory.read(key).await.map_or_else(ToolOutcome::from, ToolOutcome::ok)
        })
    }
}

struct WriteTool {
    spec: Arc<ToolSpec>,
    memory: Arc<SharedMemory>,
    /// Whose entries it writes.
    namespace: String,
}

impl WriteTool {
    fn entry(&self, args: &Args) -> Result<(String, String), Refusal> {
        let reader = ArgReader::new(&self.spec, args);
        let key = format!("{}/{}", self.namespace, reader.filled_text("key")?.trim());
        let value = reader.text("value")?;
        if key.len() > MAX_KEY_BYTES {
            return Err(Refusal::arguments(format!("`key` is longer than {MAX_KEY_BYTES} bytes.")));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(Refusal::arguments(format!(
                "`value` is longer than {MAX_VALUE_BYTES} bytes; write it to a file, and its path here."
            )));
        }
        Ok((key, value.to_owned()))
    }
}

impl Tool for WriteTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move {
            let (key, value) = match self.entry(&args) {
                Ok(entry) => entry,
                Err(refusal) => return refusal.into(),
            };
            match self.memory.write(key, value).await {
                Ok(()) => ToolOutcome::ok("ok"),
                Err(refusal) => refusal.into(),
            }
        })
    }
}
