//! Backing up a store in use, and making a store from a backup.
//!
//! The log is copied first, then the segments that the copy names, then a manifest of all files with their digests. A
//! backup without a manifest is one that did not finish.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use enjamb_core::{Digest, Hasher};
use rusqlite::Connection;

use super::SqliteLedger;
use super::log;
use crate::error::LedgerError;
use crate::private;
use crate::segments::sync_dir;
use crate::{Progress, Result};

const MANIFEST: &str = "MANIFEST";
const MANIFEST_HEAD: &str = "enjamb backup 1";
const PAGES_PER_STEP: i32 = 2_000;

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    pub files: u64,
    pub bytes: u64,
    /// Segments that an earlier backup to the same place had brought there already.
    pub kept: u64,
}

struct Listed {
    digest: Digest,
    bytes: u64,
    name: String,
}

impl SqliteLedger {
    /// Copies the store into `to`, while others go on using it. A backup that is there already is brought up to date.
    pub fn backup(&self, to: &Path, progress: &mut Progress<'_>) -> Result<Backup> {
        check_target(&self.dir, to)?;
        // What the copied log names must still be there when it is copied in turn.
        let _alone = self.maintenance()?;
        let _lease = self.segments.lease()?;
        private::make_dir(&to.join("segments")).map_err(|error| LedgerError::io(to, error))?;
        remove_if_there(&to.join(MANIFEST))?;
        self.copy_log(&to.join("log.db"), progress)?;
        let mut listed = vec![list(to, "log.db")?];
        let mut done = Backup::default();
        for digest in self.live_segments()? {
            let name = format!("segments/{digest}.seg");
            done.kept += u64::from(!copy_segment(&self.segments.brought(&digest)?, &to.join(&name), &digest)?);
            listed.push(list(to, &name)?);
        }
        sync_dir(&to.join("segments"))?;
        write_manifest(to, &listed)?;
        remove_unlisted(to, &listed)?;
        done.files = listed.len() as u64;
        done.bytes = listed.iter().map(|file| file.bytes).sum();
        Ok(done)
    }

    fn copy_log(&self, to: &Path, progress: &mut Progress<'_>) -> Result<()> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("copying the log", &error);
        let partial = to.with_extension("db-partial");
        remove_if_there(&partial)?;
        let from = log::open(&self.dir.join("log.db"), self.vfs())?;
        let mut copy = Connection::open(&partial).map_err(known)?;
        private::restrict(&partial).map_err(|error| LedgerError::io(&partial, error))?;
        let backup = rusqlite::backup::Backup::new(&from, &mut copy).map_err(known)?;
        while let rusqlite::backup::StepResult::More | rusqlite::backup::StepResult::Busy =
            backup.step(PAGES_PER_STEP).map_err(known)?
        {
            let pages = backup.progress();
            progress((pages.pagecount - pages.remaining) as u64, pages.pagecount as u64);
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(backup);
        copy.pragma_update(None, "journal_mode", "DELETE").map_err(known)?;
        drop(copy);
        sync_file(&partial)?;
        fs::rename(&partial, to).map_err(|error| LedgerError::io(to, error))
    }

    /// Makes a store in `dir` from the backup in `from`. Every file is checked while it is copied, and only when all are
    /// there does the store get its name.
    pub fn restore(from: &Path, dir: &Path, progress: &mut Progress<'_>) -> Result<Backup> {
        let listed = read_manifest(from)?;
        super::prepare_dir(dir)?;
        let partial = dir.with_extension("restoring");
        remove_dir_if_there(&partial)?;
        super::prepare_dir(&partial)?;
        private::make_dir(&partial.join("segments")).map_err(|error| LedgerError::io(&partial, error))?;
        let total = listed.len() as u64;
        for (done, file) in listed.iter().enumerate() {
            copy_checked(&from.join(&file.name), &partial.join(&file.name), &file.digest)?;
            progress(done as u64 + 1, total);
        }
        sync_dir(&partial.join("segments"))?;
        sync_dir(&partial)?;
        fs::remove_dir(dir).and_then(|()| fs::rename(&partial, dir)).map_err(|error| LedgerError::io(dir, error))?;
        sync_dir(dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        Ok(Backup { files: total, bytes: listed.iter().map(|file| file.bytes).sum(), kept: 0 })
    }

    /// Checks every file of a backup against its manifest, and names those that differ.
    pub fn verify_backup(from: &Path, progress: &mut Progress<'_>) -> Result<Vec<super::Finding>> {
        let listed = read_manifest(from)?;
        let mut findings = Vec::new();
        for (done, file) in listed.iter().enumerate() {
            let found = digest_file(&from.join(&file.name));
            if !found.as_ref().is_ok_and(|(digest, _)| *digest == file.digest) {
                let detail =
                    found.map_or_else(|error| error.to_string(), |(digest, _)| format!("its digest is {digest}"));
                findings.push(super::Finding { code: "backup-damaged", subject: file.name.clone(), detail });
            }
            progress(done as u64 + 1, listed.len() as u64);
        }
        Ok(findings)
    }
}

fn check_target(store: &Path, to: &Path) -> Result<()> {
    let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if absolute(to).starts_with(absolute(store)) {
        let detail = "a backup cannot be inside the store it is of".to_owned();
        return Err(LedgerError::NotAStore { path: to.to_owned(), detail });
    }
    Ok(())
}

/// Copies a segment unless it is there; returns whether it was copied.
fn copy_segment(from: &Path, to: &Path, digest: &Digest) -> Result<bool> {
    if to.exists() {
        return Ok(false);
    }
    copy_checked(from, to, digest)?;
    Ok(true)
}

fn copy_checked(from: &Path, to: &Path, digest: &Digest) -> Result<()> {
    let partial = to.with_extension("partial");
    let mut source = File::open(from).map_err(|error| LedgerError::io(from, error))?;
    let mut target = private::create(&partial).map_err(|error| LedgerError::io(&partial, error))?;
    let found = pump(&mut source, &mut target).map_err(|error| LedgerError::io(&partial, error))?.0;
    if found != *digest {
        remove_if_there(&partial)?;
        return Err(LedgerError::corrupt(from.display().to_string(), format!("its digest is {found}, not {digest}")));
    }
    target.sync_all().map_err(|error| LedgerError::io(&partial, error))?;
    fs::rename(&partial, to).map_err(|error| LedgerError::io(to, error))
}

fn pump(from: &mut impl Read, to: &mut impl Write) -> io::Result<(Digest, u64)> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok((hasher.finish(), bytes));
        }
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
}

