//! `enjamb config`

use clap::{Args, Subcommand};
use enjamb_service::{Setting, SettingValue, Trust};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::ui::Table;

#[derive(Subcommand)]
pub enum Config {
    /// List the settings that hold
    List(List),
    /// Let the files of this repository say what is run
    Trust(Grant),
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb config list\n  enjamb config list --show-origin")]
pub struct List {
    /// Say where each comes from
    #[arg(long)]
    show_origin: bool,
}

#[derive(Args)]
#[command(
    after_help = "A file of a repository (.enjamb.toml, .enjamb.local.toml) may not say which commands are run, with \
    which\nvariables, or whom to talk to, until you trust it as it is. A changed file is asked for again.\n\n\
    Example:\n  enjamb config trust\n  enjamb config trust --revoke"
)]
pub struct Grant {
    /// Trust them no longer
    #[arg(long)]
    revoke: bool,
}

impl Config {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Trust(grant) => grant.run(context),
        }
    }
}

impl List {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let config = context.config()?;
        if context.ui.is_json() {
            let held: Vec<_> = config.settings().map(row).collect();
            let aside: Vec<_> = config.set_aside().map(row).collect();
            context.ui.json("config", json!({"settings": held, "not_trusted": aside}))?;
            return Ok(Exit::Done);
        }
        let mut table = match self.show_origin {
            true => Table::new(&["key", "value", "origin"]),
            false => Table::new(&["key", "value"]),
        };
        for (key, setting) in config.settings() {
            let value = setting.value.to_string();
            match self.show_origin {
                true => table.row([key.into(), value.into(), setting.origin.to_string().into()]),
                false => table.row([key.into(), value.into()]),
            }
        }
        context.ui.table(&table)?;
        for (key, setting) in config.set_aside() {
            context.ui.note(&format!("{}: {key} does not hold: enjamb config trust", setting.origin));
        }
        Ok(Exit::Done)
    }
}

impl Grant {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let before = context.config()?;
        let files =
            Trust::grant(&Context::config_places()?, !self.revoke).map_err(enjamb_service::ServiceError::from)?;
        let shown: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        if context.ui.is_json() {
            let taken: Vec<_> = before.set_aside().filter(|_| !self.revoke).map(row).collect();
            context.ui.json("config_trust", json!({"files": shown, "trusted": !self.revoke, "settings": taken}))?;
            return Ok(Exit::Done);
        }
        if files.is_empty() {
            context.ui.line("this repository has no settings of its own")?;
        }
        let word = if self.revoke { "no longer trusted" } else { "trusted" };
        shown.iter().try_for_each(|path| context.ui.line(format!("{path} is {word}")))?;
        for (key, setting) in before.set_aside().filter(|_| !self.revoke) {
            context.ui.line(format!("  {key}  {}", setting.value))?;
        }
        Ok(Exit::Done)
    }
}

fn row((key, setting): (&str, &Setting)) -> Value {
    let value: Value = match &setting.value {
        SettingValue::Text(text) => text.as_str().into(),
        SettingValue::Count(count) => (*count).into(),
        SettingValue::Texts(texts) => texts.clone().into(),
        SettingValue::Variables(variables) => json!({"names": variables.keys().collect::<Vec<_>>()}),
    };
    json!({"key": key, "value": value, "origin": setting.origin.to_string()})
}
