//! `enjamb clone`

use std::path::PathBuf;

use clap::Args;
use enjamb_server::Operations;
use enjamb_server::sync::{Peer, transfer};
use enjamb_service::ServiceError;

use super::Context;
use super::partner::{Agreed, ORIGIN, Partner};
use super::sync_view;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(
    after_help = "The store it came from is then known as origin, unless another one is. A clone that was cut short goes on \
    with enjamb pull.\n\nExample:\n  enjamb clone /mnt/desk/enjamb ./copy\n  enjamb --store ./copy clone https://ctx.acme.dev"
)]
pub struct Clone {
    /// The store to copy: its name, address or directory
    from: String,
    /// Where to make the copy [default: where --store says]
    dir: Option<PathBuf>,
}

impl Clone {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(dir) = self.dir {
            context.global.store = Some(dir);
        }
        let dir = context.store_dir()?;
        if dir.join("log.db").exists() {
            return Err(Failure::Usage {
                message: format!("there is a store at {} already", dir.display()),
                help: Some(format!("enjamb --store {} pull {}    takes into it what is new", dir.display(), self.from)),
            });
        }
        let partner = Partner::find(context, Some(&self.from))?;
        let there = partner.operations(context)?;
        let from = Peer::new(&there);
        // Before anything is made here, the other store has to be there.
        from.greet()?;
        let here = Operations::here(context.open_or_create()?, context.actor());
        let to = Peer::new(&here);
        let done = context.ui.with_progress("taking", |tell| transfer(&from, &to, 0, tell))?;
        partner.remember(context, &Agreed { taken: done.position, ..Agreed::default() });
        name_origin(context, &partner)?;
        sync_view::show(context, sync_view::Way::Clone, &partner.name, &done)
    }
}

/// Names where the copy came from, if that name is free.
fn name_origin(context: &Context<'_>, partner: &Partner) -> Result<()> {
    let config = context.config()?;
    if config.remotes().iter().any(|remote| remote.name == ORIGIN || remote.url == partner.url) {
        return Ok(());
    }
    let added = config.add_remote(&Context::config_places()?, ORIGIN, &partner.url, None);
    added.map(drop).map_err(|error| ServiceError::from(error).into())
}
