//! `enjamb streams`

use clap::Args;
use enjamb_ledger::StreamOrder;
use serde_json::json;

use super::Context;
use super::status::{stream_json, stream_table};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb streams\n  enjamb streams --kind session -n 20")]
pub struct Streams {
    /// Only streams of this kind
    #[arg(long)]
    kind: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    /// By name, not by last activity
    #[arg(long)]
    by_name: bool,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Streams {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let order = if self.by_name { StreamOrder::Name } else { StreamOrder::Recent };
        let limit = if self.all { usize::MAX } else { self.limit };
        let mut streams = match context.remote()? {
            _ if limit == 0 => Vec::new(),
            // Only by name there are pages.
            Some(remote) => remote.streams(self.kind.as_deref(), self.by_name || self.all, limit)?,
            None => context.open()?.streams(self.kind.as_deref(), order, limit)?,
        };
        streams.truncate(limit);
        if context.ui.is_json() {
            let rows: Vec<_> = streams.iter().map(stream_json).collect();
            context.ui.json("streams", json!({"streams": rows}))?;
        } else {
            context.ui.table(&stream_table(&streams))?;
        }
        Ok(Exit::Done)
    }
}
