//! `enjamb cursor`

use clap::{Args, Subcommand};
use enjamb_server::view;
use serde_json::{Value, json};

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Failure, Result};
use crate::ui::Table;

#[derive(Subcommand)]
pub enum Cursor {
    /// Show where providers' conversations stand
    #[command(after_help = "Example:\n  enjamb cursor status 5d1c90ab")]
    Status { thread: String },
    /// Say where a provider's conversation stands
    #[command(after_help = "Example:\n  enjamb cursor set 5d1c90ab --data '{\"previous_response_id\":\"resp_1\"}'")]
    Set {
        thread: String,
        #[command(flatten)]
        key: Key,
        /// The provider's cursor, as a JSON object
        #[arg(long, value_name = "JSON")]
        data: String,
        /// The run that it comes from
        #[arg(long, value_name = "ID")]
        run: Option<String>,
    },
    /// Drop a cursor, so that the next run starts a conversation of its own
    #[command(after_help = "Example:\n  enjamb cursor rotate 5d1c90ab --provider openresponses")]
    Rotate {
        thread: String,
        #[command(flatten)]
        key: Key,
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub struct Key {
    #[arg(long)]
    provider: Option<String>,
    #[arg(long)]
    endpoint: Option<String>,
    #[arg(long)]
    model: Option<String>,
}

impl Cursor {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = context.operations()?;
        match self {
            Self::Status { thread } => {
                let found: view::Cursors = operations.call("cursors", json!({"thread": thread}))?;
                if context.ui.is_json() {
                    context.ui.json("cursors", as_json(&found))?;
                } else {
                    context.ui.table(&cursor_table(&found.cursors))?;
                }
                Ok(Exit::Done)
            }
            Self::Set { thread, key, data, run } => {
                let cursor: Value = serde_json::from_str(&data).unwrap_or(Value::Null);
                if !cursor.is_object() {
                    return Err(Failure::usage("--data is not a JSON object"));
                }
                let mut asked = key.asked(&thread);
                asked["cursor"] = cursor;
                asked["run"] = run.into();
                print(context, &operations.call("set_cursor", asked)?)
            }
            Self::Rotate { thread, key, reason } => {
                let mut asked = key.asked(&thread);
                asked["reason"] = reason.into();
                let rotated: view::Rotated = operations.call("rotate_cursor", asked)?;
                match rotated.cursor {
                    Some(cursor) => print(context, &cursor),
                    None if context.ui.is_json() => {
                        context.ui.json("cursor", json!({"rotated": false}))?;
                        Ok(Exit::No)
                    }
                    None => {
                        context.ui.note("no cursor fits: nothing was written");
                        Ok(Exit::No)
                    }
                }
            }
        }
    }
}

impl Key {
    fn asked(self, thread: &str) -> Value {
        json!({"thread": thread, "provider": self.provider, "endpoint": self.endpoint, "model": self.model})
    }
}

fn print(context: &mut Context<'_>, cursor: &view::Cursor) -> Result<Exit> {
    if context.ui.is_json() {
        let mut value = as_json(cursor);
        value["rotated"] = (cursor.action == "rotated").into();
        context.ui.json("cursor", value)?;
    } else {
        context.ui.table(&cursor_table(std::slice::from_ref(cursor)))?;
    }
    Ok(Exit::Done)
}

fn cursor_table(cursors: &[view::Cursor]) -> Table {
    let mut table = Table::new(&["provider", "endpoint", "model", "seq", "action", "cursor"]);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    for cursor in cursors {
        table.row([
            cursor.provider.clone().into(),
            or_dash(&cursor.endpoint).into(),
            or_dash(&cursor.model).into(),
            cursor.seq.to_string().into(),
            cursor.action.clone().into(),
            cursor.cursor.as_ref().map_or("-".to_owned(), Value::to_string).into(),
        ]);
    }
    table
}
