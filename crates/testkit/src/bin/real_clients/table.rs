//! What came of the cases: a line as each ends, a table when all have.

use std::path::Path;

use crate::cases::Outcome;
use crate::client::Client;
use crate::{Problem, say};

#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

struct Row {
    case: String,
    client: Client,
    what: String,
    seconds: f64,
    outcome: Result<Outcome, String>,
}

impl Table {
    pub fn add(
        &mut self,
        case: &str,
        client: Client,
        what: &Path,
        (outcome, seconds): (Result<Outcome, Problem>, f64),
    ) {
        let what = what.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = outcome.map_err(|problem| problem.to_string());
        let row = Row { case: case.to_owned(), client, what, seconds, outcome };
        let said = match &row.outcome {
            Ok(Outcome::Holds) => "holds".to_owned(),
            Ok(Outcome::Mended(why)) => format!("loads once repaired: {}", line(why)),
            Ok(Outcome::Hopeless(why)) => format!("nothing in it: {}", line(why)),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(problem) => format!("FAILS: {}", line(problem)),
        };
        say(&format!("{:<11}{:<12}{:>5.1} s  {}  {said}", row.case, row.client.runtime(), row.seconds, row.what));
        self.rows.push(row);
    }

    pub fn all_hold(&self) -> bool {
        self.rows.iter().all(|row| row.outcome.is_ok())
    }

    pub fn print(&self) {
        say("\ncase        runtime      sessions  hold  repaired  nothing in it  skipped  fail  seconds");
        let mut names: Vec<(&str, Client)> = Vec::new();
        for row in &self.rows {
            if !names.contains(&(row.case.as_str(), row.client)) {
                names.push((&row.case, row.client));
            }
        }
        for (case, client) in names {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.case == case && row.client == client).collect();
            let count = |is: fn(&Result<Outcome, String>) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
            say(&format!(
                "{case:<12}{:<13}{:>8}{:>6}{:>10}{:>15}{:>9}{:>6}{:>9.1}",
                client.runtime(),
                rows.len(),
                count(|outcome| matches!(outcome, Ok(Outcome::Holds))),
                count(|outcome| matches!(outcome, Ok(Outcome::Mended(_)))),
                count(|outcome| matches!(outcome, Ok(Outcome::Hopeless(_)))),
                count(|outcome| matches!(outcome, Ok(Outcome::Skipped(_)))),
                count(Result::is_err),
                rows.iter().map(|row| row.seconds).sum::<f64>(),
            ));
        }
    }
}

/// A text on one line, not too long.
fn line(text: &str) -> String {
    const CHARS_MAX: usize = 900;
    text.chars().take(CHARS_MAX).map(|found| if found.is_control() { ' ' } else { found }).collect()
}
