//! What was moved between two stores, and that both have it.

use enjamb_server::sync::Transferred;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

/// Which way things went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Push,
    Pull,
    Clone,
}

impl Way {
    fn schema(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Clone => "clone",
        }
    }
}

/// Digits of a root that people compare.
const ROOT_DIGITS: usize = 16;

pub fn show(context: &mut Context<'_>, way: Way, name: &str, done: &Transferred) -> Result<Exit> {
    let (here, there) = match way {
        Way::Push => (done.roots.from.to_hex(), done.roots.to.to_hex()),
        Way::Pull | Way::Clone => (done.roots.to.to_hex(), done.roots.from.to_hex()),
    };
    if context.ui.is_json() {
        let value = json!({
            "remote": name, "sent": way == Way::Push, "streams": done.streams, "frames": done.frames,
            "commits": done.commits, "artifacts": done.artifacts, "bytes": done.bytes, "kept_beside": done.kept,
            "root": here, "remote_root": there, "same": here == there, "more_there": done.more_there,
            "requests": done.from.requests + done.to.requests,
        });
        context.ui.json(way.schema(), value)?;
        return Ok(Exit::Done);
    }
    let verb = if way == Way::Push { "sent" } else { "took" };
    let moved = match done.frames + done.artifacts {
        0 => "nothing: all of it is there".to_owned(),
        _ => format!(
            "{}, {}, {}, {}, {}",
            plural(done.streams, "stream"),
            plural(done.commits, "commit"),
            plural(done.frames, "frame"),
            plural(done.artifacts, "artifact"),
            bytes(done.bytes)
        ),
    };
    context.ui.line(format!("{verb}   {moved}"))?;
    if done.kept > 0 {
        let kept = plural(done.kept, "frame");
        context.ui.line(format!("beside {kept} of streams that both stores wrote to are kept as branches"))?;
    }
    let (here, there) = (&here[..ROOT_DIGITS], &there[..ROOT_DIGITS]);
    if here == there {
        return Ok(context.ui.good(&format!("{name} has {there} = here {here}")).map(|()| Exit::Done)?);
    }
    context.ui.line(format!("root   {name} has {there}, here {here}"))?;
    let more = plural(done.more_there, "stream");
    match way {
        Way::Push => context.ui.note(&format!("all of this store is there; {more} there went on: enjamb pull {name}")),
        Way::Pull | Way::Clone => {
            context.ui.note(&format!("all of it is here; {more} here went on: enjamb push {name}"));
        }
    }
    Ok(Exit::Done)
}
