//! Hooks: programs, servers and callbacks that are told what happens in a run, and may have a say in it.
//!
//! [`Hooks::fire`] finds the hooks of an event, runs them side by side or in turn, and merges what they
//! say, in the order of the settings. What they are told is in `hook_input.rs`, what they may answer in
//! `hook_reply.rs`, how they are run in `hook_command.rs` and `hook_http.rs`. What follows from a decision is
//! the agent's business.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fancy_regex::{Regex, RegexBuilder};
use futures_util::future::join_all;
use serde_json::Value;
use tenon_core::{
    Cancel, Client, ClientError, EventKind, Hook, HookCall, HookEnd, HookEvent, HookOrder, HookPower,
    HookReport, HookRule, HookRun, HookStart, HookWait, NoClient, OnHookError, TraceContext,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::NetOptions;
use crate::hook_command::CommandHook;
use crate::hook_http::HttpHook;
use crate::hook_input::{Common, HookAgent, HookInput};
use crate::hook_reply::{HookDecision, HookSays, Reply, shortened};
use crate::rule::aliases_of;

/// Long enough to ask a service, short enough that a stuck hook is noticed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often hooks may send the model back to work: enough for a stubborn check, and an end to a circle.
const STOP_CAP: u32 = 8;
/// How long hooks that nobody waits for may go on after the run.
const AFTER_THE_RUN: Duration = Duration::from_secs(5);
/// A compiled matcher may take this much memory; names are short.
const MATCHER_SIZE: usize = 1024 * 1024;
/// How long a matcher that looks around may try.
const MATCHER_STEPS: usize = 100_000;
/// A hook without a name is called by the beginning of its command.
const NAME_CHARS: usize = 60;
/// How much of what a hook printed whoever watches the run is shown.
const OUTPUT_SHOWN: usize = 4000;
/// Stands for what a hook said about the final answer: warnings are stored, payloads are not.
const UNSHOWN: &str = "(not shown, it may quote the payload)";

impl Hooks {
    /// Tells everyone who wants to know, and says what they say together.
    pub async fn fire(&self, input: &HookInput, ctx: &HookCtx) -> HookDecision {
        let chosen = self.chosen(input);
        if chosen.is_empty() {
            return HookDecision::default();
        }
        let in_turn = chosen.iter().any(|chosen| chosen.rule.order == HookOrder::InTurn);
        let mut decision = HookDecision::default();
        if in_turn {
            let mut input = input.clone();
            for chosen in chosen {
                let reply = self.run(chosen, &input, ctx).await;
                let updated = reply.updated_input.clone();
                // In turn, each changes what the one before it left.
                if updated.is_some() {
                    decision.updated_input = None;
                }
                if reply.updated_output.is_some() {
                    decision.updated_output = None;
                }
                decision.add(reply);
                if decision.denied().is_some() || decision.stop.is_some() {
                    break;
                }
                if let Some(raw) = updated.and_then(|args| serde_json::value::to_raw_value(&args).ok()) {
                    input = input.with_input(raw);
                }
            }
        } else {
            let replies = join_all(chosen.into_iter().map(|chosen| self.run(chosen, input, ctx))).await;
            let mut gave_way = false;
            for reply in replies {
                gave_way |= decision.add(reply);
            }
            if gave_way {
                ctx.warn(format!(
                    "several `{}` hooks changed the arguments; those of the first one count (`sequential` lets each see the others' changes)",
                    input.event().name()
                ));
            }
        }
        self.without_power(input.event(), decision, ctx)
    }

    /// Whether anybody wants to know of this event. Saves the work of describing it.
    pub fn listen_to(&self, event: HookEvent) -> bool {
        self.shared.rules.iter().any(|rule| rule.event == event)
    }

    /// How often hooks may keep a run from stopping.
    pub fn stop_cap(&self) -> u32 {
        self.shared.options.stop_cap
    }

    /// The same hooks in a sub-agent: they are told whose events these are.
    #[must_use]
    pub fn for_agent(&self, agent: HookAgent) -> Hooks {
        Hooks { shared: Arc::clone(&self.shared), agent: Some(Arc::new(agent)) }
    }

    /// The sub-agent whose hooks these are.
    pub fn agent(&self) -> Option<&HookAgent> {
        self.agent.as_deref()
    }

    /// Lets hooks that nobody waited for come to their end, for a while; then they are stopped.
    pub async fn finish(&self) {
        let mut left = std::mem::take(&mut *self.background());
        let _ = timeout(AFTER_THE_RUN, async { while left.join_next().await.is_some() {} }).await;
    }
}

/// The hooks of a run. Cheap to clone.
#[derive(Clone)]
pub struct Hooks {
    shared: Arc<Shared>,
    agent: Option<Arc<HookAgent>>,
}

struct Shared {
    rules: Vec<ReadyRule>,
    options: HookOptions,
    common: Common,
    background: Mutex<JoinSet<()>>,
    /// How many hooks have been started.
    started: Arc<AtomicU64>,
}

/// What hooks need besides the event. `NetOptions` keeps this from being `Debug`.
#[derive(Clone)]
pub struct HookOptions {
    /// In the order of the settings.
    pub rules: Vec<HookRule>,
    /// The whole environment of command hooks; secrets are already taken out.
    pub environment: Vec<(OsString, OsString)>,
    pub session_id: String,
    /// The session's file, when there is one.
    pub transcript: Option<PathBuf>,
    pub cwd: PathBuf,
    pub project_root: PathBuf,
    /// For command and HTTP hooks that name no limit.
    pub timeout: Duration,
    /// For callbacks that name no limit.
    pub client_timeout: Duration,
    pub stop_cap: u32,
    pub net: NetOptions,
}

impl Default for HookOptions {
    fn default() -> HookOptions {
        HookOptions {
            rules: Vec::new(),
            environment: Vec::new(),
            session_id: String::new(),
            transcript: None,
            cwd: PathBuf::from("/"),
            project_root: PathBuf::from("/"),
            timeout: TIMEOUT,
            client_timeout: TIMEOUT,
            stop_cap: STOP_CAP,
            net: NetOptions::default(),
        }
    }
}

/// Who is running when hooks are told.
#[derive(Clone)]
pub struct HookCtx {
    pub cancel: Cancel,
    pub client: Arc<dyn Client>,
    pub permission_mode: &'static str,
    pub trace: Option<TraceContext>,
    /// Says things on the run's behalf: warnings, and which hooks ran.
    pub tell: Arc<dyn Fn(EventKind) + Send + Sync>,
}

impl HookCtx {
    /// Nobody is there and nobody listens.
    pub fn alone(cancel: Cancel) -> HookCtx {
        HookCtx {
            cancel,
            client: Arc::new(NoClient),
            permission_mode: tenon_core::ApprovalMode::default().name(),
            trace: None,
            tell: Arc::new(|_| {}),
        }
    }

    fn warn(&self, message: String) {
        (self.tell)(EventKind::Warning { message });
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the matcher `{matcher}` of a `{event}` hook is not a regular expression: {why}")]
pub struct HookError {
    pub event: &'static str,
    pub matcher: String,
    pub why: String,
}

/// What a hook that ran to its end said.
pub(crate) struct Ran {
    pub reply: Reply,
    pub code: Option<i32>,
    /// What it printed or answered.
    pub stdout: String,
    pub stderr: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    Broken { why: String, code: Option<i32> },
    TimedOut(Duration),
    Cancelled,
}

impl Failed {
    pub fn broken(why: impl Into<String>) -> Failed {
        Failed::Broken { why: why.into(), code: None }
    }
}

#[derive(Clone)]
struct ReadyRule {
    event: HookEvent,
    matcher: Option<Matcher>,
    order: HookOrder,
    layer: tenon_core::HookLayer,
    hooks: Vec<Hook>,
}

#[derive(Clone)]
struct Matcher {
    /// Anywhere in the subject.
    part: Regex,
    /// All of one of the tool's other names.
    whole: Regex,
}

impl Matcher {
    fn new(pattern: &str) -> Result<Option<Matcher>, fancy_regex::Error> {
        if matches!(pattern, "" | "*") {
            return Ok(None);
        }
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .delegate_size_limit(MATCHER_SIZE)
                .backtrack_limit(MATCHER_STEPS)
                .build()
        };
        Ok(Some(Matcher { part: build(pattern)?, whole: build(&format!("^(?:{pattern})$"))? }))
    }

    fn matches(&self, subject: &str) -> bool {
        // One that gives up may be that of a guard: it fits.
        let fits = |regex: &Regex, name: &str| regex.is_match(name).unwrap_or(true);
        fits(&self.part, subject) || aliases_of(subject).any(|alias| fits(&self.whole, alias))
    }
}

#[derive(Clone, Copy)]
struct Chosen<'a> {
    rule: &'a ReadyRule,
    hook: &'a Hook,
}

fn ready(rules: Vec<HookRule>) -> Result<Vec<ReadyRule>, HookError> {
    rules
        .into_iter()
        .map(|rule| {
            let matcher = Matcher::new(&rule.matcher).map_err(|error| HookError {
                event: rule.event.name(),
                matcher: rule.matcher.clone(),
                why: error.to_string(),
            })?;
            let HookRule { event, order, layer, hooks, .. } = rule;
            Ok(ReadyRule { event, matcher, order, layer, hooks })
        })
        .collect()
}

impl Hooks {
    pub fn none() -> Hooks {
        let shared = Shared {
            rules: Vec::new(),
            options: HookOptions::default(),
            common: Common::default(),
            background: Mutex::default(),
            started: Arc::default(),
        };
        Hooks { shared: Arc::new(shared), agent: None }
    }

    pub fn new(mut options: HookOptions) -> Result<Hooks, HookError> {
        let rules = ready(std::mem::take(&mut options.rules))?;
        Ok(Hooks::of(rules, options, Arc::default()))
    }

    /// The same, and these after them.
    pub fn with_rules(&self, more: Vec<HookRule>) -> Result<Hooks, HookError> {
        let mut rules = self.shared.rules.clone();
        rules.extend(ready(more)?);
        let hooks = Hooks::of(rules, self.shared.options.clone(), Arc::clone(&self.shared.started));
        Ok(Hooks { agent: self.agent.clone(), ..hooks })
    }

    /// The same in another session.
    #[must_use]
    pub fn in_session(&self, session_id: String, transcript: Option<PathBuf>) -> Hooks {
        let options = HookOptions { session_id, transcript, ..self.shared.options.clone() };
        let hooks = Hooks::of(self.shared.rules.clone(), options, Arc::clone(&self.shared.started));
        Hooks { agent: self.agent.clone(), ..hooks }
    }

    fn of(rules: Vec<ReadyRule>, options: HookOptions, started: Arc<AtomicU64>) -> Hooks {
        let common = Common {
            session_id: options.session_id.clone(),
            transcript: options.transcript.clone(),
            cwd: options.cwd.clone(),
        };
        let shared = Shared { rules, options, common, background: Mutex::default(), started };
        Hooks { shared: Arc::new(shared), agent: None }
    }

    fn chosen(&self, input: &HookInput) -> Vec<Chosen<'_>> {
        let event = input.event();
        let subject = input.subject(self.agent());
        self.shared
            .rules
            .iter()
            .filter(|rule| rule.event == event)
            .filter(|rule| match (&rule.matcher, subject) {
                (None, _) => true,
                (Some(matcher), Some(subject)) => matcher.matches(subject),
                (Some(_), None) => false,
            })
            .flat_map(|rule| rule.hooks.iter().map(move |hook| Chosen { rule, hook }))
            .collect()
    }

    /// Runs one hook, tells that it ran, and turns a failure into what it means.
    async fn run(&self, chosen: Chosen<'_>, input: &HookInput, ctx: &HookCtx) -> Reply {
        let Chosen { rule, hook } = chosen;
        let event = rule.event;
        let name = name_of(hook);
        let text = input.to_json(&self.shared.common, ctx.permission_mode, self.agent());
        let id = self.shared.started.fetch_add(1, Ordering::Relaxed) + 1;
        (ctx.tell)(EventKind::HookStarted(HookStart {
            id,
            event,
            name: name.clone(),
            status_message: hook.status_message.clone(),
        }));
        let report = |end, exit_code, started: Instant, [stdout, stderr]: [&str; 2]| {
            (ctx.tell)(EventKind::HookEnded(HookReport {
                id,
                event,
                name: name.clone(),
                end,
                exit_code,
                duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                stdout: shortened(stdout, OUTPUT_SHOWN),
                stderr: shortened(stderr, OUTPUT_SHOWN),
            }));
        };
        let about_payload = input.call().is_some_and(|call| call.terminal);
        let shown = |words: &str| if about_payload { UNSHOWN.to_owned() } else { words.to_owned() };
        let started = Instant::now();
        if hook.wait == HookWait::Not {
            self.start_and_leave(hook, text, input, ctx);
            report(HookEnd::Started, None, started, ["", ""]);
            return Reply::default();
        }
        let tool_use_id = input.call().map(|call| call.id.clone());
        let failed = match self.run_by_kind(&hook.run, text, tool_use_id, ctx).await {
            Ok(Ran { reply, code, stdout, stderr }) => {
                let end = match reply.says {
                    HookSays::Deny { .. } => HookEnd::Blocked,
                    _ => HookEnd::Success,
                };
                report(end, code, started, [&stdout, &stderr]);
                if let Some(message) = reply.message.as_deref().map(&shown) {
                    ctx.warn(format!("the `{}` hook `{name}` says: {message}", event.name()));
                }
                return reply;
            }
            Err(failed) => failed,
        };
        let (end, code, why) = match failed {
            Failed::Broken { why, code } => (HookEnd::Failed, code, why),
            Failed::TimedOut(after) => {
                (HookEnd::TimedOut, None, format!("it did not answer within {} ms", after.as_millis()))
            }
            Failed::Cancelled => (HookEnd::Cancelled, None, "the run was stopped".to_owned()),
        };
        report(end, code, started, ["", &why]);
        if end != HookEnd::Cancelled {
            ctx.warn(format!("the `{}` hook `{name}` failed: {}", event.name(), shown(&why)));
        }
        match hook.on_error(event, rule.layer) {
            OnHookError::Block => Reply::denied(&format!("the hook `{name}` that guards it failed: {why}")),
            OnHookError::Warn => Reply::default(),
        }
    }

    async fn run_by_kind(
        &self,
        run: &HookRun,
        text: String,
        tool_use_id: Option<String>,
        ctx: &HookCtx,
    ) -> Result<Ran, Failed> {
        let options = &self.shared.options;
        let trace = ctx.trace.as_ref();
        match run {
            HookRun::Command { command, shell, env, timeout } => {
                let timeout = timeout.unwrap_or(options.timeout);
                CommandHook { command, shell: *shell, env, timeout }
                    .run(text, options, trace, &ctx.cancel)
                    .await
            }
            HookRun::Http { url, headers, timeout } => {
                let timeout = timeout.unwrap_or(options.timeout);
                HttpHook { url, headers, timeout }.run(text, options, trace, &ctx.cancel).await
            }
            HookRun::Client { callback_id, timeout } => {
                let limit = timeout.unwrap_or(options.client_timeout);
                let input = serde_json::from_str(&text).unwrap_or(Value::Null);
                let call = HookCall { callback_id: callback_id.clone(), input, tool_use_id, at_most: limit };
                ask_client(call, ctx).await
            }
        }
    }

    fn start_and_leave(&self, hook: &Hook, text: String, input: &HookInput, ctx: &HookCtx) {
        let (hooks, run) = (self.clone(), hook.run.clone());
        let tool_use_id = input.call().map(|call| call.id.clone());
        // A token of its own: the run may end before the hook does.
        let ctx = HookCtx { cancel: Cancel::new(), ..ctx.clone() };
        self.background().spawn(async move {
            // Nobody waits for the answer, so there is nobody to tell how it went.
            let _ = hooks.run_by_kind(&run, text, tool_use_id, &ctx).await;
        });
    }

    fn background(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.shared.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event that only watches has no say; saying no there is told to people.
    fn without_power(&self, event: HookEvent, mut decision: HookDecision, ctx: &HookCtx) -> HookDecision {
        if event.power() == HookPower::Watches
            && let Some(reason) = decision.denied()
        {
            ctx.warn(format!("a `{}` hook said no, which has no effect there: {reason}", event.name()));
            decision.says = HookSays::Nothing;
        }
        decision
    }
}

async fn ask_client(call: HookCall, ctx: &HookCtx) -> Result<Ran, Failed> {
    let (limit, id) = (call.at_most, call.callback_id.clone());
    let unusable = |why: String| {
        ctx.client.unusable_answer(format!("`hook_callback` of `{id}`: {why}"));
        Failed::broken(why)
    };
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(Failed::Cancelled),
        answered = ctx.client.hook(call, ctx.cancel.child_token()) => match answered {
            Err(ClientError::TimedOut) => Err(Failed::TimedOut(limit)),
            Err(ClientError::Stopped) => Err(Failed::Cancelled),
            Err(error) => Err(Failed::broken(error.to_string())),
            Ok(answer) => {
                let reply = match &answer.0 {
                    Value::Null => Reply::default(),
                    Value::Object(object) => Reply::from_object(object).map_err(unusable)?,
                    _ => return Err(unusable("its answer is not an object".to_owned())),
                };
                Ok(Ran { reply, code: None, stdout: answer.0.to_string(), stderr: String::new() })
            }
        },
    }
}

/// What messages call a hook. Addresses lose what may be a secret.
fn name_of(hook: &Hook) -> String {
    match (&hook.name, &hook.run) {
        (Some(name), _) => shortened(name, NAME_CHARS),
        (None, HookRun::Command { command, .. }) => {
            shortened(&command.split_whitespace().collect::<Vec<_>>().join(" "), NAME_CHARS)
        }
        (None, HookRun::Http { url, .. }) => match reqwest::Url::parse(url) {
            Ok(url) => {
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                let host = url.host_str().unwrap_or_default();
                shortened(&format!("{}://{host}{port}{}", url.scheme(), url.path()), NAME_CHARS)
            }
            Err(_) => "an address".to_owned(),
        },
        (None, HookRun::Client { callback_id, .. }) => shortened(callback_id, NAME_CHARS),
    }
}
