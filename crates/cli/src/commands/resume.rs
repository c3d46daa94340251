//! `enjamb resume`

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use enjamb_formats::Tier;
use enjamb_service::{Resume as Request, Resumed, Runtime, RuntimeHomes, ServiceError, Store};

use super::materialize::parse_stop;
use super::{Context, resume_view};
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb resume @\n  enjamb resume ctx-3f2a --in codex --exec\n  \
    enjamb resume @~3 --in claude-code --budget 60000 --dry-run\n\n\
    Says first what travels, what changes and what stays behind; then writes a session under a new id where the runtime \
    looks for its own, reads it back, and prints the command that goes on with it. No file of the runtime is ever changed. \
    What the runtime adds to the session follows from the commit once it is imported.")]
pub struct Resume {
    /// The commit to go on from
    #[arg(default_value = "@")]
    revision: String,
    /// The runtime to go on in: claude-code or codex [default: whose the commit is]
    #[arg(long = "in", value_name = "RUNTIME", value_parser = parse_runtime)]
    runtime: Option<Runtime>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Run the command as well
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    exec: bool,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
}

// How much travels, where to, and what may be lost on the way. No doc comment: it would stand in the help of the commands.
#[derive(Args, Clone)]
pub struct MemoryArgs {
    /// How far back: compaction (the nearest one), root, or an ancestor [default: all that the runtime itself would have]
    #[arg(long, value_name = "STOP")]
    stop: Option<String>,
    /// No more than about so many tokens, by whole turns from the end
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    budget: Option<u64>,
    /// The directory to go on in [default: where it was, if that is here; else this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The least that is accepted: 1 native, 2 mapped, 3 rendered, 4 raw
    #[arg(long, value_name = "TIER", default_value = "2", value_parser = parse_tier)]
    min_tier: Tier,
}

impl Resume {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let request = self.memory.request(context, &store, &self.revision, self.runtime, self.dry_run)?;
        let resumed = store.resume(&request)?;
        // The store is not ours while someone else works.
        drop(store);
        resume_view::show(context, &resumed, &request.here, self.exec)?;
        match self.exec {
            true => run(context, &resumed),
            false => Ok(Exit::Done),
        }
    }
}

impl MemoryArgs {
    pub fn request(
        &self,
        context: &Context<'_>,
        store: &Store,
        revision: &str,
        runtime: Option<Runtime>,
        dry_run: bool,
    ) -> Result<Request> {
        Ok(Request {
            tip: store.revision(revision)?,
            runtime,
            stop: self.stop.as_deref().map(|text| parse_stop(store, text)).transpose()?,
            budget_tokens: self.budget,
            cwd: self.cwd.clone(),
            here: here()?,
            tier_min: self.min_tier,
            homes: homes()?,
            dry_run,
            by: context.actor(),
        })
    }
}

/// Where runtimes keep what is theirs, as the environment says.
pub fn homes() -> Result<RuntimeHomes> {
    let home = std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| Failure::Usage {
        message: "there is no home directory in which a runtime would look".into(),
        help: Some("set HOME".into()),
    })?;
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    Ok(RuntimeHomes::under(&home, &variable))
}

pub fn here() -> Result<PathBuf> {
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize());
    Ok(here.map_err(|source| ServiceError::File { path: ".".into(), source })?)
}

/// Whether a program is on the path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Becomes the runtime, or runs it where that cannot be done.
fn run(context: &mut Context<'_>, resumed: &Resumed) -> Result<Exit> {
    context.ui.flush()?;
    let (program, arguments) = resumed.command.split_first().ok_or_else(|| Failure::usage("nothing to run"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&resumed.cwd);
    Err(started(&mut command, Path::new(program)))
}

#[cfg(unix)]
fn started(command: &mut Command, program: &Path) -> Failure {
    use std::os::unix::process::CommandExt;
    let source = command.exec();
    ServiceError::File { path: program.to_owned(), source }.into()
}

#[cfg(not(unix))]
fn started(command: &mut Command, program: &Path) -> Failure {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(source) => ServiceError::File { path: program.to_owned(), source }.into(),
    }
}

pub fn parse_runtime(text: &str) -> std::result::Result<Runtime, String> {
    let found = Runtime::from_name(text).filter(|runtime| *runtime != Runtime::Other);
    found.ok_or_else(|| "expected claude-code, codex, gemini or opencode".to_owned())
}

pub fn parse_tier(text: &str) -> std::result::Result<Tier, String> {
    let numbered = text.parse::<usize>().ok().and_then(|number| Tier::ALL.get(number.checked_sub(1)?));
    let named = || Tier::ALL.iter().find(|tier| tier.as_str() == text);
    numbered.or_else(named).copied().ok_or_else(|| "expected 1 to 4, or native, mapped, rendered or raw".to_owned())
}

/// A number of tokens, such as 60000 or 60k.
fn parse_tokens(text: &str) -> std::result::Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000),
        None => (text, 1),
    };
    let tokens = digits.replace('_', "").parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    tokens.filter(|tokens| *tokens > 0).ok_or_else(|| "expected a number of tokens, such as 60000 or 60k".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_tiers_are_read() {
        assert_eq!((parse_tokens("60k"), parse_tokens("1_000")), (Ok(60_000), Ok(1000)));
        assert!(
            parse_tokens("0").is_err()
                && parse_tokens("many").is_err()
                && parse_tokens("99999999999999999999k").is_err()
        );
        assert_eq!((parse_tier("2"), parse_tier("raw")), (Ok(Tier::Mapped), Ok(Tier::Raw)));
        assert!(parse_tier("0").is_err() && parse_tier("5").is_err());
    }
}
