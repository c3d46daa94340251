//! `enjamb tool`: what a model may have run, as the config file declares it

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use enjamb_service::{Effect, ServiceError, Toolbox};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::ui::Table;

#[derive(Subcommand)]
pub enum Tool {
    /// List the tools that a model may call here
    List(List),
    /// Say whether a call would be made; nothing is run
    Check(Check),
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb tool list\n\nServers are started to ask them.")]
pub struct List {
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb tool check search '{\"word\": \"retry\"}'")]
pub struct Check {
    name: String,
    /// What a model would give, as JSON
    arguments: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Place {
    /// Where tools work [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl Place {
    fn toolbox(&self, context: &Context<'_>) -> Result<Toolbox> {
        let here = match &self.workspace {
            Some(dir) => dir.clone(),
            None => std::env::current_dir().map_err(|source| ServiceError::File { path: ".".into(), source })?,
        };
        Ok(context.config()?.toolbox(Path::new(&here))?)
    }
}

impl Tool {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Check(check) => check.run(context),
        }
    }
}

impl List {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let tools = self.place.toolbox(context)?;
        if context.ui.is_json() {
            let rows: Vec<_> = tools
                .listed()
                .map(|(name, effect, description)| json!({"name": name, "effect": word(effect), "description": description}))
                .collect();
            context.ui.json("tools", json!({"tools": rows}))?;
        } else {
            let mut table = Table::new(&["tool", "effect", "description"]);
            tools.listed().for_each(|(name, effect, said)| table.row([name.into(), word(effect).into(), said.into()]));
            context.ui.table(&table)?;
        }
        Ok(Exit::Done)
    }
}

impl Check {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        self.place.toolbox(context)?.check_call(&self.name, &self.arguments)?;
        if context.ui.is_json() {
            context.ui.json("tool_check", json!({"tool": self.name, "fits": true}))?;
        } else {
            context.ui.line("it would be called")?;
        }
        Ok(Exit::Done)
    }
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "read-only",
        Effect::Mutating => "mutating",
    }
}
