//! What the agent of a step is told: the data-passing contract of workflows, as pure text.
//!
//! Sections in a fixed order, separated by blank lines: the caller's context, the task, the duty to submit a result, what
//! a loop has come to, what other steps left behind, files, the item. Every section has a cap, and so has the whole:
//! when it is reached, the largest sections give way first, so that a short task is never cut for a long file. The
//! files themselves are read in `context_files.rs`; templates are filled in before (`template.rs`).

use serde_json::{Map, Value};

use crate::context_files::{ContextFile, FileContent};
use crate::{AgentRequest, Item, Iteration, JsonText, Purpose, Shown, Upstream, Verdict};

/// The whole prompt: about 30,000 tokens.
const MAX_PROMPT: usize = 120 * 1024;
/// What one step hands on as text, and as a result.
const MAX_UPSTREAM: usize = 16 * 1024;
/// The same for a loop whose output is asked for whole: as much as the prompt has room for.
const MAX_WHOLE: usize = MAX_PROMPT;
/// A judge's prompt, which holds every iteration so far: the last ones are what it judges, so nothing is cut before this.
const MAX_HISTORY: usize = 1024 * 1024;
/// Fields of a result that is too large are kept below this size.
const MAX_KEPT_FIELD: usize = 1024;
/// Where text was cut. Prompts of older workflows speak of it.
const CUT: &str = "\n...[truncated for context limit]\n";

/// What a prompt is made of besides the request.
pub struct PromptParts<'a> {
    pub request: &'a AgentRequest,
    /// What the caller gave the run, for every step to know.
    pub flow_context: Option<&'a str>,
    /// The agent's `resultSchema`.
    pub result_schema: Option<&'a Value>,
    pub files: &'a [ContextFile],
}

pub fn prompt(parts: &PromptParts<'_>) -> String {
    let request = parts.request;
    let mut sections = Vec::new();
    if let Some(context) = parts.flow_context.filter(|context| !context.trim().is_empty()) {
        sections.push(Section::new("[Flow Context]", context.trim_end()));
    }
    match &request.purpose {
        Purpose::Work => sections.push(Section::new("## Task", request.instructions.trim_end())),
        Purpose::Judge { history, result } => {
            judge(&mut sections, history, result.as_ref(), request.iteration.as_ref());
        }
    }
    if let Some(schema) = parts.result_schema {
        sections.push(Section::new("## Required: Submit Structured Result", &how_to_submit(schema)));
    }
    if let Some(iteration) = request.iteration.as_ref().filter(|_| request.purpose == Purpose::Work) {
        sections.extend(of_iteration(iteration));
    }
    sections.extend(of_steps("## Previous Step Results", &request.upstream));
    sections.extend(of_steps("## Parent Context", &request.outer));
    sections.extend(of_files(parts.files));
    sections.extend(request.item.as_ref().map(of_item));
    match request.purpose {
        Purpose::Work => join(sections, MAX_PROMPT),
        Purpose::Judge { .. } => join(sections, MAX_HISTORY),
    }
}

/// A heading and what stands below it.
struct Section {
    heading: String,
    body: String,
}

impl Section {
    fn new(heading: impl Into<String>, body: &str) -> Section {
        Section { heading: heading.into(), body: body.to_owned() }
    }

    /// A heading over other headings.
    fn group(heading: &str) -> Section {
        Section::new(heading, "")
    }
}

fn how_to_submit(schema: &Value) -> String {
    format!(
        "Your task is done when a call of the tool `submit_result` was accepted, and only then. Its arguments are the \
         result, as one JSON object that fits the schema; what you write beside it is kept as notes.\n\n\
         Required schema: {schema}"
    )
}

