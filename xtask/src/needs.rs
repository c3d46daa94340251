//! What a chore needs on the machine, and how a missing piece gets there.
//!
//! A need is one row of a table: the program, how to tell that it is there, where it comes from, and what its absence
//! means. [`meet`] installs what is missing.

use std::env;
use std::process::Command;

use crate::Problem;
use crate::command::{cargo, on_path, run, succeeds, unattended};

pub(crate) struct Need {
    /// What people call it.
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    pub(crate) absence: Absence,
}

/// Where a need comes from, which also says how to tell that it is there.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A program on the path, from these Debian packages.
    Debian { binary: &'static str, packages: &'static [&'static str] },
    /// PostgreSQL's programs, which Debian keeps off the path.
    Postgres,
    /// A cargo subcommand, built from its crate.
    Crate { subcommand: &'static str, package: &'static str },
    /// A cargo subcommand that is a component of the toolchain.
    Component { subcommand: &'static str, component: &'static str },
}

/// What a chore does without the need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Absence {
    /// It stops.
    Stops,
    /// It goes on, and this sentence says how.
    Means(&'static str),
}

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        match self.source {
            Source::Debian { binary, .. } => on_path(binary),
            Source::Postgres => on_path("initdb") || has_postgres_of_debian(),
            Source::Crate { subcommand, .. } | Source::Component { subcommand, .. } => {
                succeeds(&mut cargo([subcommand, "--version"]))
            }
        }
    }
}

/// Installs what is missing. An optional need that cannot be installed is told to the reader and otherwise ignored.
pub(crate) fn meet(needs: &[Need]) -> Result<(), Problem> {
    let mut apt = Apt::default();
    for need in needs.iter().filter(|need| !need.is_met()) {
        let patience = if matches!(need.source, Source::Crate { .. }) { " This takes some minutes, once." } else { "" };
        println!("{} is missing; installing it.{patience}", need.name);
        let outcome = match need.source {
            Source::Debian { packages, .. } => apt.install(packages),
            Source::Postgres => apt.install(&["postgresql"]),
            Source::Crate { package, .. } => run(&mut cargo(["install", package, "--locked"])),
            Source::Component { component, .. } => run(Command::new("rustup").args(["component", "add", component])),
        };
        if let Err(cause) = outcome {
            settle(need, &cause)?;
        }
    }
    Ok(())
}

/// Decides what a failed installation means for the chore.
fn settle(need: &Need, cause: &str) -> Result<(), Problem> {
    match need.absence {
        Absence::Stops => Err(format!("{} is needed and could not be installed: {cause}", need.name)),
        Absence::Means(consequence) => {
            println!("{} could not be installed ({cause}). {consequence}", need.name);
            Ok(())
        }
    }
}

/// Debian keeps the programs of each version in a directory of their own.
fn has_postgres_of_debian() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.into_iter().any(|version| version.path().join("bin/initdb").is_file())
}

/// Debian's package tool. Its lists are fetched once, and only when something is to be installed.
#[derive(Default)]
struct Apt {
    lists_were_fetched: bool,
}

impl Apt {
    fn install(&mut self, packages: &[&str]) -> Result<(), Problem> {
        if !on_path("apt-get") {
            return Err(format!("there is no apt-get here; install {} by hand", packages.join(" and ")));
        }
        if !self.lists_were_fetched {
            self.lists_were_fetched = true;
            // Old lists may still do, so the installation is the judge.
            if let Err(problem) = run(as_root("apt-get").args(["update", "--quiet"])) {
                println!("{problem}; going on with the package lists that are here.");
            }
        }
        run(as_root("apt-get").args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages))
    }
}

/// The program as root. Sudo clears the environment, so the setting that keeps Debian from asking goes through `env`.
fn as_root(program: &str) -> Command {
    let mut words = Vec::new();
    if !is_root() {
        words.push("sudo");
        if unattended() {
            words.push("--non-interactive");
        }
    }
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", program]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

fn is_root() -> bool {
    match Command::new("id").arg("-u").output() {
        Ok(output) => output.stdout.trim_ascii() == b"0",
        Err(_) => env::var_os("USER").is_some_and(|user| user == "root"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(absence: Absence) -> Need {
        Need { name: "abacus", source: Source::Debian { binary: "abacus-nobody-has", packages: &[] }, absence }
    }

    #[test]
    fn a_program_nobody_has_is_missing() {
        assert!(!need(Absence::Stops).is_met());
    }

    #[test]
    fn a_subcommand_nobody_has_is_missing() {
        let source = Source::Crate { subcommand: "abacus-nobody-has", package: "abacus" };
        assert!(!Need { name: "abacus", source, absence: Absence::Stops }.is_met());
    }

    #[test]
    fn only_a_required_need_stops_the_chore() {
        assert_eq!(settle(&need(Absence::Means("Counting is by hand.")), "no beads"), Ok(()));
        assert_eq!(
            settle(&need(Absence::Stops), "no beads"),
            Err("abacus is needed and could not be installed: no beads".to_owned())
        );
    }
}
