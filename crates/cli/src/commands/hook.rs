//! `enjamb hook`: called by runtimes, never by people. It says nothing and never fails, whatever happens to it.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use enjamb_service::HookCall;

use super::status::now_ms;
use super::{Context, environment};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb hook claude-code < event.json\n\n\
    Appends what a runtime says on stdin to the spool of the store; enjamb capture on puts it in place. It prints nothing \
    and exits with 0 in any case. With ENJAMB_DISABLE=1 it does nothing.")]
pub struct Hook {
    /// Who calls: claude-code or codex
    runtime: OsString,
}

impl Hook {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        obey(&self.runtime, context.global.store.clone());
        Ok(Exit::Done)
    }
}

/// Answers a call before anything else of the command is set up. `None` when this is not `hook`, or asks for help.
pub fn answered(arguments: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = arguments.split_first()?;
    if first != "hook" || rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return None;
    }
    let (mut runtime, mut store) = (OsString::new(), None);
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--store") => store = rest.next().map(PathBuf::from),
            _ => runtime = argument.clone(),
        }
    }
    obey(&runtime, store);
    Some(ExitCode::SUCCESS)
}

fn obey(runtime: &OsStr, store: Option<PathBuf>) {
    // Even a mistake of ours is not the agent's trouble.
    std::panic::set_hook(Box::new(|_| std::process::exit(0)));
    let is_disabled = environment("ENJAMB_DISABLE").is_some_and(|value| value.as_os_str() != "0");
    let stdin = std::io::stdin();
    if is_disabled || stdin.is_terminal() {
        return;
    }
    // Without a home, misses are noted in the directory for temporary files.
    let store = super::store_dir(store).and_then(super::resolved).unwrap_or_default();
    let missed_at = super::missed_at(&store);
    let call = HookCall { runtime: &runtime.to_string_lossy(), store: &store, missed_at: &missed_at, at_ms: now_ms() };
    enjamb_service::hook(&call, stdin);
}
