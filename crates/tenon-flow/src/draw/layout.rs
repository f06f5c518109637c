//! Where boxes and lines go, in columns of a terminal.
//!
//! Steps stand in rows by the length of the longest path to them. A dependency that skips rows is carried through
//! them by a wire, a box without a box. Between two rows, steps with the same dependants share a line; all other
//! lines are kept apart, so that each dependency can be followed. How they run is `draw/channel.rs`.

use super::{Plan, PlanStep, width};

/// Between two boxes of a row.
const GAP: usize = 2;
/// Of a box: no line ends there.
const CORNERS: usize = 2;
/// Inside a box, so that short names do not make slivers.
const MIN_INNER: usize = 6;

pub(super) struct Layout {
    pub(super) rows: Vec<Row>,
    pub(super) width: usize,
}

pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// Lines in the box with the most.
    pub(super) lines: usize,
    /// What leads from this row to the next.
    pub(super) nets: Vec<Net>,
}

pub(super) struct Cell {
    pub(super) what: What,
    pub(super) left: usize,
    pub(super) width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Step(usize),
    /// Carries the dependants of a step past this row.
    Wire(usize),
}

/// Every source leads to every target.
pub(super) struct Net {
    /// Columns in the row above.
    pub(super) sources: Vec<usize>,
    /// Columns in the row below, and what is there.
    pub(super) targets: Vec<(usize, What)>,
}

impl Cell {
    fn middle(&self) -> usize {
        self.left + self.width / 2
    }
}

/// Cells of one row, and those of the next that all of them lead to; by number.
struct Group {
    sources: Vec<usize>,
    targets: Vec<usize>,
}

/// `lines` is what stands in a box.
pub(super) fn lay_out(plan: &Plan, lines: impl Fn(&PlanStep) -> Vec<String>) -> Layout {
    let mut rows = rows(plan, lines);
    let groups: Vec<Vec<Group>> =
        rows.windows(2).map(|pair| groups(plan, &pair[0].cells, &pair[1].cells)).collect();
    for (groups, row) in groups.iter().zip(rows.iter_mut().skip(1)) {
        make_room_for_ports(groups, &mut row.cells);
    }
    let widths: Vec<usize> = rows.iter().map(|row| row_width(&row.cells)).collect();
    let width = widths.iter().copied().max().unwrap_or(0);
    for (row, own) in rows.iter_mut().zip(&widths) {
        let mut left = (width - own) / 2;
        for cell in &mut row.cells {
            cell.left = left;
            left += cell.width + GAP;
        }
    }
    for (upper, groups) in groups.iter().enumerate() {
        rows[upper].nets = nets(groups, &rows[upper].cells, &rows[upper + 1].cells);
    }
    Layout { rows, width }
}

fn row_width(cells: &[Cell]) -> usize {
    cells.iter().map(|cell| cell.width).sum::<usize>() + GAP * cells.len().saturating_sub(1)
}

fn rows(plan: &Plan, lines: impl Fn(&PlanStep) -> Vec<String>) -> Vec<Row> {
    let count = plan.steps.iter().map(|step| step.layer + 1).max().unwrap_or(0);
    let mut rows: Vec<Row> =
        (0..count).map(|_| Row { cells: Vec::new(), lines: 0, nets: Vec::new() }).collect();
    for (index, step) in plan.steps.iter().enumerate() {
        let lines = lines(step);
        let inner = lines.iter().map(|line| width(line)).max().unwrap_or(0).max(MIN_INNER);
        let row = &mut rows[step.layer];
        row.lines = row.lines.max(lines.len());
        row.cells.push(Cell { what: What::Step(index), left: 0, width: inner + 4 });
    }
    // One wire per step and row, however many steps it leads to.
    for (index, step) in plan.steps.iter().enumerate() {
        let last =
            plan.edges.iter().filter(|(from, _)| *from == index).map(|(_, to)| plan.steps[*to].layer).max();
        for row in rows.iter_mut().take(last.unwrap_or(0)).skip(step.layer + 1) {
            row.cells.push(Cell { what: What::Wire(index), left: 0, width: 1 });
        }
    }
    // Each row in the order of what leads to it, which keeps lines short; ties as written.
    for upper in 0..count.saturating_sub(1) {
        let (above, below) = rows.split_at_mut(upper + 1);
        let above = &above[upper].cells;
        let weight = |cell: &Cell| {
            let from: Vec<usize> = above
                .iter()
                .enumerate()
                .filter(|(_, source)| leads(plan, source.what, cell.what))
                .map(|(at, _)| at)
                .collect();
            // In sixtieths, so that the order does not depend on rounding.
            from.iter().sum::<usize>() * 60 / from.len().max(1)
        };
        below[0].cells.sort_by_cached_key(|cell| weight(cell));
    }
    rows
}

/// Whether what is above is joined to what is in the next row.
fn leads(plan: &Plan, above: What, below: What) -> bool {
    let (What::Step(from) | What::Wire(from)) = above;
    match below {
        What::Step(to) => plan.edges.contains(&(from, to)),
        What::Wire(carried) => carried == from,
    }
}

/// Sources with the same targets are one group.
fn groups(plan: &Plan, above: &[Cell], below: &[Cell]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, source) in above.iter().enumerate() {
        let targets: Vec<usize> =
            (0..below.len()).filter(|target| leads(plan, source.what, below[*target].what)).collect();
        if targets.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|known| known.targets == targets) {
            Some(known) => known.sources.push(at),
            None => groups.push(Group { sources: vec![at], targets }),
        }
    }
    groups
}

/// Lines that lead to the same box reach it in columns of their own.
fn make_room_for_ports(groups: &[Group], below: &mut [Cell]) {
    for (at, cell) in below.iter_mut().enumerate() {
        if matches!(cell.what, What::Step(_)) {
            let reaching = groups.iter().filter(|group| group.targets.contains(&at)).count();
            cell.width = cell.width.max(reaching + CORNERS);
        }
    }
}

fn nets(groups: &[Group], above: &[Cell], below: &[Cell]) -> Vec<Net> {
    let net = |(number, group): (usize, &Group)| Net {
        sources: group.sources.iter().map(|at| above[*at].middle()).collect(),
        targets: group
            .targets
            .iter()
            .map(|at| (port(groups, number, *at, &below[*at]), below[*at].what))
            .collect(),
    };
    groups.iter().enumerate().map(net).collect()
}

/// Several lines reach a box side by side, one in the middle.
fn port(groups: &[Group], group: usize, target: usize, cell: &Cell) -> usize {
    let reaching: Vec<usize> =
        (0..groups.len()).filter(|group| groups[*group].targets.contains(&target)).collect();
    if reaching.len() < 2 {
        return cell.middle();
    }
    let position = reaching.iter().position(|known| *known == group).unwrap_or(0);
    let room = cell.width - CORNERS;
    cell.left + CORNERS / 2 + (room * (2 * position + 1)) / (2 * reaching.len())
}
