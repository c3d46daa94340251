//! Reading what changed in a workspace, and getting it ready for the one batch that stores it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read as _};
use std::os::unix::ffi::OsStrExt;

use enjamb_core::workspace::{NodeKind, escape};
use enjamb_core::{ArtifactId, Digest, Hasher, limits};
use enjamb_ledger::segment::{ChunkAt, SegmentOptions, SegmentWriteError, SegmentWriter};
use enjamb_ledger::{Lease, NewArtifact, SegmentRecord};

use super::WorkspaceError;
use super::root::Root;
use super::scan::{Found, Stat};
use crate::{Actor, Result, ServiceError, Store};

/// What is new, up to so many bytes, goes into the batch itself; more goes to a segment, compressed.
const INLINE_BYTES_MAX: u64 = 4 << 20;
/// Bytes that are read before they are passed on.
const WINDOW_BYTES: u64 = 16 << 20;
/// Files that are worth a second thread.
const FILES_PER_THREAD: usize = 32;
const READ_BYTES: usize = 256 << 10;

type Known = fn(&Digest) -> Option<ChunkAt>;
type Writer<'w> = SegmentWriter<&'w mut BufWriter<File>, Known>;

/// A file that was read: what it was then, and its bytes.
pub(super) struct ReadFile {
    pub stat: Stat,
    pub id: Digest,
    pub len: u64,
    /// `None` for a file that is too large to be held.
    bytes: Option<Vec<u8>>,
}

/// What is to be stored, and what keeps it from being swept until it is.
#[derive(Default)]
pub(super) struct Kept {
    pub artifacts: Vec<NewArtifact>,
    pub segments: Vec<SegmentRecord>,
    _lease: Option<Lease>,
}

/// Files to be read, and bytes that are known to be stored.
pub(super) struct Unread<'a> {
    pub root: &'a Root,
    pub files: Vec<&'a Found>,
    pub stored: HashSet<Digest>,
}

type Read = Vec<Option<ReadFile>>;

impl Store {
    /// Reads files and links, and returns what each is, in their order; of one that is gone meanwhile, nothing.
    pub(super) fn keep_files(&self, unread: &Unread<'_>, by: &Actor) -> Result<(Read, Kept)> {
        let total: u64 = unread.files.iter().map(|found| found.stat.size).sum();
        let fits = |found: &&Found| found.stat.size <= limits::ARTIFACT_INLINE_BYTES_MAX as u64;
        if total <= INLINE_BYTES_MAX && unread.files.iter().all(fits) {
            return self.keep_inline(unread, by);
        }
        self.keep_in_segment(unread, by)
    }

    fn keep_inline(&self, unread: &Unread<'_>, by: &Actor) -> Result<(Read, Kept)> {
        let mut read = read_all(unread.root, &unread.files)?;
        let mut new = Vec::new();
        for file in read.iter_mut().flatten() {
            let Some(bytes) = file.bytes.take() else {
                // It grew past the bound while nobody looked.
                return self.keep_in_segment(unread, by);
            };
            if !unread.stored.contains(&file.id) {
                new.push((file.id, bytes));
            }
        }
        Ok((read, Kept { artifacts: self.wanted(new, by)?, ..Kept::default() }))
    }

    /// Bytes for a batch, each once, and without those that are here already.
    pub(super) fn wanted(&self, new: Vec<(Digest, Vec<u8>)>, by: &Actor) -> Result<Vec<NewArtifact>> {
        let here = self.here_for_good(new.iter().map(|(id, _)| *id), by)?;
        let mut listed = HashSet::new();
        let new = new.into_iter().filter(|(id, _)| listed.insert(*id));
        let artifact = |(id, bytes): (Digest, Vec<u8>)| NewArtifact {
            id: ArtifactId::from_digest(id),
            bytes: (!here.contains(&ArtifactId::from_digest(id))).then_some(bytes),
        };
        Ok(new.map(artifact).collect())
    }

    /// Which bytes are here. A checkpoint needs them for good, whatever whoever put them asked for.
    fn here_for_good(&self, ids: impl Iterator<Item = Digest>, by: &Actor) -> Result<HashSet<ArtifactId>> {
        let ids: Vec<_> = ids.map(ArtifactId::from_digest).collect();
        let here = self.ledger.here(&ids)?;
        for id in &here {
            if self.policy(id)?.expires_ms().is_some() {
                self.write_policy(id, "default", None, by)?;
            }
        }
        Ok(here)
    }

    fn keep_in_segment(&self, unread: &Unread<'_>, by: &Actor) -> Result<(Read, Kept)> {
        let segments = self.ledger.segments();
        let lease = segments.lease()?;
        let mut new = segments.create()?;
        let (read, record) = match self.write_segment(unread, new.writer(), by) {
            Ok(written) => written,
            Err(error) => {
                segments.discard(new);
                return Err(error);
            }
        };
        if record.artifacts.is_empty() {
            segments.discard(new);
            return Ok((read, Kept::default()));
        }
        segments.publish(new, &record.segment)?;
        Ok((read, Kept { artifacts: Vec::new(), segments: vec![record], _lease: Some(lease) }))
    }

