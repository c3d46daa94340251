//! Every system once a round, each round beginning with another one, so that what disturbs the machine disturbs all.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Problem;

/// What one run cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) operations: f64,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
}

impl Sample {
    pub(super) fn seconds_each(&self) -> f64 {
        self.seconds / self.operations
    }
}

/// One way of doing the work.
pub(super) struct System<'a> {
    pub(super) name: String,
    pub(super) run: Box<dyn Fn() -> Result<Sample, Problem> + 'a>,
}

impl<'a> System<'a> {
    pub(super) fn new(name: &str, run: impl Fn() -> Result<Sample, Problem> + 'a) -> Self {
        Self { name: name.to_owned(), run: Box::new(run) }
    }
}

/// What each system's runs cost, a row per system and a column per round.
pub(super) fn run(systems: &[System<'_>], rounds: usize) -> Result<Vec<Vec<Sample>>, Problem> {
    let mut samples = vec![Vec::with_capacity(rounds); systems.len()];
    for round in 0..rounds {
        for place in 0..systems.len() {
            let index = (round + place) % systems.len();
            let system = &systems[index];
            let sample = (system.run)().map_err(|problem| format!("{}: {problem}", system.name))?;
            samples[index].push(sample);
        }
    }
    Ok(samples)
}

/// Runs a command that measures itself and prints JSON last.
pub(super) fn told(command: &mut Command) -> Result<Sample, Problem> {
    let output = finished(command)?;
    let line = output.trim_end().lines().last().unwrap_or_default();
    let number = |name: &str| field(line, name);
    match (number("seconds"), number("n")) {
        (Some(seconds), Some(operations)) => {
            Ok(Sample { seconds, operations, p50_us: number("p50_us"), p99_us: number("p99_us") })
        }
        _ => Err(format!("it ended with {line:?} and not with what it measured")),
    }
}

/// Runs a command and takes the time, its start included.
pub(super) fn timed(command: &mut Command) -> Result<Sample, Problem> {
    let began = Instant::now();
    finished(command)?;
    Ok(Sample { seconds: began.elapsed().as_secs_f64(), operations: 1.0, p50_us: None, p99_us: None })
}

/// Runs a command and returns what it printed.
pub(super) fn finished(command: &mut Command) -> Result<String, Problem> {
    let output = command.stdin(Stdio::null()).output().map_err(|cause| format!("it could not be started: {cause}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("it ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()))
}

/// A number in a JSON object, the first of that name.
pub(super) fn field(json: &str, name: &str) -> Option<f64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest[..end].trim().parse().ok()
}

pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn each_round_begins_with_another_system() {
        let order = RefCell::new(String::new());
        let system = |name: &'static str| {
            let order = &order;
            System::new(name, move || {
                order.borrow_mut().push_str(name);
                Ok(Sample { seconds: 1.0, operations: 2.0, p50_us: None, p99_us: None })
            })
        };
        let samples = run(&[system("a"), system("b"), system("c")], 4).unwrap();
        assert_eq!(*order.borrow(), "abcbcacababc");
        assert!(samples.iter().all(|row| row.len() == 4));
    }

    #[test]
    fn numbers_are_read_from_json() {
        let json = r#"{"n":10,"p50_us":1.5, "seconds": 2e-1}"#;
        assert_eq!(
            ["n", "p50_us", "seconds", "p99_us"].map(|name| field(json, name)),
            [Some(10.0), Some(1.5), Some(0.2), None]
        );
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
