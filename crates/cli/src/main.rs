//! The `enjamb` command: parse, call, render. What is decided is decided in `enjamb-service`.

mod commands;
mod failure;
mod text;
mod ui;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, FromArgMatches};

use commands::{Cli, Global};
use mimalloc::MiMalloc;
use ui::Ui;

/// A server that takes in frames of a kilobyte, and an import that takes transcripts apart, spend a fifth of their time in
/// the C library's allocator: what is larger than a kilobyte it keeps in no thread's own cache.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What was typed. The description of all commands is never given back: taking it apart takes longer than parsing.
fn parsed() -> Result<Cli, clap::Error> {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(cli) = words.iter().skip(1).find_map(|word| commands::often(word)).and_then(|one| alone(one, &words)) {
        return Ok(cli);
    }
    let all: &'static mut Command = Box::leak(Box::new(Cli::command()));
    let named = words.iter().skip(1).find_map(|word| all.find_subcommand(word));
    if let Some(cli) = named.and_then(|one| alone(one.clone(), &words)) {
        return Ok(cli);
    }
    let mut matches = all.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(all))
}

/// What was typed, if it is right for this command. The flags that mean the same everywhere are copied into every command
/// that is described: into one they are in no time.
fn alone(command: Command, words: &[OsString]) -> Option<Cli> {
    let one = Global::augment_args(Command::new("enjamb").disable_help_subcommand(true)).subcommand(command);
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
