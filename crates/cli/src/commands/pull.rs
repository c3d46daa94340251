//! `enjamb pull`

use clap::Args;
use enjamb_server::sync::{Peer, transfer};

use super::Context;
use super::partner::{Agreed, Partner};
use super::sync_view;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(
    after_help = "Only what is not here yet travels. What both stores wrote to the same stream is kept side by side: \
    commits of both are found, and nothing here is moved.\n\nExample:\n  enjamb pull\n  enjamb pull team\n  \
    enjamb pull /mnt/desk/enjamb"
)]
pub struct Pull {
    /// The store to take from: its name, address or directory [default: $ENJAMB_REMOTE, the only one, or origin]
    remote: Option<String>,
}

impl Pull {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let partner = Partner::find(context, self.remote.as_deref())?;
        let (here, there) = (context.operations()?, partner.operations(context)?);
        let agreed = partner.agreed(context);
        let (from, to) = (Peer::new(&there), Peer::new(&here));
        let done = context.ui.with_progress("taking", |tell| transfer(&from, &to, agreed.taken, tell))?;
        partner.remember(context, &Agreed { taken: done.position, ..agreed });
        sync_view::show(context, sync_view::Way::Pull, &partner.name, &done)
    }
}
