//! The journal of a rewind: what is being restored, and where what was there before is kept. While it is there, files may
//! be of either state; both are whole in the store, so either can be had by restoring it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use enjamb_ledger::private;
use serde::{Deserialize, Serialize};

use super::root::Root;
use super::{Interrupted, Place, WorkspaceError};
use crate::{Result, ServiceError};

/// What a rewind was about when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub target: String,
    pub saved: String,
    /// Only these paths, escaped; all of them, if none is named.
    pub paths: Vec<String>,
}

impl Place {
    fn journal(&self) -> PathBuf {
        self.dir.join("rewind.json")
    }

    /// The rewind that was cut short, if one was.
    pub(super) fn interrupted(&self) -> Result<Option<Journal>> {
        let path = self.journal();
        match fs::read(&path) {
            Ok(bytes) => {
                let damaged = |error: serde_json::Error| ServiceError::BadFile { path, detail: error.to_string() };
                serde_json::from_slice(&bytes).map(Some).map_err(damaged)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ServiceError::File { path, source }),
        }
    }

    /// Refuses while files may be of either state.
    pub(super) fn check_settled(&self, root: &Root) -> Result<()> {
        match self.interrupted()? {
            None => Ok(()),
            Some(Journal { target, saved, .. }) => {
                Err(WorkspaceError::Interrupted { root: root.path().to_owned(), target, saved }.into())
            }
        }
    }

    /// Begins a rewind. When this returns, a crash does not make it forgotten.
    pub(super) fn begin(&self, journal: &Journal) -> Result<()> {
        let path = self.journal();
        self.write(journal).map_err(|source| ServiceError::File { path, source })
    }

    fn write(&self, journal: &Journal) -> io::Result<()> {
        let unfinished = self.dir.join("rewind.new");
        let mut file = private::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(journal)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.journal())?;
        File::open(&self.dir)?.sync_all()
    }

    /// Ends it. All files are of one state, and on disk.
    pub(super) fn end(&self) -> Result<()> {
        let path = self.journal();
        fs::remove_file(&path).map_err(|source| ServiceError::File { path, source })
    }
}

impl From<Journal> for Interrupted {
    fn from(journal: Journal) -> Self {
        Self { target: journal.target, saved: journal.saved }
    }
}
