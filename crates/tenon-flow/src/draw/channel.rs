//! The lines between two rows of boxes: down from the sources, along, down to the targets, and an arrow.
//!
//! Lines that belong together share a bar. Others cross it and never run into it or along it: of two lines in one column the
//! one from above turns off before the other begins. Where that cannot be had for all, a line takes a column of its own on
//! its way down, and has two bars.

use super::layout::{Net, What};

/// Which ways a line leaves a cell.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// Lines may be wider than the boxes are, which is `width`, where the columns between them are all taken.
pub(super) fn channel(width: usize, nets: &[Net]) -> Vec<String> {
    let Routes { routes, tracks } = routes(width, nets);
    // A line down, the tracks, a line down, the arrows.
    let last = tracks + 2;
    let used = routes.iter().filter_map(|route| match route {
        Route::Twice { column, .. } => Some(column + 1),
        Route::Straight | Route::Once { .. } => None,
    });
    let mut grid = Grid::new(last + 1, used.max().unwrap_or(0).max(width + 1));
    for (number, (net, route)) in nets.iter().zip(&routes).enumerate() {
        let targets = || net.targets.iter().map(|(column, _)| *column);
        let (upper, lower, between) = match *route {
            Route::Straight => {
                net.sources.iter().for_each(|column| grid.vertical(number, *column, 0, last));
                continue;
            }
            Route::Once { track } => (track + 1, track + 1, None),
            Route::Twice { upper, column, lower } => (upper + 1, lower + 1, Some(column)),
        };
        net.sources.iter().for_each(|column| grid.vertical(number, *column, 0, upper));
        between.iter().for_each(|column| grid.vertical(number, *column, upper, lower));
        targets().for_each(|column| grid.vertical(number, column, lower, last));
        let sources = net.sources.iter().copied();
        if upper == lower {
            grid.horizontal(number, upper, sources.chain(targets()));
        } else {
            grid.horizontal(number, upper, sources.chain(between));
            grid.horizontal(number, lower, targets().chain(between));
        }
    }
    let mut lines: Vec<Vec<char>> = (0..=last).map(|row| grid.line(row)).collect();
    let arrows = nets.iter().flat_map(|net| &net.targets).filter(|(_, what)| matches!(what, What::Step(_)));
    for (column, _) in arrows {
        lines[last][*column] = '▼';
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

/// How a net gets down. Tracks are counted from above; each is the bar of one net.
#[derive(Clone, Copy)]
enum Route {
    /// One source above one target.
    Straight,
    Once {
        track: usize,
    },
    /// Sources are joined at `upper`, targets at `lower`, and these two in a column that no other net uses.
    Twice {
        upper: usize,
        column: usize,
        lower: usize,
    },
}

struct Routes {
    routes: Vec<Route>,
    tracks: usize,
}

/// A net whose bar is still to be drawn, or its lower one.
struct Open {
    net: usize,
    /// Its upper track and the column from there.
    begun: Option<(usize, usize)>,
}

fn routes(width: usize, nets: &[Net]) -> Routes {
    let bends = |net: &Net| net.columns().any(|column| Some(&column) != net.sources.first());
    let mut open: Vec<Open> =
        (0..nets.len()).filter(|net| bends(&nets[*net])).map(|net| Open { net, begun: None }).collect();
    let mut routes = vec![Route::Straight; nets.len()];
    let mut taken: Vec<usize> = nets.iter().flat_map(Net::columns).collect();
    let mut tracks = 0;
    while !open.is_empty() {
        let free = (0..open.len()).find(|at| in_the_way(nets, &open, *at).is_none());
        if let Some(at) = free {
            let Open { net, begun } = open.remove(at);
            routes[net] = match begun {
                None => Route::Once { track: tracks },
                Some((upper, column)) => Route::Twice { upper, column, lower: tracks },
            };
        } else {
            let at = one_of_a_ring(nets, &open);
            let column = free_column(&nets[open[at].net], &taken, width);
            taken.push(column);
            open[at].begun = Some((tracks, column));
        }
        tracks += 1;
    }
    Routes { routes, tracks }
}

/// One that still comes down in a column where this one has to reach a target.
fn in_the_way(nets: &[Net], open: &[Open], at: usize) -> Option<usize> {
    let targets = &nets[open[at].net].targets;
    let is_above = |source: &usize| targets.iter().any(|(target, _)| target == source);
    (0..open.len()).find(|other| {
        *other != at && open[*other].begun.is_none() && nets[open[*other].net].sources.iter().any(is_above)
    })
}

/// The one with the fewest lines of those that wait for each other, when all wait for another.
fn one_of_a_ring(nets: &[Net], open: &[Open]) -> usize {
    let next = |at: usize| in_the_way(nets, open, at).unwrap_or(at);
    // After as many steps as there are nets one is in the ring, wherever one began.
    let first = (0..open.len()).fold(0, |at, _| next(at));
    let ring = std::iter::successors(Some(first), |at| Some(next(*at)).filter(|next| *next != first));
    ring.min_by_key(|at| nets[open[*at].net].columns().count()).unwrap_or(first)
}

/// Close to the middle of its net, and not close to other lines.
fn free_column(net: &Net, taken: &[usize], width: usize) -> usize {
    let first = net.columns().min().unwrap_or(0);
    let last = net.columns().max().unwrap_or(0);
    let middle = (first + last) / 2;
    let is_crowded = |column: usize| taken.iter().any(|taken| taken.abs_diff(column) == 1);
    let free = (0..width).filter(|column| !taken.contains(column));
    let beyond = taken.iter().copied().max().unwrap_or(0).max(width) + 1;
    free.min_by_key(|column| (is_crowded(*column), column.abs_diff(middle))).unwrap_or(beyond)
}

impl Net {
    fn columns(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().copied().chain(self.targets.iter().map(|(column, _)| *column))
    }
}

struct Grid {
    width: usize,
    /// For each cell, which nets pass it and which ways they leave it.
    owners: Vec<Vec<(usize, u8)>>,
}

impl Grid {
    fn new(rows: usize, width: usize) -> Grid {
        Grid { width, owners: vec![Vec::new(); rows * width] }
    }

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

    /// From the first of the columns to the last.
    fn horizontal(&mut self, net: usize, row: usize, columns: impl Iterator<Item = usize>) {
        let (from, to) = columns.fold((usize::MAX, 0), |(from, to), at| (from.min(at), to.max(at)));
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
