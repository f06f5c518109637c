//! Where a run stands in a distributed trace: W3C trace context, in from whoever started us and out to
//! what we start.
//!
//! The span of a tool call follows from the run's span and the call's id, so that whoever exports spans
//! (`tenon-telemetry`) and the child that names one as its parent agree without talking.

use std::sync::Arc;

use crate::id::mix;

/// `tracestate` is somebody else's data, passed on as it came; the standard lets us drop what is longer.
const MAX_STATE: usize = 512;
const SAMPLED: u8 = 1;
/// What a call's id is mixed with, so that an agent and the call that started it have different spans.
const AGENT: &str = "\u{0}agent";

/// The span that children name as their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
    spans: Spans,
}

/// Who records the spans below this context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spans {
    /// We do: calls and agents get spans of their own.
    Ours,
    /// Nobody here does, so what we start belongs to the span that we belong to.
    PassedOn,
}

impl TraceContext {
    /// Reads `TRACEPARENT` and `TRACESTATE`. `None` for anything the standard calls invalid. Children of this
    /// context are children of the span it names; see [`TraceContext::recorded`].
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
        let text = traceparent.trim();
        let version = hex(text.get(..2)?)?;
        let (rest, more) = (text.get(2..55)?, text.get(55..)?);
        // A later version may add fields at the end; this one has none.
        let well_ended =
            if version == 0 { more.is_empty() } else { more.is_empty() || more.starts_with('-') };
        let mut fields = rest.strip_prefix('-')?.split('-');
        let (trace_id, span_id, flags) = (fields.next()?, fields.next()?, fields.next()?);
        let well_cut =
            trace_id.len() == 32 && span_id.len() == 16 && flags.len() == 2 && fields.next().is_none();
        if version == 0xff || !well_ended || !well_cut {
            return None;
        }
        let context = TraceContext {
            trace_id: hex(trace_id)?,
            span_id: u64::try_from(hex(span_id)?).ok()?,
            flags: u8::try_from(hex(flags)?).ok()? & SAMPLED,
            state: tracestate.map(str::trim).filter(|state| is_passable(state)).map(Arc::from),
            spans: Spans::PassedOn,
        };
        (context.trace_id != 0 && context.span_id != 0).then_some(context)
    }

    /// A trace that begins here, from 16 random bytes.
    pub fn start(random: u128) -> TraceContext {
        let trace_id = random.max(1);
        let span_id = nonzero(mix(random as u64 ^ mix((random >> 64) as u64)));
        TraceContext { trace_id, span_id, flags: SAMPLED, state: None, spans: Spans::Ours }
    }

    /// A span of ours below this one, from 8 random bytes: from here on spans are recorded here.
    #[must_use]
    pub fn recorded(&self, random: u64) -> TraceContext {
        TraceContext { span_id: nonzero(random), spans: Spans::Ours, ..self.clone() }
    }

    /// The context of a tool call made in the span that this context names.
    #[must_use]
    pub fn call(&self, call_id: &str) -> TraceContext {
        self.below(call_id)
    }

    /// The context of an agent that works for the tool call that this context names.
    #[must_use]
    pub fn agent(&self) -> TraceContext {
        self.below(AGENT)
    }

    /// A span with a name of its own below this one: the same name, the same span.
    #[must_use]
    pub fn below(&self, name: &str) -> TraceContext {
        match self.spans {
            Spans::PassedOn => self.clone(),
            Spans::Ours => {
                let mut id = mix(self.span_id ^ mix(name.len() as u64));
                for chunk in name.as_bytes().chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    id = mix(id ^ u64::from_le_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
                }
                TraceContext { span_id: nonzero(id), ..self.clone() }
            }
        }
    }

    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whoever began the trace wants it recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The header or variable `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// What the environment of a child gets; `None` takes the variable out of it.
    pub fn variables(&self) -> [(&'static str, Option<String>); 2] {
        [("TRACEPARENT", Some(self.traceparent())), ("TRACESTATE", self.state().map(str::to_owned))]
    }
}

/// Lower-case digits only, as the standard has it.
fn hex(text: &str) -> Option<u128> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !text.bytes().all(is_hex) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

fn is_passable(state: &str) -> bool {
    !state.is_empty() && state.len() <= MAX_STATE && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Zero means "no span".
fn nonzero(id: u64) -> u64 {
    id.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_comes_in_goes_out_while_nobody_records_here() {
        let context = TraceContext::parse(PARENT, Some("vendor=1,other=2")).expect("valid");
        assert!(context.is_sampled());
        let child = context.call("call_1").agent();
        assert_eq!(child, context);
        assert_eq!(
            child.variables(),
            [("TRACEPARENT", Some(PARENT.to_owned())), ("TRACESTATE", Some("vendor=1,other=2".to_owned()))]
        );
    }

    #[test]
    fn a_recorded_context_keeps_the_trace_and_derives_its_spans() {
        let run = TraceContext::parse(PARENT, Some("a=b")).expect("valid").recorded(7);
        assert_eq!(run.traceparent(), "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01");
        let call = run.call("call_1");
        assert_eq!(call, run.call("call_1"), "the same call, the same span");
        let others = [
            run.call("call_2"),
            run.call("call_1\0"),
            run.call(""),
            call.agent(),
            call.call("call_1"),
            run.clone(),
        ];
        for other in others {
            assert_ne!(other.span_id(), call.span_id(), "{other:?}");
            assert_eq!((other.trace_id(), other.state()), (call.trace_id(), Some("a=b")));
        }
    }

    #[test]
    fn what_the_standard_calls_invalid_is_no_context() {
        let long = format!("{PARENT}-more");
        let later = long.replacen("00-", "01-", 1);
        let cases = [
            ("", false),
            (PARENT, true),
            ("  00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\n", true),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1", false),
            ("00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01", false),
            (&long, false),
            (&later, true),
        ];
        for (text, valid) in cases {
            assert_eq!(TraceContext::parse(text, None).is_some(), valid, "{text:?}");
        }
        for state in ["", "é=1", "a=\nb", &"x".repeat(513)] {
            assert_eq!(TraceContext::parse(PARENT, Some(state)).expect("valid").state(), None, "{state:?}");
        }
    }

    #[test]
    fn a_trace_that_begins_here_has_no_zero_ids() {
        for random in [0, 1, u128::MAX] {
            let context = TraceContext::start(random);
            assert!(context.trace_id() != 0 && context.span_id() != 0 && context.is_sampled());
            assert!(TraceContext::parse(&context.traceparent(), None).is_some());
        }
    }
}
