//! `cargo xtask crash`: the fault tests at length. What a normal run samples, this goes through by the thousand.

use crate::Problem;
use crate::command;
use crate::test::with_servers;

/// A fault test, what makes it long, and how long by default.
struct Trial {
    about: &'static str,
    package: &'static str,
    test: &'static str,
    variable: &'static str,
    amount: u64,
}

const TRIALS: &[Trial] = &[
    Trial {
        about: "A process that is killed",
        package: "enjamb-cli",
        test: "crash::a_killed",
        variable: "ENJAMB_KILLS",
        amount: 500,
    },
    Trial {
        about: "Imports that are killed",
        package: "enjamb-cli",
        test: "imports::an_import_that_is_killed",
        variable: "ENJAMB_KILLS",
        amount: 100,
    },
    Trial {
        about: "A server that is killed under load",
        package: "enjamb-cli",
        test: "killed::",
        variable: "ENJAMB_KILLS",
        amount: 200,
    },
    Trial {
        about: "Two processes on one store, in seconds",
        package: "enjamb-cli",
        test: "processes::",
        variable: "ENJAMB_SECONDS",
        amount: 10,
    },
    Trial {
        about: "A disk that loses power, in images",
        package: "enjamb-testkit",
        test: "power::",
        variable: "ENJAMB_CRASH_IMAGES",
        amount: 1_000_000,
    },
    Trial {
        about: "Bits that flip",
        package: "enjamb-testkit",
        test: "flips::",
        variable: "ENJAMB_FLIPS",
        amount: 20_000,
    },
    Trial {
        about: "Random operations against the model",
        package: "enjamb-testkit",
        test: "model::whatever_happens_the_embedded",
        variable: "ENJAMB_CASES",
        amount: 5_000,
    },
    Trial {
        about: "Random operations on PostgreSQL against the model",
        package: "enjamb-testkit",
        test: "model::whatever_happens_the_engine_for_teams",
        variable: "ENJAMB_TEAM_CASES",
        amount: 2_000,
    },
    Trial {
        about: "Connections to PostgreSQL cut within a write, at every byte of so many",
        package: "enjamb-testkit",
        test: "cuts::",
        variable: "ENJAMB_CUT_EVERY",
        amount: 1,
    },
    Trial {
        about: "A bucket that misbehaves at random",
        package: "enjamb-testkit",
        test: "objects::random_misdeeds",
        variable: "ENJAMB_OBJECT_SCRIPTS",
        amount: 2_000,
    },
];

/// Runs every trial, or those whose test is named; a number among the arguments replaces the amounts.
pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    let amount = arguments.iter().find_map(|word| word.parse::<u64>().ok());
    let names: Vec<_> = arguments.iter().filter(|word| word.parse::<u64>().is_err()).collect();
    for trial in TRIALS.iter().filter(|trial| names.is_empty() || names.iter().any(|name| trial.test.contains(*name))) {
        let amount = amount.unwrap_or(trial.amount);
        println!("{}: {amount}.", trial.about);
        let mut test = with_servers(&["test", "--release", "-p", trial.package, trial.test, "--", "--nocapture"]);
        command::run(test.env(trial.variable, amount.to_string()))?;
    }
    Ok(())
}
