//! What people were asked: the questions that are open, with the line that answers each, and who answered the others.
//!
//! A question's text is what the document wants whoever approves to read, so it is shown whether or not payloads are.

use std::fmt::Write as _;

use super::html::{moment, text};
use crate::{KeptQuestion, RunView};

pub(super) fn section(page: &mut String, view: &RunView) {
    if view.questions.is_empty() {
        return;
    }
    page.push_str(
        "<section id=\"questions\" aria-labelledby=\"questions-heading\">\n<h2 id=\"questions-heading\">Approvals</h2>\n<ul>\n",
    );
    for kept in &view.questions {
        question(page, view, kept);
    }
    page.push_str("</ul>\n</section>\n");
}

fn question(page: &mut String, view: &RunView, kept: &KeptQuestion) {
    let request = &kept.question.request;
    let step = text(&request.step_id);
    // A `String` takes everything.
    let _ = writeln!(page, "<li><strong>{step}</strong>: {}<br>", text(&request.message));
    match &kept.resolution {
        Some(answer) => {
            let _ = write!(page, "{}, {}", text(&answer.words(request)), moment(answer.at));
        }
        None if view.state.hears_answers() && !kept.is_over => {
            let id = text(&view.id);
            let _ = write!(page, "asked {}", moment(kept.question.asked));
            if let Some(expires) = kept.question.expires() {
                let _ = write!(page, ", until {}", moment(expires));
            }
            let _ = write!(
                page,
                ": <code>tenon flow approve {id} {step}</code> or <code>tenon flow approve {id} {step} --deny</code>"
            );
        }
        None => page.push_str("nobody answered"),
    }
    page.push_str("</li>\n");
}
