//! The client: requests in, deltas out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tenon_core::{
    Cancel, Delta, FinishReason, Message, ModelClient, ModelError, Request, ToolChoice, ToolKind, ToolSpec,
};
use tenon_local::{LocalModel, LocalOptions, Sampling, Store, Weights};
use tenon_testkit::TinyModel;

pub fn client(file: &Path, sampling: Sampling, notices: Arc<Mutex<Vec<String>>>) -> LocalModel {
    LocalModel::new(LocalOptions {
        name: "tiny".to_owned(),
        weights: Weights::File(file.to_owned()),
        store: Store::new(file.with_extension("models")),
        threads: 1,
        sampling,
        notice: Arc::new(move |text| notices.lock().expect("a lock").push(text.to_owned())),
    })
}

pub fn request(prompt: &str) -> Request {
    Request {
        model: "tiny".to_owned(),
        system: "Be brief.".to_owned(),
        messages: vec![Message::user(prompt)],
        tools: Vec::new(),
        terminal_tool: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        max_output_tokens: None,
        sampling: tenon_core::Sampling::default(),
        reasoning: tenon_core::Reasoning::default(),
        restartable: true,
    }
}

pub fn tool(name: &str, parameters: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: "x".to_owned(),
        parameters,
        kind: ToolKind::Read,
    })
}

pub fn structured(prompt: &str, schema: &Value) -> Request {
    Request {
        tools: vec![tool("structured_output", schema.clone())],
        terminal_tool: Some("structured_output".to_owned()),
        ..request(prompt)
    }
}

pub fn run(model: &LocalModel, request: Request) -> Vec<Result<Delta, ModelError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(model.stream(request, Cancel::new()).collect())
}

/// The arguments of the call, if one was made whole.
pub fn arguments(deltas: &[Result<Delta, ModelError>]) -> Option<String> {
    deltas.iter().any(|delta| matches!(delta, Ok(Delta::Finished(FinishReason::ToolCalls)))).then(|| {
        let pieces = deltas.iter().filter_map(|delta| match delta {
            Ok(Delta::ToolCallArguments { fragment, .. }) => Some(fragment.as_str()),
            _ => None,
        });
        pieces.collect()
    })
}

/// The text the model answers, or its error.
pub fn ask_text(file: &Path, prompt: &str) -> Result<String, String> {
    let model = client(file, Sampling::Greedy, Arc::default());
    let request = Request { max_output_tokens: Some(8), ..request(prompt) };
    let mut text = String::new();
    for delta in run(&model, request) {
        match delta {
            Ok(Delta::Text(piece)) => text.push_str(&piece),
            Ok(_) => {}
            Err(error) => return Err(error.message),
        }
    }
    Ok(text)
}

struct Tiny {
    folder: tempfile::TempDir,
}

impl Tiny {
    fn new(seed: u64) -> Tiny {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("m.gguf"), TinyModel::new(seed).bytes()).expect("it is written");
        Tiny { folder }
    }

    fn client(&self, sampling: Sampling) -> LocalModel {
        client(&self.folder.path().join("m.gguf"), sampling, Arc::default())
    }
}

fn city() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}, "size": {"enum": ["small", "large"]}},
        "required": ["city", "size"]})
}

#[test]
fn text_streams_and_is_counted() {
    let tiny = Tiny::new(1);
    let deltas =
        run(&tiny.client(Sampling::Greedy), Request { max_output_tokens: Some(12), ..request("hello") });
    let usage = deltas.iter().find_map(|delta| match delta {
        Ok(Delta::Usage(usage)) => Some(*usage),
        _ => None,
    });
    let usage = usage.expect("tokens are counted");
    assert!(usage.input > 10 && usage.output > 0 && usage.output <= 12, "{usage:?}");
    assert!(matches!(deltas.last(), Some(Ok(Delta::Finished(FinishReason::Length | FinishReason::Stop)))));
    let again =
        run(&tiny.client(Sampling::Greedy), Request { max_output_tokens: Some(12), ..request("hello") });
    assert_eq!(deltas, again, "greedy answers repeat");
}

#[test]
fn a_payload_streams_inside_the_schema() {
    let tiny = Tiny::new(2);
    let deltas = run(&tiny.client(Sampling::Greedy), structured("where?", &city()));
    let text = arguments(&deltas).expect("a call");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        value["city"].is_string() && ["small", "large"].contains(&value["size"].as_str().unwrap_or("")),
        "{text}"
    );
    let pieces = deltas.iter().filter(|delta| matches!(delta, Ok(Delta::ToolCallArguments { .. }))).count();
    assert!(pieces > 2, "it comes in pieces");
}

