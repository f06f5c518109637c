//! `ask_user_question`: a question to whoever drives the run. Offered only where somebody can answer.
//!
//! The question travels as a request for permission, whose answer brings the arguments back with `answers`
//! in them: that is how clients of other systems answer too.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_core::{
    Args, BoxFut, PermissionAsk, PermissionReply, Tool, ToolCtx, ToolErrorKind, ToolKind, ToolOutcome,
    ToolSpec,
};

use crate::args::{ArgReader, Refusal, outcome};

const MAX_QUESTIONS: usize = 4;
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;
const MAX_HEADER: usize = 12;

pub(crate) struct AskUserQuestion {
    spec: Arc<ToolSpec>,
}

impl AskUserQuestion {
    pub fn new() -> AskUserQuestion {
        let spec = ToolSpec {
            name: "ask_user_question".to_owned(),
            description:
                "Asks the user up to four questions, each with two to four answers to choose from. Use \
                          it when a decision is theirs to make and cannot be found out."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "questions": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_QUESTIONS,
                        "items": {
                            "type": "object",
                            "properties": {
                                "question": { "type": "string", "description": "The whole question." },
                                "header": { "type": "string", "maxLength": MAX_HEADER, "description": "A word or two for it." },
                                "options": {
                                    "type": "array",
                                    "minItems": OPTIONS.start(),
                                    "maxItems": OPTIONS.end(),
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "label": { "type": "string" },
                                            "description": { "type": "string" }
                                        },
                                        "required": ["label", "description"]
                                    }
                                },
                                "multiSelect": { "type": "boolean", "description": "Several answers may be chosen." }
                            },
                            "required": ["question", "header", "options"]
                        }
                    }
                },
                "required": ["questions"]
            }),
            // Asking is its whole effect, and whoever is asked decides.
            kind: ToolKind::Read,
        };
        AskUserQuestion { spec: Arc::new(spec) }
    }

    async fn run(&self, ctx: &ToolCtx, args: Args) -> Result<ToolOutcome, Refusal> {
        check(&self.spec, &args)?;
        // Whoever was asked for permission may have answered already.
        let answered = match answers(&args) {
            Some(answers) => answers,
            None => {
                let ask = PermissionAsk {
                    call_id: ctx.call_id.clone(),
                    tool: self.spec.name.clone(),
                    input: args,
                    reason: "the model asks a question".to_owned(),
                    agent_id: None,
                };
                match ctx.client.permission(ask, ctx.cancel.clone()).await {
                    PermissionReply::Allow { updated_input, .. } => {
                        updated_input.as_ref().and_then(answers).unwrap_or_default()
                    }
                    PermissionReply::CarriedOut(Ok(content)) => return Ok(ToolOutcome::ok(content)),
                    PermissionReply::CarriedOut(Err(message)) => {
                        return Err(Refusal::new(ToolErrorKind::Failed, message));
                    }
                    PermissionReply::Withdrawn => return Err(Refusal::stopped()),
                    PermissionReply::Deny { message } => {
                        let message = format!("The question was not answered: {message}");
                        return Err(Refusal::new(ToolErrorKind::Denied, message));
                    }
                }
            }
        };
        if answered.is_empty() {
            return Ok(ToolOutcome::ok("The user saw the questions and gave no answer. Decide yourself."));
        }
        let lines: Vec<String> =
            answered.iter().map(|(question, answer)| format!("{question}\n→ {answer}")).collect();
        Ok(ToolOutcome::ok(format!("The user answered:\n\n{}", lines.join("\n\n"))))
    }
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.run(&ctx, args).await) })
    }
}

fn check(spec: &ToolSpec, args: &Args) -> Result<(), Refusal> {
    let questions = args.get("questions").and_then(Value::as_array);
    let questions =
        questions.filter(|questions| (1..=MAX_QUESTIONS).contains(&questions.len())).ok_or_else(|| {
            Refusal::arguments(format!("`{}` needs `questions`, a list of 1 to {MAX_QUESTIONS}.", spec.name))
        })?;
    for (index, question) in questions.iter().enumerate() {
        let wrong = |what: &str| Refusal::arguments(format!("`questions[{index}]` {what}"));
        let question = question.as_object().ok_or_else(|| wrong("must be an object."))?;
        let reader = ArgReader::new(spec, question);
        reader
            .filled_text("question")
            .map_err(|refusal| wrong(&format!("is not usable: {}", refusal.message)))?;
        let header = reader
            .filled_text("header")
            .map_err(|refusal| wrong(&format!("is not usable: {}", refusal.message)))?;
        if header.chars().count() > MAX_HEADER {
            return Err(wrong(&format!("has a `header` longer than {MAX_HEADER} characters.")));
        }
        let options = question.get("options").and_then(Value::as_array);
        let labelled =
            |option: &Value| option["label"].as_str().is_some_and(|label| !label.trim().is_empty());
        if !options.is_some_and(|options| OPTIONS.contains(&options.len()) && options.iter().all(labelled)) {
            return Err(wrong("needs `options`, a list of 2 to 4, each with a `label`."));
        }
    }
    Ok(())
}

/// Question and answer, in the order they were given; several choices become one line.
fn answers(args: &Args) -> Option<Vec<(String, String)>> {
    let answers = args.get("answers")?.as_object()?;
    let said = |answer: &Value| match answer {
        Value::String(text) => text.clone(),
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    Some(answers.iter().map(|(question, answer)| (question.clone(), said(answer))).collect())
}
