//! The commands for other stores: naming them, sending to them, taking from them.

use clap::Subcommand;

use super::Context;
use super::clone::Clone;
use super::private::Private;
use super::pull::Pull;
use super::push::Push;
use super::remotes::Remotes;
use crate::failure::{Exit, Result};

#[derive(Subcommand)]
#[command(defer = true)]
pub enum Stores {
    /// Name other stores
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb remote add desk /mnt/desk/enjamb\n  enjamb remote list")]
    Remote(Remotes),
    /// Send another store what it lacks
    Push(Push),
    /// Take what another store has
    Pull(Pull),
    /// Make a store that has all that another one has
    Clone(Clone),
    /// Keep streams and threads in this store, or list what stays
    Private(Private),
}

impl Stores {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Remote(remotes) => remotes.run(context),
            Self::Push(push) => push.run(context),
            Self::Pull(pull) => pull.run(context),
            Self::Clone(clone) => clone.run(context),
            Self::Private(private) => private.run(context),
        }
    }
}
