//! `enjamb private`

use clap::Args;
use enjamb_core::StreamId;
use enjamb_service::Store;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Failure, Result};
use crate::text::safe;

#[derive(Args)]
#[command(
    after_help = "What is private stays in this store: it is not sent by push, nor taken by another store's pull or clone. \
    With a thread stay the sessions of its runs and the commits that they made. What was sent before stays where it is.\n\n\
    Example:\n  enjamb private                        what is private\n  enjamb private context/dana           \
    dana's commits stay here\n  enjamb private 3f2a91c4               a thread, by its id or the beginning of it\n  \
    enjamb private context/dana --off     they may go"
)]
pub struct Private {
    /// A stream as `enjamb streams` names it, or a thread
    stream: Option<String>,
    /// Let it travel again
    #[arg(long, requires = "stream")]
    off: bool,
}

impl Private {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        match &self.stream {
            None => list(context, &store),
            Some(text) => self.mark(context, &store, text),
        }
    }

    fn mark(&self, context: &mut Context<'_>, store: &Store, text: &str) -> Result<Exit> {
        let stream: StreamId = match text.contains('/') {
            true => text.parse().map_err(|error| Failure::usage(format!("{error}")))?,
            false => store.resolve_thread(text)?,
        };
        let changed = store.mark_private(&stream, !self.off, &context.actor())?;
        if context.ui.is_json() {
            let value = json!({"stream": stream.to_string(), "private": !self.off, "changed": changed});
            context.ui.json("private", value)?;
            return Ok(Exit::Done);
        }
        let state = if self.off { "travels" } else { "stays here" };
        let again = if changed { "" } else { " already" };
        context.ui.line(format!("{} {state}{again}", safe(&stream.to_string())))?;
        if changed && !self.off {
            context.ui.note("other stores that have it keep it: what was sent cannot be taken back");
        }
        Ok(Exit::Done)
    }
}

fn list(context: &mut Context<'_>, store: &Store) -> Result<Exit> {
    let marked = store.private_streams()?;
    let mut with: Vec<_> = store.staying()?.into_iter().filter(|stream| !marked.contains(stream)).collect();
    with.sort();
    if context.ui.is_json() {
        let names = |streams: Vec<&StreamId>| streams.into_iter().map(ToString::to_string).collect::<Vec<_>>();
        let value = json!({"marked": names(marked.iter().collect()), "with_them": names(with.iter().collect())});
        context.ui.json("private", value)?;
        return Ok(Exit::Done);
    }
    if marked.is_empty() {
        context.ui.note("nothing is private: enjamb private STREAM");
    }
    for stream in &marked {
        context.ui.line(safe(&stream.to_string()))?;
    }
    for stream in &with {
        context.ui.line(format!("{}    with its thread", safe(&stream.to_string())))?;
    }
    Ok(Exit::Done)
}
