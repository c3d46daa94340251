//! Is this a good place for a store, and is the store in it in good order?

use std::path::Path;

use enjamb_ledger::Batch;

use crate::{Result, Store};

/// Free space below which writing is at risk.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// A write-ahead log larger than this means that something keeps it from being taken in.
const WAL_BYTES_MAX: u64 = 256 << 20;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    pub detail: String,
    /// What to do about it.
    pub help: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Warning,
    Bad,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

impl Check {
    pub(crate) fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, detail: detail.into(), help: None }
    }

    pub(crate) fn warning(name: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, detail: detail.into(), help: Some(help.into()) }
    }

    pub(crate) fn bad(name: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, detail: detail.into(), help: Some(help.into()) }
    }
}

impl Store {
    pub fn doctor(&self) -> Result<Vec<Check>> {
        let mut checks = vec![check_mode(self.dir()), self.check_quick()?];
        let server = self.check_server()?;
        // Which files are in use, nobody can say of a store that other nodes write to.
        if server.is_empty() {
            checks.push(self.check_leftovers()?);
        }
        checks.extend(check_free_space(self.dir()));
        match server {
            server if server.is_empty() => checks.push(check_wal(self.dir())),
            server => checks.extend(server),
        }
        checks.extend(self.check_objects());
        checks.push(self.check_write());
        Ok(checks)
    }

    fn check_quick(&self) -> Result<Check> {
        let checked = self.ledger.verify_quick()?;
        Ok(match checked.findings.first() {
            None => Check::good(
                "records",
                format!("the last {} records and {} segments are whole", checked.records, checked.segments),
            ),
            Some(first) => Check::bad("records", format!("{}: {}", first.subject, first.detail), "enjamb verify"),
        })
    }

    fn check_leftovers(&self) -> Result<Check> {
        let unnamed = self.ledger.unnamed_files()?;
        let bytes: u64 = unnamed.iter().map(|file| file.bytes).sum();
        Ok(match unnamed.len() {
            0 => Check::good("files", "every segment file is in use"),
            1 => Check::warning("files", format!("1 file that nothing names, {bytes} bytes"), "enjamb gc --run"),
            count => {
                Check::warning("files", format!("{count} files that nothing names, {bytes} bytes"), "enjamb gc --run")
            }
        })
    }

    /// An empty batch takes the write lock and gives it back: the store can be written, and nothing is.
    fn check_write(&self) -> Check {
        match self.ledger.append(Batch::default()) {
            Ok(_) => Check::good("writing", "the log can be locked for writing"),
            Err(error) => Check::bad("writing", error.to_string(), "check the permissions and the disk"),
        }
    }
}

#[cfg(unix)]
fn check_mode(dir: &Path) -> Check {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::metadata(dir) else {
        return Check::bad("directory", "it cannot be read", "check its permissions");
    };
    match meta.mode() & 0o777 {
        mode if mode & 0o077 == 0 => Check::good("directory", format!("{} is for its owner alone", dir.display())),
        mode => Check::warning(
            "directory",
            format!("{} has mode {mode:o}: others on this machine may read transcripts", dir.display()),
            format!("chmod 700 {}", dir.display()),
        ),
    }
}

#[cfg(not(unix))]
fn check_mode(dir: &Path) -> Check {
    Check::good("directory", dir.display().to_string())
}

fn check_free_space(dir: &Path) -> Option<Check> {
    let free = free_bytes(dir)?;
    Some(match free {
        free if free < FREE_BYTES_MIN => {
            Check::warning("space", format!("{} MiB left on this disk", free >> 20), "make room, or move the store")
        }
        free => Check::good("space", format!("{} MiB left on this disk", free >> 20)),
    })
}

/// What `df` says, since the standard library does not.
fn free_bytes(dir: &Path) -> Option<u64> {
    let output = std::process::Command::new("df").arg("-Pk").arg(dir).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let kib: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib << 10)
}

fn check_wal(dir: &Path) -> Check {
    let bytes = std::fs::metadata(dir.join("log.db-wal")).map_or(0, |meta| meta.len());
    if bytes > WAL_BYTES_MAX {
        return Check::warning(
            "write-ahead log",
            format!("{} MiB: some process has been reading for very long", bytes >> 20),
            "end long-running readers, then enjamb maintain",
        );
    }
    Check::good("write-ahead log", format!("{} KiB", bytes >> 10))
}
