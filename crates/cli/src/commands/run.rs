//! `enjamb run`

use std::io::{IsTerminal, Write};

use clap::Args;
use enjamb_core::CommitId;
use enjamb_formats::Tier;
use enjamb_service::{Attendance, Config, Driver, ServiceError, Store, Template, Wrap, Wrapped};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Context;
use super::import::this_machine;
use super::resume::{here, homes, parse_tier};
use crate::failure::{Exit, Failure, Result};
use crate::text::{plural, safe_line};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb run -- claude -p 'why does checkout hang?'\n  \
    enjamb run --context @ -- codex exec 'go on'\n  \
    enjamb run --template reviewer --context ctx-3f2a -- -p 'review the last commit'\n  \
    enjamb run -- ./agent.py\n\n\
    What the agent does is stored as it does it: at the end of each turn, or as the config file says ([run] checkpoint, \
    every_turns), and whenever it ends, however it ends. ENJAMB_CONTEXT_ID names the last commit, and enjamb current \
    answers it. The agent's exit code is passed on. A template is a section [template.NAME] of the config file: driver, \
    command, args, env, model, system_prompt; what follows -- is added to its command. A program without a driver gets \
    the context in the file ENJAMB_CONTEXT_FILE, and what it prints is kept.")]
pub struct Run {
    #[command(flatten)]
    start: StartArgs,
    /// The agent: a section [template.NAME] of the config file
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// The commit to go on from [default: nothing]
    #[arg(long, value_name = "REV")]
    context: Option<String>,
    /// The ticket that is worked on
    #[arg(long)]
    ticket: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
}

// How an agent is started, and when what it does is stored. No doc comment: it would stand in the help of the commands.
#[derive(Args, Clone)]
pub struct StartArgs {
    /// How to speak to it: claude-code, codex or generic [default: told from the program]
    #[arg(long, value_parser = parse_driver)]
    driver: Option<Driver>,
    /// When to store: turn, tool-result or session-end [default: as configured, else turn]
    #[arg(long, value_name = "WHEN")]
    checkpoint: Option<String>,
    /// With turns: after every so many
    #[arg(long, value_name = "COUNT")]
    every_turns: Option<String>,
    /// The least that is accepted of a context of another runtime: 1 native, 2 mapped, 3 rendered, 4 raw
    #[arg(long, value_name = "TIER", default_value = "2", value_parser = parse_tier)]
    min_tier: Tier,
    /// Who runs
    #[arg(long, env = "ENJAMB_PRINCIPAL", default_value = "user")]
    principal: String,
}

/// What is started.
pub struct Start {
    pub template: Option<Template>,
    pub context: Option<CommitId>,
    pub ticket: Option<String>,
    pub words: Vec<String>,
}

impl Run {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let config = self.start.config(context)?;
        let template = self.template.as_deref().map(|name| config.template(name)).transpose();
        let template = template.map_err(ServiceError::from)?;
        if template.is_none() && self.words.is_empty() {
            return Err(Failure::Usage {
                message: "there is nothing to run".into(),
                help: Some("enjamb run -- claude -p 'why?'    or name a --template".into()),
            });
        }
        let store = context.open_or_create()?;
        let from = self.context.as_deref().map(|text| store.revision(text)).transpose()?;
        let start = Start { template, context: from, ticket: self.ticket, words: self.words };
        self.start.start(context, &store, &config, start)
    }
}

impl StartArgs {
    /// The settings that hold, with these flags over them.
    pub fn config(&self, context: &Context<'_>) -> Result<Config> {
        let mut config = context.config()?;
        for (key, flag, value) in [
            ("run.checkpoint", "--checkpoint", &self.checkpoint),
            ("run.every_turns", "--every-turns", &self.every_turns),
        ] {
            if let Some(text) = value {
                config.set(key, flag, text).map_err(ServiceError::from)?;
            }
        }
        Ok(config)
    }

    pub fn start(&self, context: &mut Context<'_>, store: &Store, config: &Config, start: Start) -> Result<Exit> {
        let request = Wrap {
            checkpoint: start.template.as_ref().map_or(config.run().checkpoint, |template| template.checkpoint),
            template: start.template,
            driver: self.driver,
            words: start.words,
            context: start.context,
            tier_min: self.min_tier,
            principal: self.principal.clone(),
            machine: this_machine(),
            ticket: start.ticket,
            here: here()?,
            homes: homes()?,
            by: context.actor(),
        };
        context.ui.flush()?;
        let wrapped = attend(context, store, &request)?;
        report(context, &wrapped)
    }
}

/// Runs the agent. What it prints goes where ours would, but for a document that is asked for.
fn attend(context: &mut Context<'_>, store: &Store, request: &Wrap) -> Result<Wrapped> {
    // Ctrl-C on a terminal reaches the agent by itself; others have to be handed on.
    let is_foreground = std::io::stdin().is_terminal();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let mut signal = || signals.pending().find(|signal| *signal != SIGINT || !is_foreground);
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    let out: &mut dyn Write = if context.ui.is_json() { &mut stderr } else { &mut stdout };
    let ui = &*context.ui;
    let mut note = |text: &str| ui.error_line(&format!("note: {}", safe_line(text)));
    Ok(store.wrap(request, &mut Attendance { out, signal: &mut signal, note: &mut note })?)
}

fn report(context: &mut Context<'_>, wrapped: &Wrapped) -> Result<Exit> {
    let show = |id: Option<CommitId>| id.map(|id| id.to_string());
    let exit = Exit::Passed(wrapped.exit);
    if context.ui.is_json() {
        let value = json!({
            "ref": wrapped.reference, "session": wrapped.session, "parent": show(wrapped.parent),
            "tip": show(wrapped.tip), "commits": wrapped.commits, "exit": wrapped.exit,
        });
        context.ui.json("run", value)?;
        return Ok(exit);
    }
    match wrapped.tip {
        Some(tip) => context.ui.note(&format!("{tip}  {}  {}", wrapped.reference, plural(wrapped.commits, "commit"))),
        None => context.ui.note("it did nothing that could be kept"),
    }
    Ok(exit)
}

fn parse_driver(text: &str) -> std::result::Result<Driver, String> {
    Driver::parse(text).ok_or_else(|| "expected claude-code, codex or generic".to_owned())
}
