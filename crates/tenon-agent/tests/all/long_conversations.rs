//! Conversations that do not fit: what is asked, what is kept, and what happens when nothing helps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tenon_core::{
    Delta, Ending, ErrorClass, EventKind, FinishReason, Message, ModelError, ModelFacts, Part, Request, Role,
    ToolCall, ToolResult, TurnRecord, Usage,
};
use tenon_testkit::cases;

use crate::script::{Answer, Played, Scene, calls, text};

/// The tokens of a request as its provider counts them.
fn tokens(request: &Request) -> u64 {
    let part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.content.len(),
        Part::Thinking { .. } | Part::Media(_) => 0,
    };
    let tools: usize =
        request.tools.iter().map(|tool| tool.name.len() + tool.parameters.to_string().len()).sum();
    let messages: usize = request.messages.iter().flat_map(|message| &message.parts).map(part).sum();
    ((request.system.len() + tools + messages) / 3) as u64
}

fn counted(request: &Request, mut answer: Answer) -> Answer {
    let said = |delta: &Result<Delta, ModelError>| match delta {
        Ok(Delta::Text(text) | Delta::ToolCallArguments { fragment: text, .. }) => text.len(),
        _ => 0,
    };
    let (input, output) = (tokens(request), answer.iter().map(said).sum::<usize>() as u64 / 3);
    answer.push(Ok(Delta::Usage(Usage { input, output, total: input + output, ..Usage::default() })));
    answer
}

fn is_summary(request: &Request) -> bool {
    request.tools.is_empty() && request.messages[0].text().starts_with("<conversation>")
}