fn judge(
    sections: &mut Vec<Section>,
    history: &str,
    result: Option<&JsonText>,
    iteration: Option<&Iteration>,
) {
    sections.push(Section::new(
        "## Your Task: Evaluate Loop Progress",
        "Work is being done over and over until it is good enough. Read what has come of it so far and decide whether \
         it is done. Call `submit_result` with `{\"done\": true}` when it is, or with `{\"done\": false}` and your \
         reasons when another round would make a real difference. If in doubt, lean toward `done: true`.",
    ));
    sections.push(Section::new("## History", history.trim_end()));
    if let Some(result) = result {
        let number = iteration.map_or(1, |iteration| iteration.number.saturating_add(1));
        sections.push(Section::new(
            format!("## Structured Result (Iteration {number})"),
            &shown_result(result, MAX_UPSTREAM),
        ));
    }
}

/// What the round before this one came to, and what was said about it.
fn of_iteration(iteration: &Iteration) -> Vec<Section> {
    let mut sections = vec![Section::group(&format!("## Iteration {}", iteration.number.saturating_add(1)))];
    // Counted from 1, the round before has this one's number from 0.
    let before = iteration.number;
    if let Some(previous) = &iteration.previous {
        let record = &previous.record;
        sections.push(Section::new(
            format!("## Previous Iteration Output (Iteration {before})"),
            &cut(record.content.trim_end(), content_cap(record.shown)),
        ));
        if let Some(result) = &record.result {
            let shown = shown_result(result, content_cap(record.shown));
            sections.push(Section::new(format!("## Previous Iteration Result (Iteration {before})"), &shown));
        }
    }
    if let Some(verdict) = &iteration.feedback {
        let shown = Verdict {
            content: cut(verdict.content.trim_end(), MAX_UPSTREAM),
            result: verdict.result.as_ref().map(|it| JsonText::from_text(shown_result(it, MAX_UPSTREAM))),
        };
        sections.push(Section::new(format!("## Judge Feedback (Iteration {before})"), &shown.in_words()));
    }
    sections
}

fn of_steps(heading: &str, steps: &[Upstream]) -> Vec<Section> {
    if steps.is_empty() {
        return Vec::new();
    }
    let mut sections = vec![Section::group(heading)];
    for Upstream { id, record } in steps {
        let cap = content_cap(record.shown);
        let content = cut(record.content.trim_end(), cap);
        sections.push(Section::new(format!("### {id} ({})", record.status.name()), &content));
        if let Some(result) = &record.result {
            sections.push(Section::new(format!("### {id} result"), &shown_result(result, cap)));
        }
    }
    sections
}

fn of_files(files: &[ContextFile]) -> Vec<Section> {
    if files.is_empty() {
        return Vec::new();
    }
    let mut sections = vec![Section::group("## Context Files")];
    for file in files {
        let body = match &file.content {
            FileContent::Text(text) => text.trim_end(),
            FileContent::Attached(_) => "(attached as multimodal content)",
            FileContent::Note(note) => note,
        };
        sections.push(Section::new(format!("### {}", file.path), body));
    }
    sections
}

fn of_item(item: &Item) -> Section {
    Section::new(format!("## forEach Item (index: {})", item.index), item.value.as_str())
}

fn content_cap(shown: Shown) -> usize {
    match shown {
        Shown::Capped => MAX_UPSTREAM,
        Shown::Whole => MAX_WHOLE,
    }
}

/// A result as JSON that stays JSON: when it is too large, its large fields are left out.
fn shown_result(result: &JsonText, cap: usize) -> String {
    if result.as_str().len() <= cap {
        return result.as_str().to_owned();
    }
    let mut kept = Map::new();
    kept.insert("_truncated".to_owned(), Value::Bool(true));
    kept.insert(
        "_note".to_owned(),
        Value::from("the result was too large to show; large fields are left out"),
    );
    if let Value::Object(fields) = result.to_value() {
        for (name, value) in fields {
            let size = value.to_string().len();
            let total: usize = kept.iter().map(|(name, value)| name.len() + value.to_string().len()).sum();
            if size < MAX_KEPT_FIELD && total + name.len() + size < cap && !kept.contains_key(&name) {
                kept.insert(name, value);
            }
        }
    }
    Value::Object(kept).to_string()
}

