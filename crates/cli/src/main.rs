//! The `enjamb` command: parse, call, render. What is decided is decided in `enjamb-service`.

mod commands;
mod failure;
mod text;
mod ui;

use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, FromArgMatches};

use commands::{Cli, Global};
use ui::Ui;

/// What was typed. The description of all commands is never given back: taking it apart takes longer than parsing.
fn parsed() -> Result<Cli, clap::Error> {
    let all: &'static mut Command = Box::leak(Box::new(Cli::command()));
    if let Some(cli) = parsed_alone(all) {
        return Ok(cli);
    }
    let mut matches = all.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(all))
}

/// What was typed, if it is right for the command that the first such word names. The flags that mean the same everywhere
/// are copied into every command that is described: into one they are in no time.
fn parsed_alone(all: &Command) -> Option<Cli> {
    let words: Vec<_> = std::env::args_os().collect();
    let named = words.iter().skip(1).find_map(|word| all.find_subcommand(word))?.clone();
    let one = Global::augment_args(Command::new("enjamb").disable_help_subcommand(true)).subcommand(named);
    let one: &'static mut Command = Box::leak(Box::new(one));
    Cli::from_arg_matches_mut(&mut one.try_get_matches_from_mut(words).ok()?).ok()
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(exit) = commands::hook::answered(&arguments) {
        return exit;
    }
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return commands::usage(&error),
    };
    let mut ui = Ui::new(cli.global.output());
    let ran = commands::run(cli, &mut ui).and_then(|exit| ui.flush().map(|()| exit));
    match ran {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&ui),
    }
}
