//! `cargo xtask check`: formatting, lints, documentation and dependencies; everything short of running the tests.

use crate::Problem;
use crate::command::{self, cargo};
use crate::needs::{self, Absence, Need, Source};

fn needs() -> Vec<Need> {
    vec![
        Need {
            name: "rustfmt",
            source: Source::Component { subcommand: "fmt", component: "rustfmt" },
            absence: Absence::Stops,
        },
        Need {
            name: "clippy",
            source: Source::Component { subcommand: "clippy", component: "clippy" },
            absence: Absence::Stops,
        },
    ]
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    if !arguments.is_empty() {
        return Err(format!("the checks take no arguments, but were given `{}`", arguments.join(" ")));
    }
    needs::meet(&needs())?;
    println!("Checking the formatting.");
    command::run(&mut cargo(["fmt", "--all", "--", "--check"]))?;
    println!("Checking the lints.");
    command::run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    println!("Checking the documentation.");
    command::run(cargo(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    dependencies()
}

/// Optional, because cargo-deny takes long to build and the list of dependencies changes seldom.
fn dependencies() -> Result<(), Problem> {
    if !command::succeeds(&mut cargo(["deny", "--version"])) {
        println!("cargo-deny is not installed, so licences and advisories were not checked.");
        return Ok(());
    }
    println!("Checking licences, advisories and sources.");
    command::run(&mut cargo(["deny", "check"]))
}
