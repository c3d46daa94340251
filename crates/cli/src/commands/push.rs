//! `enjamb push`

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::Args;
use enjamb_server::sync::{Peer, Plan, plan, transfer};
use serde_json::{Value, json};

use super::Context;
use super::partner::{Agreed, Partner};
use super::sync_view;
use crate::failure::{Exit, Failure, Result};
use crate::text::{bytes, plural, safe};

/// Streams with secrets that are named one by one.
const SECRET_STREAMS_MAX: usize = 10;

#[derive(Args)]
#[command(
    after_help = "The first push to a store shows what would be sent, and asks. Only what is not there yet travels; a push \
    that was cut short goes on when it is run again.\n\nExample:\n  enjamb push\n  enjamb push team --dry-run\n  \
    enjamb push /mnt/desk/enjamb --yes"
)]
pub struct Push {
    /// The store to send to: its name, address or directory [default: $ENJAMB_REMOTE, the only one, or origin]
    remote: Option<String>,
    /// Send without asking
    #[arg(long)]
    yes: bool,
    /// Only show what would be sent
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Push {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let partner = Partner::find(context, self.remote.as_deref())?;
        let (here, there) = (context.operations()?, partner.operations(context)?);
        let agreed = partner.agreed(context);
        if self.dry_run || !(agreed.pushed || self.yes) {
            let planned = plan(&Peer::new(&here), &Peer::new(&there), agreed.given)?;
            if self.dry_run || planned.frames == 0 {
                return shown(context, &partner, &planned);
            }
            confirmed(context, &partner, &planned)?;
        }
        let (from, to) = (Peer::new(&here), Peer::new(&there));
        let done = context.ui.with_progress("sending", |tell| transfer(&from, &to, agreed.given, tell))?;
        partner.remember(context, &Agreed { given: done.position, pushed: true, ..agreed });
        sync_view::show(context, sync_view::Way::Push, &partner.name, &done)
    }
}

/// Shows what would be sent.
fn shown(context: &mut Context<'_>, partner: &Partner, plan: &Plan) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("push", document(partner, plan))?;
        return Ok(Exit::Done);
    }
    told(context, partner, plan)?;
    if plan.frames > 0 {
        context.ui.note("nothing was sent: enjamb push --yes");
    }
    Ok(Exit::Done)
}

fn told(context: &mut Context<'_>, partner: &Partner, plan: &Plan) -> Result<()> {
    context.ui.line(format!("to {}", partner.name))?;
    let (streams, commits) = (plural(plan.streams, "stream"), plural(plan.commits, "commit"));
    let (frames, artifacts) = (plural(plan.frames, "frame"), plural(plan.artifacts, "artifact"));
    let sent = bytes(plan.bytes);
    context.ui.line(format!("  sends    {streams}, {commits}, {frames}, {artifacts}, {sent}"))?;
    let kinds: Vec<_> = plan.secrets.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
    let secrets = match plan.secrets.values().sum::<u64>() {
        0 => "no secret was found in it".to_owned(),
        count => format!("{} in it: {}", plural(count, "secret"), kinds.join(", ")),
    };
    context.ui.line(format!("  masked   nothing: bytes travel as they are; {secrets}"))?;
    for (stream, count) in plan.secret_streams.iter().take(SECRET_STREAMS_MAX) {
        let held = format!("enjamb private {stream}");
        context.ui.line(format!(
            "           {count} in {stream}    {held} keeps it here",
            stream = safe(&stream.to_string()),
            held = safe(&held)
        ))?;
    }
    let more = plan.secret_streams.len().saturating_sub(SECRET_STREAMS_MAX) as u64;
    if more > 0 {
        context.ui.line(format!("           and in {}    enjamb redact list", plural(more, "other stream")))?;
    }
    let marked = match plan.private {
        0 => String::new(),
        count => format!("{} marked private, ", plural(count, "stream")),
    };
    context.ui.line(format!(
        "  private  {marked}who used this store (audit), bytes that no frame names, settings and tokens stay here"
    ))?;
    if plan.more_there > 0 {
        let more = plural(plan.more_there, "stream");
        context.ui.line(format!("  differs  {more} went on there: what is sent is kept beside"))?;
    }
    Ok(())
}

fn document(partner: &Partner, plan: &Plan) -> Value {
    let secret_streams: BTreeMap<_, _> = plan.secret_streams.iter().map(|(name, n)| (name.to_string(), n)).collect();
    json!({
        "remote": partner.name, "url": partner.url, "sent": false, "streams": plan.streams, "frames": plan.frames,
        "commits": plan.commits, "artifacts": plan.artifacts, "bytes": plan.bytes, "secrets": plan.secrets,
        "secret_streams": secret_streams, "masked": 0, "private": plan.private, "more_there": plan.more_there,
        "root": plan.roots.from.to_hex(), "remote_root": plan.roots.to.to_hex(),
    })
}

/// Asks whoever is there; a program has to say so beforehand.
fn confirmed(context: &mut Context<'_>, partner: &Partner, plan: &Plan) -> Result<()> {
    let refused = |message: &str| Failure::Usage {
        message: message.into(),
        help: Some("enjamb push --dry-run    shows what would be sent; enjamb push --yes    sends it".into()),
    };
    if context.ui.is_json() {
        context.ui.json("push", document(partner, plan))?;
    } else {
        told(context, partner, plan)?;
    }
    if context.ui.is_json() || !std::io::stdin().is_terminal() {
        return Err(refused(
            "nothing was sent: it is the first push to this store, and nobody is there to agree to it",
        ));
    }
    if context.ui.ask("Send?")? { Ok(()) } else { Err(refused("nothing was sent")) }
}
