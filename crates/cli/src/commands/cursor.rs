//! `enjamb cursor`

use clap::{Args, Subcommand};
use enjamb_service::{CursorFilter, CursorView};
use serde_json::{Value, json};

use super::Context;
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

impl Key {
    fn filter(self) -> CursorFilter {
        CursorFilter { provider: self.provider, endpoint: self.endpoint, model: self.model }
    }
}

impl Cursor {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let by = context.actor();
        match self {
            Self::Status { thread } => {
                let (cursors, active) = store.cursors(&store.resolve_thread(&thread)?)?;
                if context.ui.is_json() {
                    let rows: Vec<_> = cursors.iter().map(cursor_json).collect();
                    let active = active.as_ref().map(cursor_json);
                    context.ui.json("cursors", json!({"active": active, "cursors": rows}))?;
                } else {
                    context.ui.table(&cursor_table(&cursors))?;
                }
                Ok(Exit::Done)
            }
            Self::Set { thread, key, data, run } => {
                let cursor: Value = serde_json::from_str(&data).unwrap_or(Value::Null);
                if !cursor.is_object() {
                    return Err(Failure::usage("--data is not a JSON object"));
                }
                let set = store.set_cursor(&store.resolve_thread(&thread)?, key.filter(), cursor, run, &by)?;
                print(context, &set)
            }
            Self::Rotate { thread, key, reason } => {
                let rotated = store.rotate_cursor(&store.resolve_thread(&thread)?, &key.filter(), reason, &by)?;
                match rotated {
                    Some(rotated) => print(context, &rotated),
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

fn print(context: &mut Context<'_>, cursor: &CursorView) -> Result<Exit> {
    if context.ui.is_json() {
        let mut value = cursor_json(cursor);
        value["rotated"] = (cursor.update.action == "rotated").into();
        context.ui.json("cursor", value)?;
    } else {
        context.ui.table(&cursor_table(std::slice::from_ref(cursor)))?;
    }
    Ok(Exit::Done)
}

fn cursor_json(cursor: &CursorView) -> Value {
    let update = &cursor.update;
    let payload = update.cursor.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
    json!({
        "seq": cursor.seq, "provider": update.provider, "endpoint": update.endpoint, "model": update.model,
        "cursor": payload, "action": update.action, "reason": update.reason, "run": update.run_session_id,
    })
}

fn cursor_table(cursors: &[CursorView]) -> Table {
    let mut table = Table::new(&["provider", "endpoint", "model", "seq", "action", "cursor"]);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    for CursorView { seq, update } in cursors {
        table.row([
            update.provider.clone().into(),
            or_dash(&update.endpoint).into(),
            or_dash(&update.model).into(),
            seq.to_string().into(),
            update.action.clone().into(),
            update.cursor.as_ref().map_or("-".to_owned(), |json| json.get().to_owned()).into(),
        ]);
    }
    table
}
