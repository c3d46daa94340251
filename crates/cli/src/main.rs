//! The `enjamb` command: parse, call, render. What is decided is decided in `enjamb-service`.

mod commands;
mod failure;
mod text;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use commands::Cli;
use ui::Ui;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(exit) = commands::hook::answered(&arguments) {
        return exit;
    }
    let cli = match Cli::try_parse() {
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
