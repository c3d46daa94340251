//! Namespaces: each is a store of its own, so that nothing of one can be seen, or guessed, from another.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use enjamb_service::{Env, Result, Store};

use tokio::sync::Semaphore;

use crate::appender::Appender;
use crate::audit::Audit;
use crate::flight::Flights;
use crate::hub::Hub;
use crate::pages::Pages;
use crate::runner::{Runner, Turns};

/// One store that is served, and what belongs to it alone.
pub struct Space {
    pub store: Arc<Store>,
    pub appender: Appender,
    pub hub: Hub,
    pub audit: Audit,
    pub flights: Flights,
    /// Pages of the log that followers have read.
    pub pages: Pages,
    /// Followers that read the log at once.
    pub replays: Semaphore,
    /// With what its owner has things run; nothing is run without it.
    pub runner: Option<Runner>,
    pub turns: Turns,
}

/// More would only hold more of the log in memory.
const REPLAYS_MAX: usize = 16;

impl Space {
    pub fn new(store: Arc<Store>) -> Arc<Self> {
        Self::running(store, None)
    }

    pub fn running(store: Arc<Store>, runner: Option<Runner>) -> Arc<Self> {
        let (hub, audit) = (Hub::new(store.clone()), Audit::new(store.clone()));
        Arc::new(Self {
            appender: Appender::new(store.clone()),
            store,
            hub,
            audit,
            flights: Flights::default(),
            pages: Pages::default(),
            replays: Semaphore::new(REPLAYS_MAX),
            runner,
            turns: Turns::default(),
        })
    }
}

/// The store itself and its namespaces, each opened when it is first asked for.
pub struct Spaces {
    main: Arc<Space>,
    others: Mutex<HashMap<String, Arc<Space>>>,
}

impl Spaces {
    /// Opens the store in a directory, making it if there is none.
    pub fn open(dir: &Path, runner: Option<Runner>) -> Result<Self> {
        Ok(Self::new(Store::create(dir, Env::system())?, runner))
    }

    /// A store that is open already, and its namespaces.
    pub fn new(store: Store, runner: Option<Runner>) -> Self {
        Self { main: Space::running(Arc::new(store), runner), others: Mutex::default() }
    }

    pub fn main(&self) -> &Arc<Space> {
        &self.main
    }

    /// The space of a namespace. Its name was checked when the token was made that gives it.
    pub fn of(&self, namespace: Option<&str>) -> Result<Arc<Space>> {
        let Some(name) = namespace else { return Ok(self.main.clone()) };
        let mut others = self.others.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(space) = others.get(name) {
            return Ok(space.clone());
        }
        let store = self.main.store.namespace(name, Env::system())?;
        let space = Space::new(Arc::new(store));
        others.insert(name.to_owned(), space.clone());
        Ok(space)
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<Space>> {
        let others = self.others.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        [self.main.clone()].into_iter().chain(others.values().cloned()).collect()
    }
}