/// The whole, at most `cap` bytes: the largest bodies are cut to the same size, which is as large as it can be.
fn join(mut sections: Vec<Section>, cap: usize) -> String {
    let headings: usize = sections.iter().map(|section| section.heading.len() + "\n\n\n".len()).sum();
    let room = cap.saturating_sub(headings);
    let mut sizes: Vec<usize> = sections.iter().map(|section| section.body.len()).collect();
    if sizes.iter().sum::<usize>() > room {
        sizes.sort_unstable();
        let limit = common_limit(&sizes, room);
        for section in &mut sections {
            section.body = cut(&section.body, limit);
        }
    }
    let mut text = String::new();
    for Section { heading, body } in &sections {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(heading);
        if !body.is_empty() {
            text.push('\n');
            text.push_str(body);
        }
    }
    text
}

/// The most that each may have, so that all together fit: what the small ones leave is the large ones'. `sizes` are
/// sorted.
fn common_limit(sizes: &[usize], room: usize) -> usize {
    let mut left = room;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// At most `cap` bytes, cut at a character and marked.
fn cut(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    let mut end = cap.saturating_sub(CUT.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{AgentName, ModelWish, Spent, StepRecord, StepStatus};

    fn request(instructions: &str) -> AgentRequest {
        AgentRequest {
            step_id: "s".into(),
            purpose: Purpose::Work,
            agent: AgentName { document: Vec::new(), name: None },
            instructions: instructions.into(),
            upstream: Vec::new(),
            outer: Vec::new(),
            item: None,
            iteration: None,
            context_files: Vec::new(),
            model: ModelWish::default(),
            transport_retries: None,
            isolation: None,
            attempt: 1,
        }
    }

    fn step(id: &str, content: &str, result: Option<Value>, shown: Shown) -> Upstream {
        let record = StepRecord {
            status: StepStatus::Completed,
            content: content.into(),
            result: result.as_ref().map(JsonText::of),
            spent: Spent::default(),
            duration_ms: 1,
            attempts: 1,
            error: None,
            not_run: None,
            shown,
        };
        Upstream { id: id.into(), record: Arc::new(record) }
    }

    fn plain(request: &AgentRequest) -> String {
        prompt(&PromptParts { request, flow_context: None, result_schema: None, files: &[] })
    }

    #[test]
    fn all_sections_in_their_order() {
        let mut asked = request("Do it.\n");
        asked.upstream = vec![
            step("design", "A plan.", None, Shown::Capped),
            step("test", "Ran.", Some(serde_json::json!({"passed": true, "n": 1})), Shown::Capped),
        ];
        asked.outer = vec![step("before", "Earlier.", None, Shown::Capped)];
        asked.item = Some(Item { index: 2, value: JsonText::of(&serde_json::json!({"name": "api"})) });
        asked.iteration = Some(Iteration {
            number: 1,
            previous: Some(step("draft", "First draft.", None, Shown::Capped)),
            feedback: Some(Verdict {
                content: "Too long.".into(),
                result: Some(JsonText::of(&serde_json::json!({"done": false}))),
            }),
        });
        let files = [
            ContextFile { path: "a.md".into(), content: FileContent::Text("Text.\n".into()) },
            ContextFile { path: "b.md".into(), content: FileContent::Note("(error)".into()) },
        ];
        let schema = serde_json::json!({"type": "object"});
        let text = prompt(&PromptParts {
            request: &asked,
            flow_context: Some("Ticket 7\n"),
            result_schema: Some(&schema),
            files: &files,
        });
        let (head, tail) = text.split_once("## Required: Submit Structured Result\n").unwrap();
        assert_eq!(head, "[Flow Context]\nTicket 7\n\n## Task\nDo it.\n\n");
        let (duty, rest) = tail.split_once("\n\n## Iteration 2").unwrap();
        assert!(duty.contains("`submit_result`") && duty.ends_with("Required schema: {\"type\":\"object\"}"));
        assert_eq!(
            rest,
            "\n\n## Previous Iteration Output (Iteration 1)\nFirst draft.\n\n\
             ## Judge Feedback (Iteration 1)\nToo long.\n\n{\"done\":false}\n\n\
             ## Previous Step Results\n\n### design (completed)\nA plan.\n\n### test (completed)\nRan.\n\n\
             ### test result\n{\"passed\":true,\"n\":1}\n\n\
             ## Parent Context\n\n### before (completed)\nEarlier.\n\n\
             ## Context Files\n\n### a.md\nText.\n\n### b.md\n(error)\n\n\
             ## forEach Item (index: 2)\n{\"name\":\"api\"}"
        );
    }

    #[test]
    fn what_a_step_hands_on_is_capped_unless_it_is_asked_for_whole() {
        let long = "é".repeat(MAX_UPSTREAM);
        let mut asked = request("x");
        asked.upstream = vec![step("a", &long, None, Shown::Capped)];
        let text = plain(&asked);
        assert!(text.len() < MAX_UPSTREAM + 200 && text.ends_with("é\n...[truncated for context limit]\n"));
        asked.upstream = vec![step("a", &long, None, Shown::Whole)];
        assert!(plain(&asked).contains(&long));
        // The whole prompt has its cap all the same, and what is small stays.
        let huge = "é".repeat(MAX_PROMPT);
        asked.upstream =
            vec![step("all", &huge, None, Shown::Whole), step("b", "short", None, Shown::Capped)];
        let text = plain(&asked);
        assert!(text.len() <= MAX_PROMPT && text.len() > MAX_PROMPT - 200, "{}", text.len());
        assert!(
            text.contains("é\n...[truncated for context limit]\n")
                && text.ends_with("### b (completed)\nshort")
        );
    }

    #[test]
    fn a_large_result_stays_json_and_keeps_its_small_fields() {
        let result = serde_json::json!({"log": "x".repeat(MAX_UPSTREAM), "passed": true, "_note": "mine"});
        let shown = shown_result(&JsonText::of(&result), MAX_UPSTREAM);
        let value: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&value["_truncated"], &value["passed"]), (&Value::Bool(true), &Value::Bool(true)));
        assert_eq!(value.get("log"), None);
    }

    #[test]
    fn the_largest_sections_give_way_first() {
        let files: Vec<ContextFile> = (0..3)
            .map(|n| ContextFile {
                path: format!("f{n}"),
                content: FileContent::Text("x".repeat(if n == 0 { 10 } else { MAX_PROMPT })),
            })
            .collect();
        let asked = request("short task");
        let text =
            prompt(&PromptParts { request: &asked, flow_context: None, result_schema: None, files: &files });
        assert!(text.len() <= MAX_PROMPT && text.len() > MAX_PROMPT - 200, "{}", text.len());
        assert!(text.contains("## Task\nshort task") && text.contains("### f0\nxxxxxxxxxx\n"));
        assert_eq!(text.matches(CUT.trim()).count(), 2);
    }

    #[test]
    fn a_judge_reads_the_history_and_the_last_result() {
        let mut asked = request("");
        asked.purpose = Purpose::Judge {
            history: "## Iteration 1\nText".into(),
            result: Some(JsonText::of(&serde_json::json!({"score": 3}))),
        };
        asked.iteration = Some(Iteration { number: 0, previous: None, feedback: None });
        let text = plain(&asked);
        assert!(text.starts_with("## Your Task: Evaluate Loop Progress\n"));
        assert!(text.ends_with("## Structured Result (Iteration 1)\n{\"score\":3}"), "{text}");
        assert!(text.contains("## History\n## Iteration 1\nText"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(64)))]

        #[test]
        fn no_prompt_is_larger_than_its_cap(sizes in prop::collection::vec(0_usize..80_000, 0..12)) {
            let files: Vec<ContextFile> = sizes
                .iter()
                .map(|size| ContextFile { path: "f".into(), content: FileContent::Text("ü".repeat(*size)) })
                .collect();
            let asked = request("t");
            let parts = PromptParts { request: &asked, flow_context: None, result_schema: None, files: &files };
            let text = prompt(&parts);
            prop_assert!(text.len() <= MAX_PROMPT + files.len() * CUT.len());
            prop_assert!(text.starts_with("## Task\nt"));
        }
    }
}
