//! The steps of a workflow that are under way, and the lines that show them on a terminal: drawn, cleared and drawn again.
//!
//! What happens to them, and what is told in lines that stay, is `flow_progress.rs`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::stderr::harmless;
use crate::sys::{self, TerminalSize};

/// Lines that are drawn at once: more than a glance takes in.
const MAX_LINES: usize = 12;
/// Of the screen, for what stays above the drawing and for the line of the cursor below it: what has left the screen cannot be
/// drawn again.
const OTHER_LINES: usize = 2;
/// Of a bar: a tenth each.
const BAR_CELLS: usize = 10;
/// Items and rounds of a loop are told one by one up to this number; of more it is told how far they have come,
const TOLD_ONE_BY_ONE: u32 = 10;
/// at each tenth,
const PARTS_TOLD: u64 = 10;
/// and when nothing was told of them for so long.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// The cursor goes up, and what is written there away.
const ONE_ROW_AWAY: &str = "\x1b[1A\x1b[2K";
/// Where the size of a terminal is not known.
const USUAL_SIZE: TerminalSize = TerminalSize { columns: 80, lines: 24 };

/// A step under way.
pub struct Running {
    pub order: u64,
    pub agent: Option<String>,
    pub since: Instant,
    /// Of a loop: how many rounds or items are over.
    pub counted: Option<Counted>,
    pub doing: String,
}

#[derive(Clone, Copy)]
pub struct Counted {
    pub done: u32,
    pub of: u32,
    pub bar: Bar,
    /// When somebody was last told of it.
    pub told_at: Instant,
}

impl Counted {
    pub fn is_told_one_by_one(&self) -> bool {
        self.of <= TOLD_ONE_BY_ONE
    }

    /// Takes note of how far it has come. Whether that is to be told; that it is over is told by its end.
    pub fn come(&mut self, done: u32, of: u32) -> bool {
        let part = |done: u32| u64::from(done) * PARTS_TOLD / u64::from(of.max(1));
        let is_next = part(done) > part(self.done) || self.told_at.elapsed() >= MAX_SILENCE;
        (self.done, self.of) = (done, of);
        let is_told = is_next && done < of && !self.is_told_one_by_one();
        if is_told {
            self.told_at = Instant::now();
        }
        is_told
    }
}

/// How far a loop has come is known of items, which are all done in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    Drawn,
    None,
}

pub fn size() -> TerminalSize {
    sys::terminal_size(sys::Terminal::Stderr).unwrap_or(USUAL_SIZE)
}

/// Up to the first line of a drawing, each of its rows away. In a window that was made narrower since, most terminals have
/// broken its lines anew. Row by row: some terminals keep what is cleared at once from the top of the screen.
pub fn cleared(drawn: &[String], size: TerminalSize) -> String {
    let rows: usize = drawn.iter().map(|line| rows_of(line, size.columns)).sum();
    format!("{}{}", ONE_ROW_AWAY.repeat(rows), if rows > 0 { "\r" } else { "" })
}

/// How many rows of a terminal a line takes.
fn rows_of(line: &str, columns: usize) -> usize {
    let (mut rows, mut used) = (1, 0);
    for wide in line.chars().filter_map(UnicodeWidthChar::width) {
        if used + wide > columns && used > 0 {
            (rows, used) = (rows + 1, 0);
        }
        used += wide;
    }
    rows
}

/// One line for each step under way, none longer than the screen is wide, and not more than it is high.
pub fn drawing(running: &BTreeMap<String, Running>, size: TerminalSize) -> Vec<String> {
    let mut steps: Vec<(&String, &Running)> = running.iter().collect();
    let count = steps.len();
    let room = size.lines.saturating_sub(OTHER_LINES).clamp(1, MAX_LINES + 1);
    // The last line may be needed to say how many there are besides.
    let shown = if count <= room.min(MAX_LINES) { count } else { room - 1 };
    let more = count - shown;
    // The line of a loop stands for all that runs in it: it is the last to go.
    steps.sort_by_key(|(_, running)| (running.counted.is_none(), running.order));
    steps.truncate(shown);
    steps.sort_by_key(|(_, running)| running.order);
    // One less: a line that fills the last column makes some terminals go to the next.
    let width = size.columns.saturating_sub(1);
    let mut lines: Vec<String> = steps.iter().map(|(step, running)| line_of(step, running, width)).collect();
    if more > 0 {
        let besides = if shown == 0 { format!("… {more} steps") } else { format!("… and {more} more") };
        lines.push(cut(&besides, width));
    }
    lines
}

/// What does not fit is left out: what the step is doing, then its bar, its agent, and the middle of its name. How far it has
/// come and how long it takes is always there.
fn line_of(step: &str, running: &Running, width: usize) -> String {
    let plain = |text: &str| harmless(text).replace('\n', " ");
    let step = plain(step);
    let agent = running.agent.as_deref().map(|agent| format!(" ({})", plain(agent))).unwrap_or_default();
    let bar = match running.counted {
        Some(Counted { done, of, bar: Bar::Drawn, .. }) if of > 0 => {
            let full = (u64::from(done) * BAR_CELLS as u64 / u64::from(of)) as usize;
            format!(" [{}{}]", "#".repeat(full), ".".repeat(BAR_CELLS.saturating_sub(full)))
        }
        _ => String::new(),
    };
    let count = running.counted.map(|it| format!(" {}/{}", it.done, it.of)).unwrap_or_default();
    let come = format!("{count} {} s", running.since.elapsed().as_secs());
    let doing = match running.doing.as_str() {
        "" => String::new(),
        doing => format!(" · {}", plain(doing)),
    };
    for (agent, bar) in [(agent.as_str(), bar.as_str()), (agent.as_str(), ""), ("", "")] {
        let line = format!("… {step}{agent}{bar}{come}");
        if line.width() <= width {
            return cut(&format!("{line}{doing}"), width);
        }
    }
    let room = width.saturating_sub("… ".width() + come.width());
    cut(&format!("… {}{come}", shortened(&step, room)), width)
}