/// A model with this much context that calls `look` for as many bytes as the list says, then is done.
fn worker(outputs: Vec<u64>, summary: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Scene {
    let turn = AtomicU64::new(0);
    Scene::reacting(move |request| {
        if is_summary(request) {
            return counted(request, summary(request));
        }
        let at = turn.fetch_add(1, Ordering::Relaxed);
        let answer = match outputs.get(usize::try_from(at).unwrap()) {
            Some(bytes) => calls(&[(&format!("c{at}"), "look", &format!(r#"{{"n":{at},"bytes":{bytes}}}"#))]),
            None => text("Done."),
        };
        counted(request, answer)
    })
}

fn window(tokens: u64) -> ModelFacts {
    ModelFacts { max_input: Some(tokens), ..ModelFacts::default() }
}

fn notes(_: &Request) -> Answer {
    text("These are the notes.")
}

fn requests(played: &Played) -> Vec<Request> {
    played.model.requests.lock().unwrap().clone()
}

fn compactions(played: &Played) -> Vec<(u64, u64)> {
    let compacted = |kind: &EventKind| match kind {
        EventKind::Compacted { before_tokens, after_tokens, .. } => Some((*before_tokens, *after_tokens)),
        _ => None,
    };
    played.events.iter().filter_map(|event| compacted(&event.kind)).collect()
}

fn warnings(played: &Played) -> Vec<String> {
    let warning = |kind: &EventKind| match kind {
        EventKind::Warning { message } => Some(message.clone()),
        _ => None,
    };
    played.events.iter().filter_map(|event| warning(&event.kind)).collect()
}

/// Every message in short: what was said, called and answered.
fn shape(request: &Request) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("call {}", call.id),
        Part::ToolResult(result) => {
            format!("{}: {}", result.call_id, result.content.trim_end_matches('x'))
        }
        Part::Thinking { .. } | Part::Media(_) => String::new(),
    };
    request
        .messages
        .iter()
        .map(|message| message.parts.iter().map(part).collect::<Vec<_>>().join(" | "))
        .collect()
}

fn failure(played: &Played) -> (&'static str, String) {
    match &played.outcome.ending {
        Ending::Failure(failure) => (failure.class.name(), failure.message.clone()),
        Ending::Success(success) => panic!("{success:?}"),
    }
}

const NOTES: &str = "prompt | \n\n[The conversation up to here was replaced by these notes to save room.]\nThese are the notes.\n[End of the notes. Go on with the task from here.]";

#[test]
fn older_turns_become_notes_and_the_task_and_the_last_turns_stay() {
    let played = worker(vec![6000, 3000, 6000], notes).facts(window(5000)).play();
    assert_eq!(played.class(), "success");
    let requests = requests(&played);
    let kinds: Vec<bool> = requests.iter().map(is_summary).collect();
    assert_eq!(kinds, [false, false, false, true, false], "the third answer fills the context");
    let summary = &requests[3];
    assert!(summary.terminal_tool.is_none() && summary.response_format.is_none());
    assert_eq!(summary.max_output_tokens, Some(800));
    let told = summary.messages[0].text();
    for (words, there) in
        [("[user] prompt", true), ("[look answered] ran c0xxx", true), ("ran c1", true), ("ran c2", false)]
    {
        assert_eq!(told.contains(words), there, "{words}");
    }
    assert_eq!(shape(&requests[4]), [NOTES, "call c2", "c2: ran c2"]);
    assert_eq!(requests[4].tools, requests[0].tools);
    let [(before, after)] = compactions(&played)[..] else { panic!("{:?}", compactions(&played)) };
    assert!(before >= 4000 && after < 3000, "{before} {after}");
    // The requests of a run are counted, its turns are not more than before.
    assert_eq!((played.outcome.turns, played.outcome.metrics.models["scripted"].requests), (4, 5));
    let asked: u64 = requests.iter().map(tokens).sum();
    assert_eq!(played.outcome.usage().input, asked);
    let kept: Vec<Vec<Message>> = played
        .journal
        .records()
        .into_iter()
        .filter_map(|record| match record {
            TurnRecord::Compacted { messages, .. } => Some(messages),
            _ => None,
        })
        .collect();
    assert_eq!(kept.len(), 1);
    let kept = Request { messages: kept[0].clone(), ..requests[4].clone() };
    assert_eq!(shape(&kept), shape(&requests[4]));
}

#[test]
fn as_many_turns_stay_as_have_room() {
    let played = worker(vec![9000, 300, 300, 300, 2400], notes).facts(window(5000)).play();
    let last = requests(&played).pop().unwrap();
    assert_eq!(
        shape(&last)[1..],
        ["call c1", "c1: ran c1", "call c2", "c2: ran c2", "call c3", "c3: ran c3", "call c4", "c4: ran c4"]
    );
}

#[test]
fn notes_are_summarised_again_when_the_context_fills_again() {
    let times = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&times);
    let summary = move |request: &Request| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        let told = request.messages[0].text();
        assert_eq!(told.contains("Notes 0."), n > 0, "the second summary knows the first");
        text(&format!("Notes {n}."))
    };
    let played = worker(vec![6000, 6000, 2000, 2000, 6000, 2000], summary).facts(window(5000)).play();
    assert_eq!((played.class(), compactions(&played).len()), ("success", 2));
    let last = requests(&played).pop().unwrap();
    let first = &shape(&last)[0];
    assert!(
        first.starts_with("prompt | ") && first.contains("Notes 1.") && !first.contains("Notes 0."),
        "{first}"
    );
}

#[test]
fn a_contract_is_fulfilled_after_a_compaction_and_no_payload_is_in_the_notes() {
    let schema = r#"{"type":"object","properties":{"risk":{"enum":["low"]}},"required":["risk"]}"#;
    let turn = AtomicU64::new(0);
    let scene = Scene::reacting(move |request| {
        if is_summary(request) {
            let told = request.messages[0].text();
            assert!(!told.contains("hgih") && told.contains("__redacted"), "{told}");
            return counted(request, notes(request));
        }
        let answer = match turn.fetch_add(1, Ordering::Relaxed) {
            0 => calls(&[("t0", "structured_output", r#"{"risk":"hgih"}"#)]),
            1 => calls(&[("c1", "look", r#"{"bytes":6000}"#)]),
            2 => calls(&[("c2", "look", r#"{"bytes":7000}"#)]),
            _ => calls(&[("t3", "structured_output", r#"{"risk":"low"}"#)]),
        };
        counted(request, answer)
    });
    let played = scene.schema(schema).facts(window(5000)).play();
    assert_eq!((played.payload(), compactions(&played).len()), (Some(r#"{"risk":"low"}"#), 1));
    let last = requests(&played).pop().unwrap();
    assert_eq!(last.terminal_tool.as_deref(), Some("structured_output"));
    assert_eq!(last.tools.last().unwrap().name, "structured_output");
}

#[test]
fn what_was_said_before_the_prompt_is_summarised_and_the_prompt_stays() {
    let said = |role, text: &str| Message { role, parts: vec![Part::Text { text: text.into() }] };
    let mut scene = worker(Vec::new(), notes).facts(window(5000));
    scene.history =
        vec![said(Role::User, "an old question"), said(Role::Assistant, &"old answer ".repeat(2000))];
    let played = scene.play();
    let requests = requests(&played);
    assert!(is_summary(&requests[0]) && requests[0].messages[0].text().contains("an old question"));
    assert_eq!(shape(&requests[1]), [NOTES]);
}

#[test]
fn a_summary_that_is_none_is_replaced_by_leaving_out_older_outputs() {
    let broken = |request: &Request| -> Answer {
        let _ = request;
        vec![Err(ModelError::new(ErrorClass::Network, "the line is dead"))]
    };
    let refused =
        |_: &Request| vec![Ok(Delta::Text("No.".into())), Ok(Delta::Finished(FinishReason::Refused))];
    type Summary = Box<dyn Fn(&Request) -> Answer + Send + Sync>;
    let table: [(Summary, &str); 4] = [
        (Box::new(|_| text("")), "the model wrote nothing"),
        (Box::new(|_| text(&"long ".repeat(5000))), "longer than what it would replace"),
        (Box::new(refused), "the model refused"),
        (Box::new(broken), "the line is dead"),
    ];
    for (summary, why) in table {
        let played = worker(vec![6000, 300, 6000], summary).facts(window(5000)).play();
        assert_eq!(played.class(), "success", "{why}");
        let told = warnings(&played);
        assert!(told.len() == 1 && told[0].contains(why), "{why}: {told:?}");
        let requests = requests(&played);
        let summaries = requests.iter().filter(|request| is_summary(request)).count();
        assert_eq!(summaries, 1, "{why}: asked once");
        let left_out = "c0: [output of 6006 bytes left out to save room]";
        assert_eq!(
            shape(requests.last().unwrap()),
            ["prompt", "call c0", left_out, "call c1", "c1: ran c1", "call c2", "c2: ran c2"],
            "{why}"
        );
        assert_eq!(compactions(&played).len(), 1, "{why}");
    }
}

#[test]
fn one_output_larger_than_the_context_is_left_out() {
    let played = worker(vec![90_000], notes).facts(window(5000)).play();
    assert_eq!(played.class(), "success");
    let last = requests(&played).pop().unwrap();
    assert_eq!(shape(&last)[2], "c0: [output of 90006 bytes left out to save room]");
}

#[test]
fn a_task_larger_than_the_context_fails_before_it_is_asked() {
    let mut scene = worker(Vec::new(), notes).facts(window(5000));
    scene.prompt = "x".repeat(30_000);
    let played = scene.play();
    let (class, message) = failure(&played);
    assert_eq!(class, "protocol");
    assert!(
        message.contains("context of 5000") && message.contains("nothing more can be left out"),
        "{message}"
    );
    assert!(requests(&played).is_empty());
}

#[test]
fn compactions_that_do_not_help_come_to_an_end() {
    // Each answer fills the context again, and is itself too long to leave out.
    let turn = AtomicU64::new(0);
    let scene = Scene::reacting(move |request| {
        if is_summary(request) {
            return counted(request, notes(request));
        }
        let at = turn.fetch_add(1, Ordering::Relaxed);
        let arguments = format!(r#"{{"n":{at},"why":"{}"}}"#, "because ".repeat(1000));
        counted(request, calls(&[(&format!("c{at}"), "look", &arguments)]))
    });
    let played = scene.facts(window(5000)).play();
    let (class, message) = failure(&played);
    assert_eq!(class, "protocol");
    assert!(message.contains("5 summaries in a row"), "{message}");
    assert!(played.outcome.turns < 15, "{}", played.outcome.turns);
}

fn too_long() -> Answer {
    vec![Err(ModelError {
        context_overflow: true,
        ..ModelError::new(ErrorClass::Protocol, "the prompt is too long")
    })]
}

#[test]
fn a_server_that_says_too_long_gets_a_shorter_request() {
    let refused = AtomicU64::new(0);
    let work = worker(vec![6000, 300, 300], notes).react.unwrap();
    let played = Scene::reacting(move |request| {
        if !is_summary(request) && tokens(request) > 2200 {
            refused.fetch_add(1, Ordering::Relaxed);
            return too_long();
        }
        work(request)
    })
    .play();
    assert_eq!((played.class(), played.outcome.turns), ("success", 4));
    let kinds: Vec<(bool, bool)> =
        requests(&played).iter().map(|request| (is_summary(request), tokens(request) > 2200)).collect();
    assert_eq!(kinds.iter().filter(|(summary, _)| *summary).count(), 1);
    assert_eq!(kinds.iter().filter(|(summary, long)| !summary && *long).count(), 1, "refused once");
    let [(before, after)] = compactions(&played)[..] else { panic!() };
    assert!(after < before);
    let metrics = &played.outcome.metrics.models["scripted"];
    assert_eq!((metrics.requests, metrics.errors), (6, 1));
}

#[test]
fn a_server_that_always_says_too_long_fails_with_its_own_words() {
    let played = Scene::reacting(|_| too_long()).play();
    assert_eq!(failure(&played), ("protocol", "the prompt is too long".to_owned()));
    assert_eq!((requests(&played).len(), played.outcome.turns), (1, 0), "there was nothing to leave out");

    let work = worker(vec![6000, 6000, 300], |_| text("")).react.unwrap();
    let played =
        Scene::reacting(move |request| if tokens(request) > 2200 { too_long() } else { work(request) })
            .play();
    assert_eq!(played.class(), "success", "outputs were left out instead");
    let work = worker(vec![6000, 300, 300], notes).react.unwrap();
    let stuck = AtomicU64::new(0);
    let played = Scene::reacting(move |request| {
        if tokens(request) > 2200 {
            stuck.store(1, Ordering::Relaxed);
        }
        if stuck.load(Ordering::Relaxed) == 1 { too_long() } else { work(request) }
    })
    .play();
    assert_eq!(failure(&played).1, "the prompt is too long");
    let first_refusal = requests(&played).iter().position(|request| tokens(request) > 2200).unwrap();
    let more = requests(&played).len() - first_refusal - 1;
    assert_eq!(more, 3, "a summary, the turn without the oldest output, the turn without any");
}

#[test]
fn half_an_answer_that_was_told_is_not_asked_for_again() {
    let mut answer = vec![Ok(Delta::Text("It is".into()))];
    answer.extend(too_long());
    let mut scene = Scene::new(vec![answer]);
    scene.audience = tenon_agent::Audience::Live;
    let played = scene.play();
    assert_eq!(failure(&played).1, "the prompt is too long");
}

#[test]
fn a_full_context_with_nothing_to_gain_is_sent_as_it_is() {
    let mut scene = worker(vec![10; 12], notes).facts(window(5000));
    scene.prompt = "x".repeat(12_500);
    let played = scene.play();
    assert_eq!((played.class(), compactions(&played)), ("success", vec![]));
    assert!(requests(&played).iter().all(|request| !is_summary(request)));
}

#[test]
fn summaries_are_paid_for_from_the_same_budget() {
    use tenon_core::{MoneyBudget, Price, Rates};
    let rates = Rates { input: 1000.0, output: 1000.0, cache_read: 1000.0, cache_write: 1000.0 };
    let facts = ModelFacts { price: Some(Price { rates, above: Vec::new() }), ..window(5000) };
    let play = |limit: f64| {
        let mut scene = worker(vec![6000, 3000, 6000], notes).facts(facts.clone());
        scene.budget = Arc::new(MoneyBudget::new(limit));
        scene.play()
    };
    let played = play(100.0);
    let asked: u64 = requests(&played).iter().map(tokens).sum();
    assert_eq!(played.outcome.cost_usd, Some((asked + played.outcome.usage().output) as f64 / 1000.0));
    // Enough for three turns and not for a summary: the run goes on without one, until the money is gone.
    let three: u64 = requests(&played)[..3].iter().map(tokens).sum();
    let played = play((three + 60 + 3000) as f64 / 1000.0);
    assert!(
        warnings(&played).iter().any(|warning| warning.contains("money budget")),
        "{:?}",
        warnings(&played)
    );
}

/// No call without its result, no result without its call, and nobody speaks twice in a row.
fn check_whole(request: &Request) -> Result<(), TestCaseError> {
    let mut open: Vec<String> = Vec::new();
    let mut last = Role::Assistant;
    for message in &request.messages {
        prop_assert_ne!(message.role, last);
        last = message.role;
        if message.role == Role::Assistant {
            prop_assert!(open.is_empty());
            open = message.tool_calls().map(|call: &ToolCall| call.id.clone()).collect();
        } else {
            let results = message.parts.iter().filter_map(|part| match part {
                Part::ToolResult(result) => Some(result),
                _ => None,
            });
            let answered: Vec<String> = results.map(|result: &ToolResult| result.call_id.clone()).collect();
            prop_assert_eq!(&answered, &open);
            open.clear();
        }
    }
    prop_assert!(open.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(8)))]

    /// However long the work, no request is larger than the context, and the work gets done.
    #[test]
    fn a_run_of_200_turns_stays_within_its_context(
        outputs in prop::collection::vec(0_u64..4000, 200),
        notes in prop::collection::vec(0_usize..4000, 1..20),
        limit in 8_000_u64..20_000,
    ) {
        let at = AtomicU64::new(0);
        let mut scene = worker(outputs, move |_| {
            let at = usize::try_from(at.fetch_add(1, Ordering::Relaxed)).unwrap();
            text(&"n".repeat(notes[at % notes.len()]))
        })
        .facts(window(limit));
        scene.limits.turns = tenon_agent::Cap::Unlimited;
        let played = scene.play();
        prop_assert_eq!(played.class(), "success");
        prop_assert_eq!(played.outcome.turns, 201);
        for request in requests(&played) {
            prop_assert!(tokens(&request) <= limit, "{} of {limit}", tokens(&request));
            check_whole(&request)?;
            if !is_summary(&request) {
                prop_assert!(request.messages[0].text().starts_with("prompt"));
            }
        }
    }
}
