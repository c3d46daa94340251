//! Tables of what systems cost, each beside the one it is compared with.

use super::rounds::{Sample, median};

/// What a system is hoped to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// A cost of at most so many times the reference's.
    Within(f64),
    /// A cost of at least so many times the reference's: the reference is ours.
    Beaten(f64),
    /// At most so many milliseconds.
    Milliseconds(f64),
}

/// A system, its runs and its goal.
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) samples: &'a [Sample],
    pub(super) goal: Option<Goal>,
}

const HEAD: [&str; 6] = ["system", "per operation", "× reference [min–max]", "p50", "p99", "goal"];

/// Rows against the runs of a reference in the same rounds.
pub(super) fn print(title: &str, rows: &[Row<'_>], reference: &[Sample]) {
    println!("\n{title}\n");
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| cells(row, reference)));
    print!("{}", aligned(&lines));
}

fn cells(row: &Row<'_>, reference: &[Sample]) -> [String; 6] {
    let each = median(row.samples.iter().map(Sample::seconds_each));
    let ratios: Vec<f64> =
        row.samples.iter().zip(reference).map(|(own, other)| own.seconds_each() / other.seconds_each()).collect();
    let (low, high) =
        ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let ratio = median(ratios.iter().copied());
    let percentile = |of: fn(&Sample) -> Option<f64>| {
        let known: Vec<f64> = row.samples.iter().filter_map(of).collect();
        if known.is_empty() { "–".to_owned() } else { duration(median(known) / 1e6) }
    };
    [
        row.name.to_owned(),
        duration(each),
        format!("{ratio:.2} [{low:.2}–{high:.2}]"),
        percentile(|sample| sample.p50_us),
        percentile(|sample| sample.p99_us),
        row.goal.map_or_else(String::new, |goal| verdict(goal, each, ratio)),
    ]
}

fn verdict(goal: Goal, seconds_each: f64, ratio: f64) -> String {
    let (said, reached) = match goal {
        Goal::Within(times) => (format!("≤ {}×", (times * 1e3).round() / 1e3), ratio <= times),
        Goal::Beaten(times) => (format!("≥ {times}×"), ratio >= times),
        Goal::Milliseconds(most) => (format!("≤ {most} ms"), seconds_each * 1e3 <= most),
    };
    format!("{said} {}", mark(reached))
}

pub(super) fn mark(reached: bool) -> char {
    if reached { '✓' } else { '✗' }
}

fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// Lines of cells in columns: the first to the left, the others to the right.
pub(super) fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let first = format!("  {:<width$}", line[0], width = widths[0]);
        let rest = line.iter().zip(&widths).skip(1).map(|(cell, width)| format!("  {cell:>width$}"));
        let whole = std::iter::once(first).chain(rest).collect::<String>();
        text.push_str(whole.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(seconds: &[f64]) -> Vec<Sample> {
        let sample = |seconds| Sample { seconds, operations: 10.0, p50_us: Some(seconds * 1e5), p99_us: None };
        seconds.iter().map(|seconds| sample(*seconds)).collect()
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let (own, other) = (samples(&[2.0, 9.0, 4.0]), samples(&[1.0, 3.0, 4.0]));
        let row = Row { name: "ours", samples: &own, goal: Some(Goal::Within(1.5)) };
        assert_eq!(cells(&row, &other), ["ours", "400.00 ms", "2.00 [1.00–3.00]", "400.00 ms", "–", "≤ 1.5× ✗"]);
    }

    #[test]
    fn goals_say_whether_they_are_reached() {
        assert_eq!(verdict(Goal::Beaten(4.0), 1.0, 5.0), "≥ 4× ✓");
        assert_eq!(verdict(Goal::Milliseconds(30.0), 0.031, 1.0), "≤ 30 ms ✗");
    }

    #[test]
    fn columns_line_up() {
        let lines = [["a", "b"], ["long", "1.5"]].map(|line| line.map(str::to_owned));
        assert_eq!(aligned(&lines), "  a       b\n  long  1.5\n");
    }
}