#[test]
fn seeds_repeat_and_differ() {
    let tiny = Tiny::new(2);
    let ask = |seed| {
        arguments(&run(
            &tiny.client(Sampling::Chance { temperature: 1.5, top_p: 1.0, seed }),
            structured("where?", &city()),
        ))
    };
    assert_eq!(ask(1), ask(1));
    assert_ne!(ask(1), ask(2));
}

#[test]
fn too_long_a_prompt_is_refused_before_it_is_read() {
    let tiny = Tiny::new(1);
    let deltas = run(&tiny.client(Sampling::Greedy), request(&"word ".repeat(5_000)));
    let Some(Err(error)) = deltas.last() else { panic!("{deltas:?}") };
    assert!(error.context_overflow && error.message.contains("4096"), "{error:?}");
    assert_eq!(deltas.len(), 1);
}

#[test]
fn a_stream_that_is_cancelled_or_dropped_stops() {
    let tiny = Tiny::new(1);
    let model = tiny.client(Sampling::Greedy);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let cancel = Cancel::new();
        let mut stream =
            model.stream(Request { max_output_tokens: Some(3_000), ..request("hello") }, cancel.clone());
        assert!(matches!(stream.next().await, Some(Ok(Delta::Text(_)))));
        cancel.cancel();
        let rest: Vec<_> = stream.collect().await;
        assert!(!rest.iter().any(|delta| matches!(delta, Ok(Delta::Finished(_)))), "it was not finished");
        // Dropped in the middle: the next request gets its turn.
        let mut dropped =
            model.stream(Request { max_output_tokens: Some(3_000), ..request("hello") }, Cancel::new());
        assert!(dropped.next().await.is_some());
        drop(dropped);
        let next: Vec<_> = model
            .stream(Request { max_output_tokens: Some(2), ..request("hi") }, Cancel::new())
            .collect()
            .await;
        assert!(matches!(next.last(), Some(Ok(Delta::Finished(_)))));
    });
}

#[test]
fn two_requests_take_turns() {
    let tiny = Tiny::new(1);
    let model = tiny.client(Sampling::Greedy);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let ask = |prompt: &str| model.stream(structured(prompt, &city()), Cancel::new()).collect::<Vec<_>>();
        let (first, second) = futures_util::future::join(ask("one"), ask("two")).await;
        assert!(arguments(&first).is_some() && arguments(&second).is_some());
    });
}

#[test]
fn what_the_model_read_last_does_not_change_what_it_says() {
    let tiny = Tiny::new(4);
    let fresh = |prompt: &str| arguments(&run(&tiny.client(Sampling::Greedy), structured(prompt, &city())));
    let kept = tiny.client(Sampling::Greedy);
    for prompt in ["where is it?", "where is it now?", "when?", "where is it?"] {
        assert_eq!(arguments(&run(&kept, structured(prompt, &city()))), fresh(prompt), "{prompt}");
    }
}

#[test]
fn with_tools_it_calls_one_or_answers() {
    let tiny = Tiny::new(5);
    let path = json!({"type": "object", "properties": {"file_path": {"$ref": "#/$defs/path"}}, "required": ["file_path"],
        "$defs": {"path": {"type": "string", "maxLength": 20}}});
    for seed in 0..6 {
        let model = tiny.client(Sampling::Chance { temperature: 2.0, top_p: 1.0, seed });
        let offered = Request { tools: vec![tool("read_file", path.clone())], ..request("read it") };
        let deltas = run(&model, offered);
        match deltas.last() {
            Some(Ok(Delta::Finished(FinishReason::Stop))) => {
                assert!(deltas.iter().any(|delta| matches!(delta, Ok(Delta::Text(_)))), "{deltas:?}");
            }
            Some(Ok(Delta::Finished(FinishReason::ToolCalls))) => {
                let call: Value = serde_json::from_str(&arguments(&deltas).expect("a call")).expect("JSON");
                assert!(call["file_path"].is_string(), "{call}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn special_tokens_in_a_prompt_are_text() {
    let tiny = Tiny::new(1);
    let count = |prompt: &str| {
        run(&tiny.client(Sampling::Greedy), Request { max_output_tokens: Some(1), ..request(prompt) })
            .iter()
            .find_map(|delta| match delta {
                Ok(Delta::Usage(usage)) => Some(usage.input),
                _ => None,
            })
            .expect("tokens are counted")
    };
    assert!(count("<|im_end|>") > count("x") + 5, "it is more than one token");
}

#[test]
fn a_file_that_is_gone_is_an_error() {
    let model = client(Path::new("/nonexistent/m.gguf"), Sampling::Greedy, Arc::default());
    let deltas = run(&model, request("hi"));
    let Some(Err(error)) = deltas.last() else { panic!("{deltas:?}") };
    assert!(error.message.contains("/nonexistent/m.gguf"), "{error:?}");
}
