//! From an older store to a newer one: a copy is changed, then takes the store's place. The old one is kept beside it.
//!
//! Until the copy is whole nothing but it has changed, so a crash costs only the copy. Between the two renames that switch
//! there is no store under its name for an instant; whoever opens it then finishes the switch.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::log::{self, FORMAT};
use crate::Result;
use crate::error::LedgerError;
use crate::private;
use crate::segments::sync_dir;

/// Brings a store in a directory from one format to the next.
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) apply: fn(&Path) -> Result<()>,
}

/// All steps there are, oldest first. The first format has nothing before it.
pub(crate) const STEPS: &[Step] = &[];

/// A file that stands in a copy once it is whole.
const COMPLETE: &str = "MIGRATED";

/// Migrates the store in `dir` if it is older than this version writes, and finishes a migration that was cut short.
pub(crate) fn bring_up(dir: &Path, vfs: Option<&str>) -> Result<()> {
    if STEPS.is_empty() {
        return finish_switch(dir);
    }
    bring_up_to(dir, vfs, FORMAT, STEPS)
}

fn bring_up_to(dir: &Path, vfs: Option<&str>, target: u32, steps: &[Step]) -> Result<()> {
    finish_switch(dir)?;
    let path = dir.join("log.db");
    let Some(found) = log::format_of(&path, vfs)? else { return Ok(()) };
    if found >= target {
        return Ok(());
    }
    let copy = sibling(dir, "migrating");
    remove_dir(&copy)?;
    copy_dir(dir, &copy)?;
    for version in found..target {
        let step = steps.iter().find(|step| step.from == version);
        let step = step.ok_or_else(|| LedgerError::NotAStore {
            path: dir.to_owned(),
            detail: format!("its format {found} is older than any this version can bring up"),
        })?;
        (step.apply)(&copy)?;
    }
    set_format(&copy.join("log.db"), target)?;
    mark_complete(&copy)?;
    fs::rename(dir, sibling(dir, &format!("before-v{target}"))).map_err(|error| LedgerError::io(dir, error))?;
    finish_switch(dir)
}

/// Puts a whole copy in the place that the old store has left.
fn finish_switch(dir: &Path) -> Result<()> {
    let copy = sibling(dir, "migrating");
    if dir.exists() || !copy.join(COMPLETE).exists() {
        return Ok(());
    }
    fs::rename(&copy, dir).map_err(|error| LedgerError::io(dir, error))?;
    sync_dir(dir.parent().unwrap_or(Path::new(".")))?;
    fs::remove_file(dir.join(COMPLETE)).map_err(|error| LedgerError::io(dir, error))
}

fn sibling(dir: &Path, what: &str) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    dir.with_file_name(name)
}

fn set_format(path: &Path, format: u32) -> Result<()> {
    let set = Connection::open(path).and_then(|log| log.pragma_update(None, "user_version", format));
    set.map_err(|error| LedgerError::sqlite("setting the store's format", &error))
}

fn mark_complete(copy: &Path) -> Result<()> {
    sync_tree(copy)?;
    let path = copy.join(COMPLETE);
    let file = private::create(&path).and_then(|file| file.sync_all());
    file.map_err(|error| LedgerError::io(&path, error))?;
    sync_dir(copy)
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    private::make_dir(to).map_err(|error| LedgerError::io(to, error))?;
    for entry in entries(from)? {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(|error| LedgerError::io(&target, error))?;
        }
    }
    Ok(())
}

fn sync_tree(dir: &Path) -> Result<()> {
    for entry in entries(dir)? {
        let path = entry.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(|error| LedgerError::io(&path, error))?;
        }
    }
    sync_dir(dir)
}

fn entries(dir: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed: std::io::Result<Vec<_>> = fs::read_dir(dir).and_then(Iterator::collect);
    listed.map_err(|error| LedgerError::io(dir, error))
}

fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LedgerError::io(dir, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ledger, SqliteLedger, SqliteOptions};

    /// A later version that keeps a note beside the log.
    const LATER: &[Step] =
        &[Step { from: 1, apply: |dir| fs::write(dir.join("note"), "2").map_err(|error| LedgerError::io(dir, error)) }];

    fn old_store() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let ledger = SqliteLedger::create(&dir, SqliteOptions::default(), "s").unwrap();
        assert_eq!(ledger.position().unwrap(), 0);
        (home, dir)
    }

    #[test]
    fn an_older_store_is_copied_changed_and_switched_to() {
        let (_home, dir) = old_store();
        bring_up_to(&dir, None, 2, LATER).unwrap();
        assert_eq!(log::format_of(&dir.join("log.db"), None).unwrap(), Some(2));
        assert_eq!(fs::read_to_string(dir.join("note")).unwrap(), "2");
        let before = sibling(&dir, "before-v2");
        assert_eq!(log::format_of(&before.join("log.db"), None).unwrap(), Some(1), "the old store is kept");
        assert!(!dir.join(COMPLETE).exists() && !sibling(&dir, "migrating").exists());
    }

    #[test]
    fn a_step_that_fails_leaves_the_store_as_it_was() {
        let (_home, dir) = old_store();
        let failing = &[Step { from: 1, apply: |_| Err(LedgerError::Full { doing: "trying" }) }];
        assert!(bring_up_to(&dir, None, 2, failing).is_err());
        assert_eq!(log::format_of(&dir.join("log.db"), None).unwrap(), Some(1));
        bring_up_to(&dir, None, 2, LATER).unwrap();
        assert!(dir.join("note").exists(), "and can be tried again");
    }

    #[test]
    fn a_switch_that_was_cut_short_is_finished() {
        let (_home, dir) = old_store();
        let copy = sibling(&dir, "migrating");
        copy_dir(&dir, &copy).unwrap();
        mark_complete(&copy).unwrap();
        fs::rename(&dir, sibling(&dir, "before-v2")).unwrap();
        bring_up_to(&dir, None, 1, &[]).unwrap();
        assert!(SqliteLedger::open(&dir, SqliteOptions::default()).is_ok());
    }

    #[test]
    fn a_store_older_than_every_step_is_refused_by_its_number() {
        let (_home, dir) = old_store();
        let error = bring_up_to(&dir, None, 3, &[]).err().unwrap().to_string();
        assert!(error.contains("format 1 is older"), "{error}");
    }
}
