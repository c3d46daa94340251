//! What is written down of an agent that runs, so that whatever ends it, its work can be taken in.
//!
//! A run is a directory of the store: `run.json` says who runs and from where, and `out` is what the agent prints, written
//! by the agent itself. Whoever holds `out` open holds its lock: as long as the agent or the one who started it lives,
//! nobody else takes the run in.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use enjamb_core::CommitId;
use serde::{Deserialize, Serialize};

use crate::{Result, ServiceError};

const FACTS: &str = "run.json";
const OUT: &str = "out";

/// Who runs, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub id: String,
    pub driver: String,
    pub template: String,
    pub principal: String,
    pub machine: Option<String>,
    pub ticket: Option<String>,
    /// The commit that it began with.
    pub parent: Option<String>,
    /// Where its runtime writes what it does, once that is known.
    pub transcript: Option<PathBuf>,
    /// What it was asked, for a program that keeps no transcript.
    pub asked: Option<String>,
}

impl Facts {
    pub fn parent(&self) -> Option<CommitId> {
        self.parent.as_deref().and_then(|id| id.parse().ok())
    }

    /// The ref that names the last commit of the run.
    pub fn reference(&self) -> String {
        format!("run/{}", self.id)
    }
}

/// A run that is written down.
#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    pub facts: Facts,
    out: File,
}

pub(super) fn dir_of(store: &Path) -> PathBuf {
    store.join("runs")
}

impl Journal {
    /// Begins a run. It is seen by others only once its lock is held.
    pub fn begin(store: &Path, facts: Facts) -> Result<Self> {
        let runs = dir_of(store);
        let (being_made, dir) = (runs.join(format!(".{}", facts.id)), runs.join(&facts.id));
        let begun = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(&being_made)?;
            let out =
                OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(being_made.join(OUT))?;
            out.lock()?;
            write_facts(&being_made, &facts)?;
            fs::rename(&being_made, &dir)?;
            Ok(out)
        };
        let out = begun().map_err(|source| failed(&runs, source))?;
        Ok(Self { dir, facts, out })
    }

    /// The runs that nobody holds any more.
    pub fn left_over(store: &Path) -> Vec<Self> {
        let entries = fs::read_dir(dir_of(store)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::take(entry.path())).collect()
    }

    fn take(dir: PathBuf) -> Option<Self> {
        if dir.file_name()?.to_str()?.starts_with('.') {
            return None;
        }
        let out = OpenOptions::new().read(true).append(true).open(dir.join(OUT)).ok()?;
        out.try_lock().ok()?;
        // Who held it a moment ago may have taken it away.
        let facts = serde_json::from_slice(&fs::read(dir.join(FACTS)).ok()?).ok()?;
        Some(Self { dir, facts, out })
    }

    /// The file that the agent writes to. It shares the lock.
    pub fn for_agent(&self) -> Result<File> {
        self.out.try_clone().map_err(|source| failed(&self.dir, source))
    }

    pub fn len(&self) -> Result<u64> {
        Ok(self.out.metadata().map_err(|source| failed(&self.dir, source))?.len())
    }

    /// What was printed from a place on, up to so many bytes.
    pub fn read(&self, from: u64, bytes_max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // A file of its own: where the agent writes must not move.
        let read = File::open(self.dir.join(OUT)).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.take(bytes_max).read_to_end(&mut bytes)
        });
        read.map_err(|source| failed(&self.dir, source))?;
        Ok(bytes)
    }

    /// A file beside the output, which goes when the run does.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Notes where the runtime writes what it does.
    pub fn note_transcript(&mut self, path: &Path) -> Result<()> {
        self.facts.transcript = Some(path.to_owned());
        write_facts(&self.dir, &self.facts).map_err(|source| failed(&self.dir, source))
    }

    /// All of it is stored.
    pub fn end(self) -> Result<()> {
        fs::remove_dir_all(&self.dir).map_err(|source| failed(&self.dir, source))
    }
}

/// Written beside its place and renamed: there is always a whole one.
fn write_facts(dir: &Path, facts: &Facts) -> io::Result<()> {
    let file = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&file, facts)?;
    file.as_file().sync_all()?;
    file.persist(dir.join(FACTS)).map(drop).map_err(|error| error.error)
}

fn failed(path: &Path, source: io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn facts(id: &str) -> Facts {
        Facts {
            id: id.into(),
            driver: "generic".into(),
            template: "t".into(),
            principal: "p".into(),
            machine: None,
            ticket: None,
            parent: None,
            transcript: None,
            asked: None,
        }
    }

    #[test]
    fn a_run_is_left_over_once_nobody_holds_it() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::begin(home.path(), facts("a")).unwrap();
        let mut agent = journal.for_agent().unwrap();
        agent.write_all(b"hello").unwrap();
        assert!(Journal::left_over(home.path()).is_empty());
        drop(journal);
        assert!(Journal::left_over(home.path()).is_empty(), "the agent still writes");
        drop(agent);
        let mut found = Journal::left_over(home.path());
        assert!(Journal::left_over(home.path()).is_empty(), "somebody is at it");
        let found = found.pop().unwrap();
        assert_eq!((found.read(1, 3).unwrap(), &found.facts), (b"ell".to_vec(), &facts("a")));
        found.end().unwrap();
        assert!(Journal::left_over(home.path()).is_empty());
    }
}
