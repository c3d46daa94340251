//! `enjamb remote`: other stores, by name.

use clap::{Args, Subcommand};
use enjamb_service::{RemoteSetting, ServiceError};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::ui::Table;

#[derive(Subcommand)]
pub enum Remotes {
    /// Name another store
    Add(Add),
    /// List the stores that have names
    List(List),
    /// Forget the name of a store
    Remove(Remove),
}

#[derive(Args)]
#[command(after_help = "Nothing is sent until you push. The first push shows what it would send.\n\nExample:\n  \
    enjamb remote add desk /mnt/desk/enjamb\n  enjamb remote add team https://ctx.acme.dev --token-file ~/.enjamb-team")]
pub struct Add {
    /// What to call it
    name: String,
    /// Its directory, or the server that has it: http://…, https://…, unix://…
    url: String,
    /// A file with the token for the server [default: $ENJAMB_REMOTE_TOKEN, $ENJAMB_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb remote list")]
pub struct List {}

#[derive(Args)]
#[command(after_help = "What was sent there stays there, and here.\n\nExample:\n  enjamb remote remove desk")]
pub struct Remove {
    /// What it is called
    name: String,
}

impl Remotes {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Add(add) => add.run(context),
            Self::List(list) => list.run(context),
            Self::Remove(remove) => remove.run(context),
        }
    }
}

impl Add {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let url = lasting(&self.url);
        let places = Context::config_places()?;
        let token_file = self.token_file.as_deref().map(lasting);
        let added = context.config()?.add_remote(&places, &self.name, &url, token_file.as_deref());
        let path = added.map_err(ServiceError::from)?;
        if context.ui.is_json() {
            let shown = json!({"name": self.name, "url": url, "file": path.to_string_lossy()});
            context.ui.json("remote_add", shown)?;
            return Ok(Exit::Done);
        }
        context.ui.line(format!("{} is {url}", self.name))?;
        context.ui.note(&format!("nothing was sent: enjamb push {}    shows what would be", self.name));
        Ok(Exit::Done)
    }
}

/// A path that means the same wherever one is; an address as it is.
pub fn lasting(text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    std::path::absolute(text).map_or_else(|_| text.to_owned(), |path| path.display().to_string())
}

impl List {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let remotes = context.config()?.remotes();
        if context.ui.is_json() {
            let rows: Vec<_> = remotes.iter().map(row).collect();
            context.ui.json("remote_list", json!({"remotes": rows}))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["name", "store", "said by"]);
        for remote in &remotes {
            table.row([remote.name.as_str().into(), remote.url.as_str().into(), remote.origin.to_string().into()]);
        }
        context.ui.table(&table)?;
        if remotes.is_empty() {
            context.ui.note("no other store has a name: enjamb remote add NAME URL");
        }
        Ok(Exit::Done)
    }
}

fn row(remote: &RemoteSetting) -> Value {
    json!({
        "name": remote.name, "url": remote.url, "token_file": remote.token_file, "origin": remote.origin.to_string(),
    })
}

impl Remove {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let places = Context::config_places()?;
        let path = context.config()?.remove_remote(&places, &self.name).map_err(ServiceError::from)?;
        if context.ui.is_json() {
            context.ui.json("remote_remove", json!({"name": self.name, "file": path.to_string_lossy()}))?;
            return Ok(Exit::Done);
        }
        context.ui.line(format!("{} is forgotten; what was sent there stays", self.name))?;
        Ok(Exit::Done)
    }
}
