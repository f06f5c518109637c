//! SVG: one self-contained picture that reads on light and dark pages.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::layout::{What, lay_out};
use super::{Plan, PlanStep, wrapped};
use crate::markup::entity;

const COLUMN: usize = 9;
const LINE: usize = 18;
const MARGIN: usize = 24;
const TITLE: usize = 32;
const BETWEEN: usize = 56;
const STYLE: &str = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}\
.title{font-weight:600}.tag{fill:#59636e}rect{fill:#f6f8fa;stroke:#818b98}path{fill:none;stroke:#59636e;stroke-width:1.5}\
marker path{fill:#59636e;stroke:none}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.tag{fill:#9198a1}rect{fill:#151b23;stroke:#656c76}path{stroke:#9198a1}marker path{fill:#9198a1}}";

/// Longer conditions and lists go on in the next line of their box.
const MAX_DETAIL: usize = 56;

/// How a step of a run stands, for its box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Of the box, for the styles of the page around the picture.
    pub class: &'static str,
    /// The last line in the box.
    pub line: String,
    /// What the box leads to: the name of a place on the same page.
    pub target: String,
}

pub(super) fn draw(plan: &Plan) -> String {
    let style = format!("<style>{STYLE}</style>\n");
    picture(plan, &HashMap::new(), |_| "role=\"img\"".to_owned(), &style)
}

/// For a page that has styles of its own, with marks by where steps stand: `outer/inner`.
pub(super) fn draw_marked(plan: &Plan, marks: &HashMap<String, Mark>) -> String {
    let attributes = |width: usize| format!("class=\"graph\" role=\"group\" style=\"--wide: {width}px\"");
    picture(plan, marks, attributes, "")
}

/// `attributes` are those of a picture of this width.
fn picture(
    plan: &Plan,
    marks: &HashMap<String, Mark>,
    attributes: impl Fn(usize) -> String,
    style: &str,
) -> String {
    let mut picture = Picture { body: String::new(), width: 0, y: MARGIN };
    picture.level(plan, &plan.title(), "", marks);
    let Picture { body, width, y } = picture;
    let (width, height) = (width + 2 * MARGIN, y + MARGIN);
    let attributes = attributes(width);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" {attributes}>\n\
         <title>{}</title>\n{style}\
         <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\"/></marker></defs>\n\
         {body}</svg>\n",
        escaped(&plan.title()),
    )
}

struct Picture {
    body: String,
    /// Without margins.
    width: usize,
    /// Where the next thing is drawn.
    y: usize,
}

impl Picture {
    /// One graph under its heading, and below it those of its steps. `around` is where it stands.
    fn level(&mut self, plan: &Plan, heading: &str, around: &str, marks: &HashMap<String, Mark>) {
        self.width = self.width.max(super::width(heading) * COLUMN);
        let base = self.y + LINE / 2;
        let _ = writeln!(
            self.body,
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{base}\">{}</text>",
            escaped(heading)
        );
        self.y += TITLE;
        self.graph(plan, around, marks);
        for step in &plan.steps {
            let Some(inner) = step.inner.plan() else { continue };
            self.y += BETWEEN;
            self.level(inner, &step.heading(inner), &format!("{around}{}/", step.id), marks);
        }
    }

    fn graph(&mut self, plan: &Plan, around: &str, marks: &HashMap<String, Mark>) {
        let mark_of = |step: &PlanStep| marks.get(&format!("{around}{}", step.id));
        let lines = |step: &PlanStep| {
            let mark = mark_of(step).map(|mark| mark.line.clone());
            lines(step).into_iter().chain(mark).collect::<Vec<_>>()
        };
        let layout = lay_out(plan, lines);
        self.width = self.width.max(layout.width * COLUMN);
        let x = |column: usize| MARGIN + column * COLUMN;
        let mut tops = Vec::new();
        for row in &layout.rows {
            tops.push(self.y);
            self.y += box_height(row.lines) + BETWEEN;
        }
        self.y = self.y.saturating_sub(if layout.rows.is_empty() { 0 } else { BETWEEN });
        let svg = &mut self.body;
        for (index, row) in layout.rows.iter().enumerate() {
            let Some(below) = tops.get(index + 1) else { break };
            let bottom = tops[index] + box_height(row.lines);
            let middle = (bottom + below) / 2;
            for net in &row.nets {
                for source in &net.sources {
                    for (target, what) in &net.targets {
                        let (from, to) = (x(*source), x(*target));
                        let arrow =
                            if matches!(what, What::Step(_)) { " marker-end=\"url(#arrow)\"" } else { "" };
                        let _ = writeln!(
                            svg,
                            "<path d=\"M{from} {bottom}C{from} {middle} {to} {middle} {to} {below}\"{arrow}/>"
                        );
                    }
                }
            }
        }
        for (row, top) in layout.rows.iter().zip(&tops) {
            let bottom = top + box_height(row.lines);
            for cell in &row.cells {
                let left = x(cell.left);
                match cell.what {
                    What::Wire(_) => {
                        let middle = x(cell.left + cell.width / 2);
                        let _ = writeln!(svg, "<path d=\"M{middle} {top}V{bottom}\"/>");
                    }
                    What::Step(index) => {
                        let wide = cell.width * COLUMN;
                        let tall = bottom - top;
                        let mark = mark_of(&plan.steps[index]);
                        if let Some(mark) = mark {
                            let _ = writeln!(
                                svg,
                                "<a href=\"#{}\" class=\"{}\">",
                                escaped(&mark.target),
                                mark.class
                            );
                        }
                        let _ = writeln!(
                            svg,
                            "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{tall}\" rx=\"6\"/>"
                        );
                        let texts = lines(&plan.steps[index]);
                        for (line, text) in texts.iter().enumerate() {
                            let class = match line {
                                0 => "",
                                line if mark.is_some() && line + 1 == texts.len() => " class=\"status\"",
                                _ => " class=\"tag\"",
                            };
                            let (left, base) = (left + 2 * COLUMN, top + LINE * (line + 1) + 2);
                            let _ = writeln!(
                                svg,
                                "<text{class} x=\"{left}\" y=\"{base}\">{}</text>",
                                escaped(text)
                            );
                        }
                        if mark.is_some() {
                            svg.push_str("</a>\n");
                        }
                    }
                }
            }
        }
    }
}

/// A box says everything here: a picture has room.
fn lines(step: &PlanStep) -> Vec<String> {
    let details = step.details().into_iter().flat_map(|detail| wrapped(&detail, MAX_DETAIL));
    step.lines().into_iter().chain(details).collect()
}

fn box_height(lines: usize) -> usize {
    lines * LINE + LINE / 2 + 4
}

fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match (entity(c), c) {
            (Some(entity), _) => shown.push_str(entity),
            // XML has no way to write the others.
            (None, c) if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => shown.push(' '),
            (None, c) => shown.push(c),
        }
    }
    shown
}
