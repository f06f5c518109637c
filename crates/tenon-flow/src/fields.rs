//! Every field of a document, in one table per object: what it is called, what it takes, and what it means.
//!
//! The reader (`parse.rs`) knows its fields from here, so do the published schema (`document_schema.rs`) and the
//! reference; there is no second list.

use Need::{Optional, Required};
use Takes::{
    Duration, Expression, ExpressionMap, Items, List, Map, Name, Number, OneOf, Schema, ShortText, Text,
    TextList, TextMap, Whole, Word,
};

/// One field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub takes: Takes,
    pub need: Need,
    /// What holds when it is absent; empty where nothing does.
    pub default: &'static str,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
}

/// What a field takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    Text,
    /// A name or a path; empty is left out.
    Word,
    /// Text of at most this many bytes.
    ShortText(usize),
    /// Text that matches a pattern.
    Name(&'static str),
    /// `1h30m`.
    Duration,
    /// A CEL expression.
    Expression,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    TextList,
    TextMap,
    ExpressionMap,
    OneOf(&'static [&'static str]),
    /// A JSON Schema.
    Schema,
    /// Text of at most this many bytes, or an object that has it as its `message`.
    TextOr(usize, &'static Object),
    /// An expression, or a list of anything.
    Items,
    Object(&'static Object),
    Map(&'static Object),
    List(&'static Object),
}

/// An object of the document.
#[derive(Debug)]
pub struct Object {
    pub name: &'static str,
    /// As a message calls one of them.
    pub words: &'static str,
    pub fields: &'static [Field],
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        self.name == other.name
    }
}

impl Object {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

/// Descriptions and instructions, in bytes. Longer instructions belong into a file.
pub const MAX_TEXT_BYTES: usize = 2000;
/// Steps of a workflow, not counting those of loops and includes.
pub const MAX_STEPS: usize = 100;
/// A document, or a file that one refers to.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;
/// A name of a step or an agent.
pub const ID_PATTERN: &str = "^[a-z][a-z0-9_-]{0,63}$";
/// Ids of steps inside loops are less strict.
pub const LOOSE_ID_PATTERN: &str = "^[a-zA-Z][a-zA-Z0-9_-]*$";
/// Names of outputs become keys of the result.
pub const OUTPUT_PATTERN: &str = "^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$";
/// Counts above this are typing errors.
pub const MAX_COUNT: u64 = 1_000_000;
const MAX_TOKENS: u64 = i64::MAX as u64;
const MAX_USD: f64 = 1_000_000.0;

/// By which a JSON document names its schema.
pub const EDITORS: &str = "$schema";

const fn field(
    name: &'static str,
    takes: Takes,
    need: Need,
    default: &'static str,
    about: &'static str,
) -> Field {
    Field { name, takes, need, default, about }
}

pub static WORKFLOW: Object = Object {
    name: "workflow",
    words: "a workflow",
    fields: &[
        field("name", Text, Required, "", "What the workflow is called"),
        field("description", ShortText(MAX_TEXT_BYTES), Optional, "", "What it is for"),
        field("version", Whole(1, 1), Optional, "1", "The version of the format"),
        field("agents", Map(&AGENT), Optional, "", "The agents that steps name"),
        field("includes", TextMap, Optional, "", "Names for the files of other workflows"),
        field("inputs", Schema, Optional, "", "A JSON Schema of the object a run is given"),
        field("steps", List(&STEP), Required, "", "What is done: 1 to 100 steps"),
        field("outputs", ExpressionMap, Optional, "", "What a run gives back, by name"),
        field("options", Takes::Object(&OPTIONS), Optional, "", "How the whole runs"),
        field("budget", Takes::Object(&BUDGET), Optional, "", "What a whole run may spend"),
        field("prices", Map(&PRICE), Optional, "", "Prices of models, where the built-in ones do not hold"),
        field(
            EDITORS,
            Text,
            Optional,
            "",
            "Where editors find the schema of documents; means nothing to a run",
        ),
    ],
};

pub static AGENT: Object = Object {
    name: "agent",
    words: "an agent",
    fields: &[
        field("description", Text, Required, "", "What the agent is, for people and for events"),
        field("prompt", Text, Optional, "", "The system prompt; `@path` reads a file"),
        field(
            "model",
            Word,
            Optional,
            "the run's model",
            "The model, with its provider if it is not the default one",
        ),
        field(
            "tools",
            TextList,
            Optional,
            "every tool of the run but `agent`",
            "The only tools it may use, of those that the run has",
        ),
        field(
            "disallowedTools",
            TextList,
            Optional,
            "",
            "Tools taken from those, each with what can do the same",
        ),
        field(
            "maxTurns",
            Whole(0, MAX_COUNT),
            Optional,
            "50",
            "Model turns of one attempt; 0 is the default",
        ),
        field("temperature", Number(0.0, 2.0), Optional, "the model's", "How freely it answers"),
        field("topP", Number(0.0, 1.0), Optional, "the model's", "How many words it chooses from"),
        field("resultSchema", Schema, Optional, "", "The structured result it must submit"),
    ],
};

pub static STEP: Object = Object {
    name: "step",
    words: "a step",
    fields: &[
        field("id", Name(ID_PATTERN), Required, "", "Its name, unique in its list"),
        field("agent", Word, Optional, "an agent without a prompt", "One of `agents`"),
        field(
            "instructions",
            ShortText(MAX_TEXT_BYTES),
            Optional,
            "",
            "The task; `@path` reads a file, `${{ … }}` holds an expression. In a loop it may be longer",
        ),
        field(
            "dependsOn",
            TextList,
            Optional,
            "",
            "Steps of the same list that come before; their results are shown to the agent",
        ),
        field("contextFiles", TextList, Optional, "", "Files shown to the agent, from the document's folder"),
        field("model", Word, Optional, "the agent's model", "The model of this step"),
        field(
            "timeout",
            Duration,
            Optional,
            "`options.stepTimeout`",
            "For all attempts, and for all iterations of a loop",
        ),
        field("retries", Whole(0, MAX_COUNT), Optional, "0", "More attempts after one that failed"),
        field(
            "maxRetries",
            Whole(0, MAX_COUNT),
            Optional,
            "`options.maxRetries`",
            "How often one model call is tried again",
        ),
        field("condition", Expression, Optional, "", "The step is skipped unless this is true"),
        field("include", Word, Optional, "", "Another workflow: a name of `includes`, or a path"),
        field("loop", Takes::Object(&LOOP), Optional, "", "Do it again, or for each item"),
        field(
            "approve",
            Takes::TextOr(MAX_TEXT_BYTES, &APPROVE),
            Optional,
            "",
            "Ask a person, and do nothing else: the question, or an object",
        ),
    ],
};

pub static APPROVE: Object = Object {
    name: "approve",
    words: "`approve`",
    fields: &[
        field(
            "message",
            ShortText(MAX_TEXT_BYTES),
            Required,
            "",
            "The question; `${{ … }}` holds an expression",
        ),
        field("timeout", Duration, Optional, "none", "How long it waits, from when it is first asked"),
        field(
            "onTimeout",
            OneOf(&["deny", "approve", "fail"]),
            Optional,
            "deny",
            "What counts as the answer when nobody gave one in time; needs `timeout`",
        ),
        field(
            "onDeny",
            OneOf(&["fail", "continue"]),
            Optional,
            "fail",
            "Whether a step that was denied failed, or completed with `approved: false`",
        ),
        field("data", Schema, Optional, "", "A JSON Schema of what whoever approves must give"),
    ],
};

pub static LOOP: Object = Object {
    name: "loop",
    words: "a loop",
    fields: &[
        field(
            "maxIterations",
            Whole(1, u32::MAX as u64),
            Optional,
            "",
            "How often at most; required unless `forEach` is given",
        ),
        field("until", Expression, Optional, "", "Stop when this is true"),
        field("untilAgent", Word, Optional, "", "Stop when this agent submits `done: true`"),
        field("forEach", Items, Optional, "", "A list, or an expression that gives one"),
        field("maxConcurrency", Whole(0, MAX_COUNT), Optional, "all items", "Items at a time, at most 100"),
        field("delay", Duration, Optional, "0s", "Between iterations"),
        field(
            "steps",
            List(&STEP),
            Optional,
            "the step itself",
            "The body: steps without loops of their own",
        ),
        field(
            "outputMode",
            OneOf(&["last", "cumulative"]),
            Optional,
            "last",
            "Whether the step's content is the last iteration or all of them",
        ),
    ],
};

pub static OPTIONS: Object = Object {
    name: "options",
    words: "`options`",
    fields: &[
        field("maxConcurrency", Whole(0, MAX_COUNT), Optional, "5", "Steps at a time"),
        field(
            "onStepFailure",
            OneOf(&["cascade", "skip-dependents", "abort"]),
            Optional,
            "cascade",
            "What becomes of the steps that depend on one that failed",
        ),
        field("timeout", Duration, Optional, "none", "For the whole run"),
        field("stepTimeout", Duration, Optional, "none", "For each step without a `timeout`"),
        field(
            "isolation",
            Text,
            Optional,
            "",
            "`worktree`, or `worktree-per-step`, gives each step a git worktree of its own, those of included workflows too; `none` is the same as nothing",
        ),
        field(
            "scheduler",
            OneOf(&["dependency-first", "round-robin", "least-busy"]),
            Optional,
            "dependency-first",
            "Which of several ready steps starts first",
        ),
        field(
            "maxRetries",
            Whole(0, MAX_COUNT),
            Optional,
            "`retry.attempts` of the settings, less 1",
            "How often one model call is tried again",
        ),
    ],
};

pub static BUDGET: Object = Object {
    name: "budget",
    words: "`budget`",
    fields: &[
        field("maxUsd", Number(0.0, MAX_USD), Optional, "", "Dollars"),
        field("maxTokens", Whole(1, MAX_TOKENS), Optional, "", "Tokens of the whole run, in and out"),
        field("maxTurns", Whole(1, MAX_COUNT), Optional, "", "Answers of models in the whole run"),
    ],
};

pub static PRICE: Object = Object {
    name: "price",
    words: "a price",
    fields: &[
        field("input", Number(0.0, MAX_USD), Required, "", "Dollars per million tokens of input"),
        field("output", Number(0.0, MAX_USD), Required, "", "Dollars per million tokens of output"),
        field(
            "cacheRead",
            Number(0.0, MAX_USD),
            Optional,
            "`input`",
            "Dollars per million tokens read from a cache",
        ),
        field(
            "cacheWrite",
            Number(0.0, MAX_USD),
            Optional,
            "`input`",
            "Dollars per million tokens written to a cache",
        ),
    ],
};

/// All of them, outermost first.
pub static OBJECTS: [&Object; 8] = [&WORKFLOW, &AGENT, &STEP, &APPROVE, &LOOP, &OPTIONS, &BUDGET, &PRICE];
