//! Commands that agents and scripts call again and again: described alone, without the sixty others. Describing all takes
//! longer than many a command.

use std::ffi::OsStr;

use clap::{Args, Command};

use super::{append, artifacts, checkpoint, current, get, log, materialize, put, resolve, show, status};

type Describe = fn(Command) -> Command;

const OFTEN: &[(&str, Describe)] = &[
    ("append", append::Append::augment_args),
    ("artifacts", artifacts::Artifacts::augment_args),
    ("checkpoint", checkpoint::Checkpoint::augment_args),
    ("current", current::Current::augment_args),
    ("get", get::Get::augment_args),
    ("log", log::Log::augment_args),
    ("materialize", materialize::Materialize::augment_args),
    ("put", put::Put::augment_args),
    ("resolve", resolve::Resolve::augment_args),
    ("show", show::Show::augment_args),
    ("status", status::Status::augment_args),
];

/// The command of this name, if it is one of them.
pub fn often(name: &OsStr) -> Option<Command> {
    let (name, describe) = OFTEN.iter().find(|(known, _)| name == *known)?;
    Some(describe(Command::new(*name)))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::commands::{Cli, Global};

    #[test]
    fn what_is_described_alone_is_the_command_itself() {
        let mut all = Cli::command();
        all.build();
        for (name, describe) in OFTEN {
            let own = all.find_subcommand(name).unwrap_or_else(|| panic!("{name} is no command"));
            let mut alone = Global::augment_args(Command::new("enjamb")).subcommand(describe(Command::new(*name)));
            alone.build();
            let alone = alone.find_subcommand(name).unwrap();
            let arguments = |command: &Command| -> Vec<String> {
                let mut found: Vec<String> = command
                    .get_arguments()
                    .filter(|found| found.get_id() != "version")
                    .map(|found| format!("{found:?}"))
                    .collect();
                found.sort();
                found
            };
            assert_eq!(arguments(alone), arguments(own), "{name}");
        }
    }

    #[test]
    fn a_command_described_alone_is_taken_for_itself() {
        let alone = Global::augment_args(Command::new("enjamb")).subcommand(often(OsStr::new("get")).unwrap());
        let mut matches = alone.try_get_matches_from(["enjamb", "get", "art-3f2a91"]).unwrap();
        let cli = Cli::from_arg_matches_mut(&mut matches).unwrap();
        assert!(matches!(cli.command, Some(crate::commands::Command::Get(_))));
    }
}