/// As much as fits into so many columns.
fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    text.chars().take_while(fits).collect()
}

/// Without its middle: ids of steps differ at their ends.
fn shortened(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let tail_width = width.saturating_sub(1) / 2;
    let reversed: String = name.chars().rev().collect();
    let tail: String = cut(&reversed, tail_width).chars().rev().collect();
    cut(&format!("{}…{tail}", cut(name, width.saturating_sub(1 + tail.width()))), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_a_line_for_each_step_and_an_end() {
        let mut running = BTreeMap::new();
        for n in 0..15_u64 {
            running.insert(
                format!("step{n}"),
                Running {
                    order: n,
                    agent: Some("coder".into()),
                    since: Instant::now(),
                    counted: (n == 1 || n == 2).then_some(Counted {
                        done: 3,
                        of: 10,
                        bar: if n == 1 { Bar::Drawn } else { Bar::None },
                        told_at: Instant::now(),
                    }),
                    doing: if n == 0 { "runs \x1b[31mbash".into() } else { String::new() },
                },
            );
        }
        let size = |columns, lines| TerminalSize { columns, lines };
        let lines = drawing(&running, size(40, 50));
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "… step0 (coder) 0 s · runs \\u{1b}[31mba");
        assert_eq!(lines[1], "… step1 (coder) [###.......] 3/10 0 s");
        assert_eq!(lines[2], "… step2 (coder) 3/10 0 s");
        assert_eq!(lines[MAX_LINES], "… and 3 more");
        assert!(lines.iter().all(|line| line.chars().count() < 40));
        for (height, last) in
            [(14, "… and 4 more"), (6, "… and 12 more"), (3, "… 15 steps"), (1, "… 15 steps")]
        {
            let lines = drawing(&running, size(40, height));
            assert_eq!(lines.last().unwrap(), last);
            assert!(lines.len() <= height.saturating_sub(OTHER_LINES).max(1), "{height}");
        }
        let lines = drawing(&running, size(80, 5));
        assert_eq!(lines[..2], ["… step1 (coder) [###.......] 3/10 0 s", "… step2 (coder) 3/10 0 s"]);
        running.retain(|_, running| running.order < 4);
        assert_eq!(drawing(&running, size(80, 6)).len(), 4);
        assert!(drawing(&running, size(1, 1)).iter().all(String::is_empty));
    }

    /// Whatever stands in a line, it fits the screen, and what has been done is the last to go.
    #[test]
    fn a_line_fits_and_keeps_its_count() {
        let running = |agent: &str, doing: &str| Running {
            order: 0,
            agent: Some(agent.into()),
            since: Instant::now(),
            counted: Some(Counted { done: 7, of: 12, bar: Bar::Drawn, told_at: Instant::now() }),
            doing: doing.into(),
        };
        let long = format!("{}.{}", "a".repeat(64), "z".repeat(64));
        for (step, agent, doing, width, wanted) in [
            ("each", "coder", "asks m", 60, "… each (coder) [#####.....] 7/12 0 s · asks m"),
            ("each", "coder", "asks 模型模型", 48, "… each (coder) [#####.....] 7/12 0 s · asks 模型"),
            ("each", "coder", "asks 模型模型", 49, "… each (coder) [#####.....] 7/12 0 s · asks 模型"),
            ("each", "coder", "asks m", 30, "… each (coder) 7/12 0 s · asks"),
            ("each", "coder", "asks m", 19, "… each 7/12 0 s · a"),
            (long.as_str(), "coder", "asks m", 19, "… aaaa…zzz 7/12 0 s"),
            ("项目项目项目", "coder", "asks m", 19, "… 项目…目 7/12 0 s"),
            (long.as_str(), "coder", "asks m", 5, "…  7/"),
        ] {
            let line = line_of(step, &running(agent, doing), width);
            assert_eq!(line, wanted, "{width}");
            assert!(line.width() <= width, "{line}");
        }
    }
    /// A window that is made narrower breaks the lines of a drawing: all of their rows are drawn over.
    #[test]
    fn a_drawing_is_cleared_by_the_rows_it_takes_now() {
        let drawn = ["… each (coder) 7/12 0 s".to_owned(), "模型模".to_owned(), String::new()];
        for (columns, rows) in [(200, 3), (23, 3), (22, 4), (8, 5), (5, 5 + 2 + 1), (1, 23 + 3 + 1)] {
            let wanted = format!("{}\r", ONE_ROW_AWAY.repeat(rows));
            assert_eq!(cleared(&drawn, TerminalSize { columns, lines: 24 }), wanted, "{columns}");
        }
        assert_eq!(cleared(&[], USUAL_SIZE), "");
    }

    #[test]
    fn a_loop_is_told_at_each_tenth_unless_its_items_are() {
        for (of, wanted) in
            [(1, vec![]), (10, vec![]), (11, (2..11).collect()), (1_000, (1..10).map(|n| n * 100).collect())]
        {
            let mut counted = Counted { done: 0, of, bar: Bar::Drawn, told_at: Instant::now() };
            let told: Vec<u32> = (1..=of).filter(|done| counted.come(*done, of)).collect();
            assert_eq!(told, wanted, "{of}");
        }
    }
}
