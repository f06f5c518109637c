//! Boxes for a terminal, with what stands around them. The lines between them are `draw/channel.rs`.

use super::channel::channel;
use super::layout::{Cell, Layout, Row, What, lay_out};
use super::{Plan, PlanStep, hanging, list, width};

/// Further inside means further to the right,
const INDENT: usize = 2;
/// as long as so many columns are left for what is told there.
const LEAST_ROOM: usize = 20;

pub(super) fn draw(plan: &Plan, columns: usize) -> String {
    let mut page = Page { text: String::new(), columns, depth: 0 };
    page.say(&plan.title());
    page.line("");
    page.level(plan);
    page.text
}

struct Page {
    text: String,
    columns: usize,
    depth: usize,
}

impl Page {
    /// Steps and what they are made of, then the steps inside them.
    fn level(&mut self, plan: &Plan) {
        let layout = lay_out(plan, PlanStep::lines);
        let picture = picture(plan, &layout);
        if picture.iter().all(|line| width(line) <= self.room()) {
            picture.iter().for_each(|line| self.line(line));
            self.legend(plan);
        } else {
            self.say("too wide to draw here; each step with those that it comes after");
            self.line("");
            list::lines(plan, self.room()).iter().for_each(|line| self.line(line));
        }
        for step in &plan.steps {
            let Some(inner) = step.inner.plan() else { continue };
            self.line("");
            self.say(&step.heading(inner));
            self.line("");
            self.depth += 1;
            self.level(inner);
            self.depth -= 1;
        }
    }

    fn indent(&self) -> usize {
        (self.depth * INDENT).min(self.columns.saturating_sub(LEAST_ROOM))
    }

    fn room(&self) -> usize {
        self.columns - self.indent()
    }

    /// What the tags in the boxes stand for.
    fn legend(&mut self, plan: &Plan) {
        let told: Vec<String> = plan
            .order
            .iter()
            .map(|index| &plan.steps[*index])
            .flat_map(|step| step.details().into_iter().map(|detail| format!("{}: {detail}", step.name())))
            .collect();
        if !told.is_empty() {
            self.line("");
            told.iter().for_each(|line| self.say(line));
        }
    }

    /// A sentence, over as many lines as it needs.
    fn say(&mut self, text: &str) {
        hanging(text, self.room()).iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        let line = format!("{}{line}", " ".repeat(self.indent()));
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

fn picture(plan: &Plan, layout: &Layout) -> Vec<String> {
    let last = layout.rows.len().saturating_sub(1);
    let row = |(index, row): (usize, &Row)| {
        let lines = box_lines(plan, &row.cells, row.lines);
        let below = if index < last { channel(layout.width, &row.nets) } else { Vec::new() };
        lines.into_iter().chain(below)
    };
    layout.rows.iter().enumerate().flat_map(row).collect()
}

/// A row of boxes; wires run through it.
fn box_lines(plan: &Plan, cells: &[Cell], lines: usize) -> Vec<String> {
    let height = lines + 2;
    let mut rows = vec![String::new(); height];
    for cell in cells {
        let content: Vec<String> = match cell.what {
            What::Wire(_) => vec!["│".to_owned(); height],
            What::Step(index) => {
                let inner = cell.width - 4;
                let bar = "─".repeat(inner + 2);
                let own = plan.steps[index].lines();
                let bottom = own.len() + 1;
                let goes_on = plan.edges.iter().any(|(from, _)| *from == index);
                (0..height)
                    .map(|line| match line {
                        0 => format!("┌{bar}┐"),
                        line if line == bottom => format!("└{bar}┘"),
                        // A box with fewer lines than its neighbours: its line goes on below it.
                        line if line > bottom => below(cell.width, goes_on),
                        line => {
                            let shown = &own[line - 1];
                            format!("│ {shown}{} │", " ".repeat(inner - width(shown)))
                        }
                    })
                    .collect()
            }
        };
        for (row, part) in rows.iter_mut().zip(content) {
            let pad = cell.left - width(row);
            row.push_str(&" ".repeat(pad));
            row.push_str(&part);
        }
    }
    rows
}

fn below(width: usize, goes_on: bool) -> String {
    let mut line: Vec<char> = vec![' '; width];
    if goes_on {
        line[width / 2] = '│';
    }
    line.into_iter().collect()
}
