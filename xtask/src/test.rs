//! `cargo xtask test`: makes the machine ready, then runs every test, or those that the arguments choose.

mod left_out;

use std::process::Command;

use crate::Problem;
use crate::command::{self, cargo};
use crate::needs::{self, Absence, Need, Source};

const NEXTEST: Need = Need {
    name: "cargo-nextest",
    source: Source::Crate { subcommand: "nextest", package: "cargo-nextest" },
    absence: Absence::Means("The tests run under `cargo test` instead."),
};

/// The packages whose tests open stores without caring where they are.
const STORED: [&str; 3] = ["enjamb-service", "enjamb-server", "enjamb-cli"];

/// What the tests need. A Debian package is one more row.
fn needs() -> Vec<Need> {
    vec![
        Need {
            name: "A C compiler",
            source: Source::Debian { binary: "cc", packages: &["gcc", "libc6-dev"] },
            absence: Absence::Stops,
        },
        Need {
            name: "strace",
            source: Source::Debian { binary: "strace", packages: &["strace"] },
            absence: Absence::Means("The tests that watch system calls say that they were skipped."),
        },
        Need { name: "PostgreSQL", source: Source::Postgres, absence: Absence::Stops },
        Need {
            name: "Ceph's S3 gateway",
            source: Source::Debian { binary: "radosgw", packages: &["radosgw", "ceph-mon", "ceph-osd", "ceph-common"] },
            absence: Absence::Stops,
        },
        NEXTEST,
    ]
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    needs::meet(&needs())?;
    let selection = Selection::of(arguments);
    run_tests(&selection)?;
    let again = selection.stored();
    if !again.is_empty() {
        println!("Running again, with stores in PostgreSQL, the tests of {}.", again.join(", "));
        run_again(&selection, &again)?;
    }
    if selection.is_everything() {
        println!("Running the examples in the documentation.");
        command::run(&mut cargo(["test", "--doc", "--workspace"]))
    } else {
        println!("The examples in the documentation are not part of a filtered run; `cargo test --doc` runs them.");
        Ok(())
    }
}

fn run_tests(selection: &Selection<'_>) -> Result<(), Problem> {
    if NEXTEST.is_met() {
        println!("Running the tests with cargo-nextest.");
        command::run(&mut with_servers(&selection.for_nextest(command::unattended())))
    } else {
        println!("Running the tests with cargo's own runner.");
        command::run(&mut with_servers(&selection.for_cargo_test()))
    }
}

/// Runs the tests of some packages with their stores in a database. They are chosen among those that were built before:
/// to build fewer packages is to build others, since each brings features along.
fn run_again(selection: &Selection<'_>, packages: &[&str]) -> Result<(), Problem> {
    let mut command = if NEXTEST.is_met() {
        let filter = left_out::filter(packages);
        let words = [&selection.for_nextest(command::unattended())[..], &["--no-tests=pass", "-E", &filter]].concat();
        with_servers(&words)
    } else {
        let packages = packages.iter().flat_map(|package| ["-p", package]).collect();
        let again = Selection { packages, rest: selection.rest.clone() };
        with_servers(&[&again.for_cargo_test()[..], &left_out::skips()].concat())
    };
    command::run(command.env("ENJAMB_TEST_ENGINE", "postgres"))
}

/// A cargo command with the servers that tests share, started before it and stopped after it.
pub(crate) fn with_servers(words: &[&str]) -> Command {
    let run = ["run", "--quiet", "-p", "enjamb-testkit", "--bin", "with_servers", "--", "cargo"];
    cargo([&run[..], words].concat())
}

/// The tests that the arguments choose.
struct Selection<'a> {
    /// The `-p` options; without one, the whole workspace.
    packages: Vec<&'a str>,
    /// Names of tests, and options of the runner.
    rest: Vec<&'a str>,
}

impl<'a> Selection<'a> {
    fn of(arguments: &'a [String]) -> Self {
        let mut selection = Self { packages: Vec::new(), rest: Vec::new() };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if matches!(word, "-p" | "--package") {
                selection.packages.push(word);
                selection.packages.extend(words.next());
            } else if word.starts_with("-p") || word.starts_with("--package=") {
                selection.packages.push(word);
            } else {
                selection.rest.push(word);
            }
        }
        selection
    }

    /// The packages of it whose tests are run once more with stores in PostgreSQL.
    fn stored(&self) -> Vec<&'static str> {
        let chosen =
            |package: &&str| self.packages.is_empty() || self.packages.iter().any(|word| word.ends_with(package));
        STORED.into_iter().filter(chosen).collect()
    }

    fn is_everything(&self) -> bool {
        self.packages.is_empty() && self.rest.is_empty()
    }

    /// Cargo lets `--workspace` win over `-p` in silence, so only one of them is ever given.
    fn scope(&self) -> Vec<&'a str> {
        if self.packages.is_empty() { vec!["--workspace"] } else { self.packages.clone() }
    }

    fn for_nextest(&self, unattended: bool) -> Vec<&'a str> {
        let profile: &[&str] = if unattended { &["--profile", "ci"] } else { &[] };
        [&["nextest", "run"], profile, &self.scope(), &self.rest].concat()
    }

    /// `--tests` is every target that holds tests, and leaves the documentation's examples to their own run.
    fn for_cargo_test(&self) -> Vec<&'a str> {
        [&["test", "--no-fail-fast", "--tests"], &*self.scope(), &["--"], &self.rest].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typed: &str, nextest: &str, cargo_test: &str) {
        let arguments: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let selection = Selection::of(&arguments);
        assert_eq!(selection.for_nextest(false).join(" "), nextest);
        assert_eq!(selection.for_cargo_test().join(" "), cargo_test);
    }

    #[test]
    fn no_argument_chooses_the_workspace() {
        check("", "nextest run --workspace", "test --no-fail-fast --tests --workspace --");
    }

    #[test]
    fn names_choose_within_the_workspace() {
        check(
            "chain fork",
            "nextest run --workspace chain fork",
            "test --no-fail-fast --tests --workspace -- chain fork",
        );
    }

    #[test]
    fn packages_replace_the_workspace() {
        check(
            "fork -p enjamb-core -pxtask --package=enjamb-cli",
            "nextest run -p enjamb-core -pxtask --package=enjamb-cli fork",
            "test --no-fail-fast --tests -p enjamb-core -pxtask --package=enjamb-cli -- fork",
        );
    }

    #[test]
    fn what_opens_stores_runs_again_on_postgres() {
        let check = |typed: &str, expected: &[&str]| {
            let arguments: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
            assert_eq!(Selection::of(&arguments).stored(), expected, "{typed}");
        };
        check("", &STORED);
        check("chain -p enjamb-cli -pxtask", &["enjamb-cli"]);
        check("-p enjamb-core", &[]);
    }

    #[test]
    fn an_unattended_run_uses_the_ci_profile() {
        let selection = Selection::of(&[]);
        assert_eq!(selection.for_nextest(true).join(" "), "nextest run --profile ci --workspace");
    }
}
