//! The table: one row for each measure, one column for each program, and whether the goal was met.

pub struct Row {
    pub what: &'static str,
    pub goal: Goal,
    pub unit: Unit,
    /// One for each program, ours first, `curl` second; `None` where it was not measured.
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Copy)]
pub enum Goal {
    None,
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    TimesCurl(f64),
}

/// Values are in seconds and bytes.
#[derive(Clone, Copy)]
pub enum Unit {
    Time,
    Bytes,
    Ratio,
}

/// Prints the table; true when every goal was met.
pub fn print(names: &[&str], rows: &[Row], runs: usize, rss_floor: u64) -> bool {
    println!("| measure | goal | {} | met |", names.join(" | "));
    println!("|---|---|{}---|", "---:|".repeat(names.len()));
    for row in rows {
        println!("{}", line(row));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let floor = show(rss_floor as f64, Unit::Bytes);
    println!("\nMedians of {runs}, taken in turns, {cores} cores; 1 MB is 1,000,000 bytes.");
    println!("A program that does nothing shows a peak RSS of {floor} here.");
    rows.iter().all(|row| met(row) != Some(false))
}

fn line(row: &Row) -> String {
    let goal = match row.goal {
        Goal::None => "–".to_owned(),
        Goal::AtMost(limit) => format!("≤ {}", show(limit, row.unit)),
        Goal::Below(limit) => format!("< {}", show(limit, row.unit)),
        Goal::AtLeast(limit) => format!("≥ {}", show(limit, row.unit)),
        Goal::TimesCurl(times) => format!("≤ {times} × curl"),
    };
    let values: Vec<String> =
        row.values.iter().map(|value| value.map_or("–".to_owned(), |value| show(value, row.unit))).collect();
    let met = match met(row) {
        None => "–",
        Some(true) => "yes",
        Some(false) => "**no**",
    };
    format!("| {} | {goal} | {} | {met} |", row.what, values.join(" | "))
}

fn met(row: &Row) -> Option<bool> {
    let value = row.values.first().copied().flatten()?;
    match row.goal {
        Goal::None => None,
        Goal::AtMost(limit) => Some(value <= limit),
        Goal::Below(limit) => Some(value < limit),
        Goal::AtLeast(limit) => Some(value >= limit),
        Goal::TimesCurl(times) => Some(value <= times * row.values.get(1).copied().flatten()?),
    }
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{:.1} MB", value / 1e6),
        Unit::Ratio => format!("{value:.2}"),
        Unit::Time if value.abs() < 1e-3 => format!("{:.2} µs", value * 1e6),
        Unit::Time => format!("{:.1} ms", value * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_whether_the_goal_was_met() {
        let row = |goal, unit, values: &[f64]| {
            line(&Row { what: "x", goal, unit, values: values.iter().copied().map(Some).collect() })
        };
        assert_eq!(row(Goal::None, Unit::Time, &[0.0123, 0.5]), "| x | – | 12.3 ms | 500.0 ms | – |");
        assert_eq!(row(Goal::AtMost(5e-6), Unit::Time, &[5e-6]), "| x | ≤ 5.00 µs | 5.00 µs | yes |");
        assert_eq!(row(Goal::Below(2e6), Unit::Bytes, &[2e6]), "| x | < 2.0 MB | 2.0 MB | **no** |");
        assert_eq!(row(Goal::AtLeast(0.7), Unit::Ratio, &[0.7]), "| x | ≥ 0.70 | 0.70 | yes |");
        assert_eq!(row(Goal::AtLeast(0.7), Unit::Ratio, &[0.69]), "| x | ≥ 0.70 | 0.69 | **no** |");
        assert_eq!(
            row(Goal::TimesCurl(3.0), Unit::Time, &[0.03, 0.01]),
            "| x | ≤ 3 × curl | 30.0 ms | 10.0 ms | yes |"
        );
        assert_eq!(
            row(Goal::TimesCurl(3.0), Unit::Time, &[0.031, 0.01]),
            "| x | ≤ 3 × curl | 31.0 ms | 10.0 ms | **no** |"
        );
    }
}
