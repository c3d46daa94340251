//! The `enjamb` command: parse, call, render. What is decided is decided in `enjamb-service`.

mod commands;
mod failure;
mod text;
mod ui;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use commands::Cli;
use ui::Ui;

/// What was typed. The description of all commands is never given back: taking it apart takes longer than parsing.
fn parsed() -> Result<Cli, clap::Error> {
    let command = Box::leak(Box::new(Cli::command()));
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(command))
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
