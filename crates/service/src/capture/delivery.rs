//! What hooks delivered last. It is kept beside the spool, and losing it loses nothing but this.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::record::Record;
use crate::Runtime;

const FILE: &str = "delivery";

/// What came of hooks, as far as it was drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The last event of each runtime.
    pub last: BTreeMap<String, LastEvent>,
    /// Records of the spool that were cut short or damaged.
    pub damaged: u64,
    /// A transcript that could not be read when it was last tried, and why.
    pub failure: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEvent {
    pub at_ms: u64,
    pub event: Option<String>,
    pub session_id: Option<String>,
}

impl Delivery {
    pub fn last(&self, runtime: Runtime) -> Option<&LastEvent> {
        self.last.get(runtime.as_str())
    }

    pub(super) fn learn(&mut self, record: &Record, event: &Event) {
        let last = self.last.entry(record.runtime.as_str().to_owned()).or_default();
        if last.at_ms <= record.at_ms {
            let (event, session_id) = (event.name.clone(), event.session.clone());
            *last = LastEvent { at_ms: record.at_ms, event, session_id };
        }
    }

    /// What is not there, or cannot be read, is nothing yet.
    pub(super) fn read(spool: &Path) -> Self {
        let bytes = fs::read(spool.join(FILE)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(super) fn write(&self, spool: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(spool)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(spool.join(FILE))?;
        Ok(())
    }
}