    fn write_segment(
        &self,
        unread: &Unread<'_>,
        sink: &mut BufWriter<File>,
        by: &Actor,
    ) -> Result<(Read, SegmentRecord)> {
        let none = (|_: &Digest| None) as Known;
        let mut writer: Writer<'_> = SegmentWriter::new(sink, SegmentOptions::RANGES, none).map_err(failed)?;
        let (mut all, mut artifacts) = (Vec::with_capacity(unread.files.len()), Vec::new());
        let mut listed = unread.stored.clone();
        for window in windows(&unread.files) {
            let mut read = read_all(unread.root, window)?;
            let here = self.here_for_good(read.iter().flatten().map(|file| file.id), by)?;
            for (file, found) in read.iter_mut().zip(window) {
                let Some(file) = file else { continue };
                let wanted = listed.insert(file.id) && !here.contains(&ArtifactId::from_digest(file.id));
                match file.bytes.take() {
                    Some(bytes) if wanted => artifacts.push(write_artifact(&mut writer, &mut bytes.as_slice())?),
                    None if wanted => {
                        artifacts.push(write_large(&mut writer, unread.root, found, file)?);
                        listed.insert(file.id);
                    }
                    Some(_) | None => {}
                }
            }
            all.extend(read);
        }
        let (_, summary, _) = writer.finish().map_err(failed)?;
        Ok((all, SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts }))
    }
}

/// Reads a large file a second time, into the segment. What it is now is what counts.
fn write_large(writer: &mut Writer<'_>, root: &Root, found: &Found, file: &mut ReadFile) -> Result<(ArtifactId, u64)> {
    let mut source = root.open_file(&found.path).map_err(|source| reading(root, found, source))?;
    let (id, len) = write_artifact(writer, &mut source)?;
    if id.digest() != file.id {
        // Written to in between: it has to be read again next time.
        file.id = id.digest();
        file.len = len;
        file.stat = Stat { size: len, modified_ns: i64::MAX, ..file.stat };
    }
    Ok((id, len))
}

fn write_artifact(writer: &mut Writer<'_>, source: &mut dyn io::Read) -> Result<(ArtifactId, u64)> {
    let mut artifact = writer.artifact();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match source.read(&mut buffer).map_err(|source| ServiceError::File { path: "a file".into(), source })? {
            0 => return artifact.finish().map_err(failed),
            read => artifact.write(&buffer[..read]).map_err(failed)?,
        }
    }
}

/// What files are, without keeping their bytes.
pub(super) fn read_only(unread: &Unread<'_>) -> Result<Read> {
    let mut all = Vec::with_capacity(unread.files.len());
    for window in windows(&unread.files) {
        let forget = |file: ReadFile| ReadFile { bytes: None, ..file };
        all.extend(read_all(unread.root, window)?.into_iter().map(|file| file.map(forget)));
    }
    Ok(all)
}

/// Runs of files that are read together: so many bytes at most, or one file.
fn windows<'f, 'a>(files: &'f [&'a Found]) -> impl Iterator<Item = &'f [&'a Found]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |found: &&&Found| {
            bytes += found.stat.size.min(limits::ARTIFACT_INLINE_BYTES_MAX as u64);
            bytes <= WINDOW_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (window, after) = rest.split_at(count);
        rest = after;
        (!window.is_empty()).then_some(window)
    })
}

fn read_all(root: &Root, files: &[&Found]) -> Result<Read> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = files.len().div_ceil(threads).max(FILES_PER_THREAD);
    if files.len() <= share {
        return files.iter().map(|found| read_if_there(root, found)).collect();
    }
    let parts: Vec<Result<Read>> = std::thread::scope(|scope| {
        let read = |part: &[&Found]| part.iter().map(|found| read_if_there(root, found)).collect();
        let threads: Vec<_> = files.chunks(share).map(|part| scope.spawn(move || read(part))).collect();
        // A thread that panicked takes us with it.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn read_if_there(root: &Root, found: &Found) -> Result<Option<ReadFile>> {
    match read_file(root, found) {
        Err(ServiceError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn read_file(root: &Root, found: &Found) -> Result<ReadFile> {
    let failed = |source| reading(root, found, source);
    if found.kind == NodeKind::Link {
        let target = root.read_link(&found.path).map_err(failed)?;
        let len = target.len() as u64;
        return Ok(ReadFile { stat: found.stat, id: Digest::of(&target), len, bytes: Some(target) });
    }
    let mut file = root.open_file(&found.path).map_err(failed)?;
    let before = file.metadata().map_err(failed)?;
    if !before.is_file() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    if before.len() > limits::ARTIFACT_BYTES_MAX {
        let path = root.path().join(std::ffi::OsStr::from_bytes(&found.path));
        return Err(WorkspaceError::TooLarge { path, size: before.len() }.into());
    }
    let (id, bytes) = digest(&mut file, before.len()).map_err(failed)?;
    let (before, after) =
        (Stat::of(&before, NodeKind::File), Stat::of(&file.metadata().map_err(failed)?, NodeKind::File));
    // What was written to while it was read is not what it says it is.
    let stat = if before == after { after } else { Stat { modified_ns: i64::MAX, ..after } };
    let len = bytes.as_ref().map_or(after.size, |bytes| bytes.len() as u64);
    Ok(ReadFile { stat, id, len, bytes })
}

fn digest(file: &mut File, len: u64) -> io::Result<(Digest, Option<Vec<u8>>)> {
    let bound = limits::ARTIFACT_INLINE_BYTES_MAX as u64;
    let mut bytes = Vec::with_capacity(len.min(bound) as usize + 1);
    file.take(bound + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= bound {
        return Ok((Digest::of(&bytes), Some(bytes)));
    }
    let mut hasher = Hasher::new();
    hasher.update(&bytes);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hasher.finish(), None)),
            read => {
                hasher.update(&buffer[..read]);
            }
        }
    }
}

fn reading(root: &Root, found: &Found, source: io::Error) -> ServiceError {
    ServiceError::File { path: root.path().join(escape(&found.path)), source }
}

fn failed(error: SegmentWriteError) -> ServiceError {
    ServiceError::Ledger(error.into())
}
