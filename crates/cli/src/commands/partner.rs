//! The other store that `push`, `pull` and `clone` speak to, and what was agreed with it last.
//!
//! What is remembered only saves work: it says from which record on to look for what is new. It is never relied on: both
//! stores are compared afterwards, and what was passed over is brought then.

use std::path::{Path, PathBuf};

use enjamb_core::Digest;
use enjamb_server::{Address, Client, Operations, Secret, wire};
use enjamb_service::{ConfigError, Env, ServiceError, Store};
use serde::{Deserialize, Serialize};

use super::Context;
use super::remote::listening;
use super::remotes::lasting;
use crate::failure::{Failure, Result};

/// The variables that hold the token for another store's server.
const TOKENS: [&str; 2] = ["ENJAMB_REMOTE_TOKEN", "ENJAMB_TOKEN"];
/// The variable that names the store to speak to.
const REMOTE: &str = "ENJAMB_REMOTE";
/// The name that a clone gives to where it came from, and that is meant when nobody says.
pub const ORIGIN: &str = "origin";

/// Another store.
pub struct Partner {
    /// What to call it in messages.
    pub name: String,
    pub url: String,
    token_file: Option<String>,
}

/// What was agreed with another store last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agreed {
    pub url: String,
    /// The records up to which each store has given what it had.
    pub given: u64,
    pub taken: u64,
    /// Somebody agreed to what was sent.
    pub pushed: bool,
}

impl Partner {
    /// The store that was named: by a name, an address or a directory; or the one that is meant when nobody says.
    pub fn find(context: &Context<'_>, given: Option<&str>) -> Result<Self> {
        let remotes = context.config()?.remotes();
        let named = given.map(str::to_owned).or_else(|| std::env::var(REMOTE).ok().filter(|name| !name.is_empty()));
        let only = || match remotes.as_slice() {
            [only] => Some(only.name.clone()),
            _ => remotes.iter().find(|remote| remote.name == ORIGIN).map(|remote| remote.name.clone()),
        };
        let Some(name) = named.or_else(only) else {
            return Err(Failure::Usage {
                message: "which store? None has a name, or several have".into(),
                help: Some(
                    "enjamb remote list    shows those that have one; enjamb remote add NAME URL    names one".into(),
                ),
            });
        };
        if let Some(remote) = remotes.iter().find(|remote| remote.name == name) {
            let (url, token_file) = (remote.url.clone(), remote.token_file.clone());
            return Ok(Self { name, url, token_file });
        }
        if name.contains('/') || Path::new(&name).is_dir() {
            return Ok(Self::at(&name));
        }
        let known = remotes.into_iter().map(|remote| remote.name).collect();
        Err(ServiceError::from(ConfigError::NoRemote { name, known }).into())
    }

    /// A store by its address or directory.
    fn at(url: &str) -> Self {
        Self { name: url.to_owned(), url: lasting(url), token_file: None }
    }

    /// Its operations: by its server, or in this process.
    pub fn operations(&self, context: &Context<'_>) -> Result<Operations> {
        let by = context.actor();
        let acting = |client: Client| Operations::there(client.acting(&by.actor_id, &by.origin));
        if let Some(address) = Address::parse(&self.url) {
            let token = match address {
                Address::Web(_) => self.token()?,
                Address::Socket(_) => None,
            };
            return Ok(acting(Client::new(&address, token)));
        }
        let dir = Path::new(&self.url);
        if let Some(client) = listening(dir)? {
            return Ok(acting(client));
        }
        let opened = Store::open(dir, Env::system()).map_err(|error| {
            let mut problem = wire::problem(&error);
            if error.code() == "store-not-found" {
                problem["help"] = format!("enjamb --store {} init    makes one there", self.url).into();
            }
            Failure::Problem(problem)
        });
        Ok(Operations::here(opened?, by))
    }

    fn token(&self) -> Result<Option<Secret>> {
        let (text, said_by) = match &self.token_file {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                let read = read.map_err(|source| ServiceError::File { path: file.into(), source })?;
                (read, file.clone())
            }
            None => match TOKENS.iter().find_map(|name| Some((std::env::var(name).ok()?, (*name).to_owned()))) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let bad = || Failure::usage(format!("{said_by} holds no token: those begin with enj_"));
        Secret::parse(text.trim()).ok_or_else(bad).map(Some)
    }

    /// What was agreed with it last; nothing, if nobody knows.
    pub fn agreed(&self, context: &Context<'_>) -> Agreed {
        let read = self.notes(context).and_then(|path| std::fs::read(path).ok());
        let agreed = read.and_then(|bytes| serde_json::from_slice::<Agreed>(&bytes).ok());
        agreed.filter(|agreed| agreed.url == self.url).unwrap_or_default()
    }

    /// Remembers what was agreed. What cannot be written is found out again next time.
    pub fn remember(&self, context: &Context<'_>, agreed: &Agreed) {
        let Some(path) = self.notes(context) else { return };
        let agreed = Agreed { url: self.url.clone(), ..agreed.clone() };
        let json = serde_json::to_vec(&agreed).unwrap_or_default();
        let written = path.parent().map(enjamb_ledger::private::make_dir).transpose();
        let _ = written.and_then(|_| std::fs::write(&path, json));
    }

    /// Where it is remembered: in the store, if that is on this machine.
    fn notes(&self, context: &Context<'_>) -> Option<PathBuf> {
        let name = Digest::of(self.url.as_bytes()).to_hex();
        Some(context.store_dir().ok()?.join("remotes").join(format!("{}.json", &name[..16])))
    }
}