fn digest_file(path: &Path) -> Result<(Digest, u64)> {
    let mut file = File::open(path).map_err(|error| LedgerError::io(path, error))?;
    pump(&mut file, &mut io::sink()).map_err(|error| LedgerError::io(path, error))
}

fn list(dir: &Path, name: &str) -> Result<Listed> {
    let (digest, bytes) = digest_file(&dir.join(name))?;
    Ok(Listed { digest, bytes, name: name.to_owned() })
}

/// Segments of an earlier backup that the store does not have any more: it may have dropped what is in them.
fn remove_unlisted(to: &Path, listed: &[Listed]) -> Result<()> {
    let dir = to.join("segments");
    let failed = |error| LedgerError::io(&dir, error);
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let name = format!("segments/{}", entry.map_err(failed)?.file_name().to_string_lossy());
        if name.ends_with(".seg") && listed.iter().all(|file| file.name != name) {
            remove_if_there(&to.join(name))?;
        }
    }
    Ok(())
}

fn write_manifest(dir: &Path, listed: &[Listed]) -> Result<()> {
    let mut text = format!("{MANIFEST_HEAD}\n");
    for file in listed {
        text.push_str(&format!("{} {} {}\n", file.digest, file.bytes, file.name));
    }
    text.push_str(&format!("{}\n", Digest::of(text.as_bytes())));
    let partial = dir.join("MANIFEST.partial");
    let written = private::create(&partial).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| LedgerError::io(&partial, error))?;
    fs::rename(&partial, dir.join(MANIFEST)).map_err(|error| LedgerError::io(dir, error))?;
    sync_dir(dir)
}

fn read_manifest(dir: &Path) -> Result<Vec<Listed>> {
    let path = dir.join(MANIFEST);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let detail = "it has no MANIFEST, so it is not a finished backup".to_owned();
            return Err(LedgerError::NotAStore { path: dir.to_owned(), detail });
        }
        Err(error) => return Err(LedgerError::io(path, error)),
    };
    let lines: io::Result<Vec<String>> = BufReader::new(file).lines().collect();
    let lines = lines.map_err(|error| LedgerError::io(&path, error))?;
    parse_manifest(&lines)
        .ok_or_else(|| LedgerError::corrupt(path.display().to_string(), "it does not match its own digest"))
}

fn parse_manifest(lines: &[String]) -> Option<Vec<Listed>> {
    let (last, listed) = lines.split_last()?;
    let text: String = listed.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    if Digest::from_hex(last)? != Digest::of(text.as_bytes()) || listed.first()? != MANIFEST_HEAD {
        return None;
    }
    listed[1..].iter().map(|line| parse_line(line)).collect()
}

fn parse_line(line: &str) -> Option<Listed> {
    let mut parts = line.splitn(3, ' ');
    let digest = Digest::from_hex(parts.next()?)?;
    let bytes = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let is_ours = name == "log.db" || (name.starts_with("segments/") && !name.contains(".."));
    is_ours.then(|| Listed { digest, bytes, name: name.to_owned() })
}

fn sync_file(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| LedgerError::io(path, error))
}

fn remove_dir_if_there(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LedgerError::io(path, error)),
        _ => Ok(()),
    }
}

fn remove_if_there(path: &PathBuf) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LedgerError::io(path, error)),
        _ => Ok(()),
    }
}
