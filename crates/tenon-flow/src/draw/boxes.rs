//! Boxes and lines for a terminal.

use super::layout::{Cell, Layout, Net, What, lay_out};
use super::{Plan, PlanKind, PlanStep, hanging, list};

/// Which ways a line leaves a cell.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// Further inside means further to the right.
const INDENT: usize = 2;
/// Less room than this is no room: lines are then longer than asked for.
const LEAST_ROOM: usize = 20;

pub(super) fn draw(plan: &Plan, columns: usize) -> String {
    let mut page = Page { text: String::new(), columns, indent: 0 };
    page.say(&plan.title());
    page.line("");
    page.level(plan);
    page.text
}

struct Page {
    text: String,
    columns: usize,
    indent: usize,
}

impl Page {
    /// Steps and what they are made of, then the steps inside them.
    fn level(&mut self, plan: &Plan) {
        let layout = lay_out(plan, PlanStep::lines);
        if layout.width <= self.room() {
            self.picture(plan, &layout);
            self.legend(plan);
        } else {
            self.say("too wide to draw here; each step with those that it comes after");
            self.line("");
            list::lines(plan, self.room()).iter().for_each(|line| self.line(line));
        }
        for step in &plan.steps {
            let Some(inner) = &step.inner else { continue };
            self.line("");
            let what = match step.kind {
                PlanKind::Include { .. } => inner.title(),
                _ => inner.count(),
            };
            self.say(&format!("in {}: {what}", step.id));
            self.line("");
            self.indent += INDENT;
            self.level(inner);
            self.indent -= INDENT;
        }
    }

    fn room(&self) -> usize {
        self.columns.saturating_sub(self.indent).max(LEAST_ROOM)
    }

    fn picture(&mut self, plan: &Plan, layout: &Layout) {
        for (index, row) in layout.rows.iter().enumerate() {
            for line in box_lines(plan, &row.cells, row.lines) {
                self.line(&line);
            }
            if index + 1 < layout.rows.len() {
                for line in channel(layout, &row.nets) {
                    self.line(&line);
                }
            }
        }
    }

    /// What the tags in the boxes stand for.
    fn legend(&mut self, plan: &Plan) {
        let told: Vec<String> = plan
            .order
            .iter()
            .map(|index| &plan.steps[*index])
            .flat_map(|step| step.details().into_iter().map(|detail| format!("{}: {detail}", step.id)))
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
        let line = format!("{}{line}", " ".repeat(self.indent));
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
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
                            format!("│ {shown}{} │", " ".repeat(inner - shown.chars().count()))
                        }
                    })
                    .collect()
            }
        };
        for (row, part) in rows.iter_mut().zip(content) {
            let pad = cell.left - row.chars().count();
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

/// The lines between two rows: down from the sources, along, down to the targets, and an arrow.
fn channel(layout: &Layout, nets: &[Net]) -> Vec<String> {
    let tracks = tracks(nets);
    let height = tracks.iter().flatten().max().map_or(0, |last| last + 1);
    // A line down, the tracks, a line down, the arrows.
    let rows = height + 3;
    let mut grid = Grid { width: layout.width + 1, owners: vec![Vec::new(); rows * (layout.width + 1)] };
    for (index, net) in nets.iter().enumerate() {
        let track = tracks[index].map_or(rows - 1, |track| track + 1);
        for source in &net.sources {
            grid.vertical(index, *source, 0, track);
        }
        for (target, _) in &net.targets {
            grid.vertical(index, *target, track.min(rows - 1), rows - 1);
        }
        let columns = net.sources.iter().copied().chain(net.targets.iter().map(|(column, _)| *column));
        let (first, last) = columns.fold((usize::MAX, 0), |(first, last), at| (first.min(at), last.max(at)));
        if tracks[index].is_some() {
            grid.horizontal(index, track, first, last);
        } else {
            grid.vertical(index, first, 0, rows - 1);
        }
    }
    let mut lines: Vec<Vec<char>> = (0..rows).map(|row| grid.line(row)).collect();
    let arrows = nets.iter().flat_map(|net| &net.targets).filter(|(_, what)| matches!(what, What::Step(_)));
    for (column, _) in arrows {
        lines[rows - 1][*column] = '▼';
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

/// The height of each net's horizontal line; none for one that goes straight down.
///
/// Where a source of one net stands above a target of another, its line must turn off first.
fn tracks(nets: &[Net]) -> Vec<Option<usize>> {
    let bends = |net: &Net| {
        let first = net.sources.first().copied();
        net.sources
            .iter()
            .chain(net.targets.iter().map(|(column, _)| column))
            .any(|column| Some(*column) != first)
    };
    let mut open: Vec<usize> = (0..nets.len()).filter(|index| bends(&nets[*index])).collect();
    let mut tracks = vec![None; nets.len()];
    let mut next = 0;
    while !open.is_empty() {
        let is_free = |net: usize| {
            !open.iter().any(|other| {
                *other != net
                    && nets[*other]
                        .sources
                        .iter()
                        .any(|source| nets[net].targets.iter().any(|(to, _)| to == source))
            })
        };
        let at = open.iter().position(|net| is_free(*net)).unwrap_or(0);
        tracks[open.remove(at)] = Some(next);
        next += 1;
    }
    tracks
}

struct Grid {
    width: usize,
    /// For each cell, which nets pass it and which ways they leave it.
    owners: Vec<Vec<(usize, u8)>>,
}

impl Grid {
    fn mark(&mut self, net: usize, row: usize, column: usize, ways: u8) {
        let cell = &mut self.owners[row * self.width + column];
        match cell.iter_mut().find(|(owner, _)| *owner == net) {
            Some((_, known)) => *known |= ways,
            None => cell.push((net, ways)),
        }
    }

    fn vertical(&mut self, net: usize, column: usize, from: usize, to: usize) {
        for row in from..=to {
            let up = if row > from || from == 0 { UP } else { 0 };
            let down = if row < to { DOWN } else { 0 };
            self.mark(net, row, column, up | down);
        }
    }

    fn horizontal(&mut self, net: usize, row: usize, from: usize, to: usize) {
        for column in from..=to {
            let left = if column > from { LEFT } else { 0 };
            let right = if column < to { RIGHT } else { 0 };
            self.mark(net, row, column, left | right);
        }
    }

    fn line(&self, row: usize) -> Vec<char> {
        self.owners[row * self.width..(row + 1) * self.width].iter().map(|cell| glyph(cell)).collect()
    }
}

/// Where two lines cross without meeting, the one from above passes over the other.
fn glyph(cell: &[(usize, u8)]) -> char {
    let ways = match cell {
        [] => return ' ',
        [(_, ways)] => *ways,
        several => {
            several.iter().map(|(_, ways)| *ways).find(|ways| ways & (UP | DOWN) != 0).unwrap_or(LEFT | RIGHT)
        }
    };
    match ways {
        ways if ways & (UP | DOWN) != 0 && ways & (LEFT | RIGHT) == 0 => '│',
        ways if ways & (UP | DOWN) == 0 => '─',
        ways if ways == UP | RIGHT => '└',
        ways if ways == UP | LEFT => '┘',
        ways if ways == DOWN | RIGHT => '┌',
        ways if ways == DOWN | LEFT => '┐',
        ways if ways == UP | DOWN | RIGHT => '├',
        ways if ways == UP | DOWN | LEFT => '┤',
        ways if ways == UP | LEFT | RIGHT => '┴',
        ways if ways == DOWN | LEFT | RIGHT => '┬',
        _ => '┼',
    }
}
