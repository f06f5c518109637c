//! Boxes and lines, read back: a drawing says what depends on what, all of it and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use tenon_flow::{Drawing, Plan, parse};
use tenon_testkit::cases;
use unicode_width::UnicodeWidthChar;

type Edges = BTreeSet<(String, String)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Up,
    Down,
    Left,
    Right,
}

use Way::{Down, Left, Right, Up};

impl Way {
    fn back(self) -> Way {
        match self {
            Up => Down,
            Down => Up,
            Left => Right,
            Right => Left,
        }
    }
}

fn ways(glyph: char) -> &'static [Way] {
    match glyph {
        '│' => &[Up, Down],
        '─' => &[Left, Right],
        '┌' => &[Right, Down],
        '┐' => &[Left, Down],
        '└' => &[Up, Right],
        '┘' => &[Up, Left],
        '├' => &[Up, Down, Right],
        '┤' => &[Up, Down, Left],
        '┬' => &[Left, Right, Down],
        '┴' => &[Left, Right, Up],
        '┼' => &[Up, Down, Left, Right],
        '▼' => &[Up],
        _ => &[],
    }
}

struct Frame {
    left: usize,
    right: usize,
    top: usize,
    bottom: usize,
}

/// A drawing as a person looks at it, cell by cell.
struct Sheet {
    cells: Vec<Vec<char>>,
    boxes: BTreeMap<String, Frame>,
}

impl Sheet {
    fn of(drawn: &str, names: &[String]) -> Sheet {
        let cells: Vec<Vec<char>> = drawn
            .lines()
            .map(|line| {
                // A character of two cells fills both.
                line.chars().flat_map(|c| std::iter::repeat_n(c, c.width().unwrap_or(0))).collect()
            })
            .collect();
        let mut sheet = Sheet { cells, boxes: BTreeMap::new() };
        for row in 0..sheet.cells.len() {
            let sides: Vec<usize> =
                (0..sheet.cells[row].len()).filter(|column| sheet.cells[row][*column] == '│').collect();
            for pair in sides.windows(2) {
                let (left, right) = (pair[0], pair[1]);
                let inside: String = sheet.cells[row][left + 1..right].iter().collect();
                if row == 0 || sheet.at(row - 1, left) != '┌' || !names.contains(&inside.trim().to_owned())
                {
                    continue;
                }
                let bottom = (row..).find(|row| sheet.at(*row, left) != '│').unwrap();
                let corners = [(row - 1, right, '┐'), (bottom, left, '└'), (bottom, right, '┘')];
                assert!(corners.iter().all(|(row, column, corner)| sheet.at(*row, *column) == *corner));
                let found = Frame { left, right, top: row - 1, bottom };
                assert!(sheet.boxes.insert(inside.trim().to_owned(), found).is_none(), "{drawn}");
            }
        }
        sheet
    }

    fn at(&self, row: usize, column: usize) -> char {
        self.cells.get(row).and_then(|row| row.get(column)).copied().unwrap_or(' ')
    }

    fn box_at(&self, row: usize, column: usize) -> Option<&str> {
        let is_in =
            |it: &Frame| (it.top..=it.bottom).contains(&row) && (it.left..=it.right).contains(&column);
        self.boxes.iter().find(|(_, it)| is_in(it)).map(|(name, _)| name.as_str())
    }

    /// The next cell of a line that leaves this one; lines along pass under lines down.
    fn next(&self, row: usize, column: usize, way: Way) -> (usize, usize) {
        let column_after = |column: usize| if way == Left { column.wrapping_sub(1) } else { column + 1 };
        match way {
            Up => (row.wrapping_sub(1), column),
            Down => (row + 1, column),
            Left | Right => {
                let mut at = column_after(column);
                while self.at(row, at) == '│' && self.box_at(row, at).is_none() {
                    at = column_after(at);
                }
                (row, at)
            }
        }
    }

    /// Follows each line from its box along and down.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (name, from) in &self.boxes {
            let mut open: Vec<(usize, usize)> = (from.left..=from.right)
                .map(|column| (from.bottom + 1, column))
                .filter(|(row, column)| ways(self.at(*row, *column)).contains(&Up))
                .collect();
            let mut seen = BTreeSet::new();
            while let Some((row, column)) = open.pop() {
                if !seen.insert((row, column)) {
                    continue;
                }
                if self.at(row, column) == '▼' {
                    let target = self.box_at(row + 1, column).unwrap_or("nothing");
                    edges.insert((name.clone(), target.to_owned()));
                }
                let onwards = ways(self.at(row, column)).iter().filter(|way| **way != Up);
                open.extend(onwards.map(|way| self.next(row, column, *way)));
            }
        }
        edges
    }

    /// Ends of lines that meet nothing, or a line that does not go there.
    fn loose_ends(&self) -> Vec<(usize, usize, Way)> {
        let mut loose = Vec::new();
        for row in 0..self.cells.len() {
            for column in (0..self.cells[row].len()).filter(|column| self.box_at(row, *column).is_none()) {
                for way in ways(self.at(row, column)) {
                    let (to_row, to_column) = self.next(row, column, *way);
                    let meets = match (way, self.box_at(to_row, to_column)) {
                        // From its box; arrows are not lines and end above theirs.
                        (Up, Some(_)) => true,
                        (_, Some(_)) => false,
                        (way, None) => ways(self.at(to_row, to_column)).contains(&way.back()),
                    };
                    if !meets {
                        loose.push((row, column, *way));
                    }
                }
            }
        }
        loose
    }
}

#[derive(Clone, Debug)]
struct Graph {
    steps: Vec<Value>,
}

impl Graph {
    fn wanted(&self) -> Edges {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of = |step: &Value| {
            let to = text(&step["id"]);
            let from = step["dependsOn"].as_array().cloned().unwrap_or_default();
            from.into_iter().map(|from| (text(&from), to.clone())).collect::<Vec<_>>()
        };
        self.steps.iter().flat_map(of).collect()
    }

    fn plan(&self) -> Plan {
        let agents = json!({"w": {"description": "W."}});
        let document = json!({"name": "g", "agents": agents, "steps": self.steps}).to_string();
        Plan::of(&parse(&document, Path::new("g.json")).unwrap().workflow)
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let drawn = self.plan().draw(Drawing::Boxes);
        let names: Vec<String> =
            self.steps.iter().map(|step| step["id"].as_str().unwrap().to_owned()).collect();
        let sheet = Sheet::of(&drawn, &names);
        prop_assert_eq!(sheet.boxes.len(), names.len(), "{}", drawn);
        prop_assert_eq!(sheet.edges(), self.wanted(), "{}", drawn);
        prop_assert_eq!(sheet.loose_ends(), vec![], "{}", drawn);
        Ok(())
    }
}

/// Steps in any order, with names of any length, some of them with a second line in their boxes.
fn graphs() -> impl Strategy<Value = Graph> {
    let shape = (2_usize..=25, prop::sample::select(vec![0.1, 0.2, 0.35, 0.5, 0.7]));
    shape.prop_flat_map(|(count, density)| {
        let edges = prop::collection::vec(prop::bool::weighted(density), count * (count - 1) / 2);
        let looks = prop::collection::vec((0_usize..30, any::<bool>()), count);
        let order = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        (edges, looks, order).prop_map(move |(edges, looks, order)| {
            let name = |step: usize| format!("s{step}{}", "-".repeat(looks[step].0.saturating_sub(15)));
            let step = |to: usize| {
                let from = (0..to).filter(|from| edges[to * (to - 1) / 2 + from]);
                let mut step = json!({"id": name(to), "dependsOn": from.map(name).collect::<Vec<_>>()});
                if looks[to].1 {
                    step["agent"] = json!("w");
                }
                step
            };
            Graph { steps: order.into_iter().map(step).collect() }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]

    #[test]
    fn a_drawing_says_what_depends_on_what(graph in graphs()) {
        graph.check()?;
    }
}

fn graph(steps: &[(&str, &[&str])]) -> Graph {
    Graph { steps: steps.iter().map(|(id, from)| json!({"id": id, "dependsOn": from})).collect() }
}

/// Lines that each come down where the other has to end.
#[test]
fn lines_in_each_other_s_way_go_round() {
    let crossed = graph(&[
        ("s1", &[]),
        ("s5", &["s0"]),
        ("s0", &[]),
        ("s4", &["s1", "s2"]),
        ("s3", &["s1", "s2"]),
        ("s2", &[]),
    ]);
    crossed.check().unwrap();
    let drawn = "\
g (6 steps)

┌────────┐  ┌────────┐  ┌────────┐
│ s1     │  │ s0     │  │ s2     │
└────────┘  └────────┘  └────────┘
     │           │           │
     │     ┌─────┘           │
     └─────│─────┬───────────┤
     ┌─────┘     │           │
     │           │           │
     ▼           ▼           ▼
┌────────┐  ┌────────┐  ┌────────┐
│ s5     │  │ s4     │  │ s3     │
└────────┘  └────────┘  └────────┘
";
    assert_eq!(crossed.plan().draw(Drawing::Boxes), drawn);
    let more = graph(&[
        ("s2", &[]),
        ("s6", &["s4"]),
        ("s5", &["s0", "s2"]),
        ("s4", &[]),
        ("s3", &["s0", "s1", "s2"]),
        ("s1", &[]),
        ("s7", &["s1", "s4"]),
        ("s0", &[]),
    ]);
    more.check().unwrap();
}

/// More lines than a box of its name has columns: each still reaches it in its own.
#[test]
fn a_box_is_as_wide_as_the_lines_that_reach_it() {
    let sources: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<Value> = sources.iter().map(|id| json!({"id": id})).collect();
    for (number, source) in sources.iter().enumerate() {
        steps.push(json!({"id": format!("t{number}"), "dependsOn": [source]}));
    }
    steps.extend(["u", "v", "w"].map(|id| json!({"id": id, "dependsOn": sources})));
    // So that no two sources lead to the same steps.
    Graph { steps }.check().unwrap();
}

/// Forty steps, each after all before it.
#[test]
fn the_densest_graph_is_drawn_right() {
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let steps = (0..40).map(|n| json!({"id": names[n], "dependsOn": names[..n]})).collect();
    Graph { steps }.check().unwrap();
}
