//! A second place for segments: those that somebody wants to be there are pushed, and those that nobody used for long may
//! be there only.
//!
//! A note beside the segments says what is upstream, and vouches for its bytes. It is made after the segment was put and read
//! back, and goes after the segment was taken away.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use enjamb_core::Digest;

use super::SqliteLedger;
use crate::error::LedgerError;
use crate::objects::{Objects, ObjectsAddress};
use crate::segment::TRAILER_BYTES;
use crate::segments::{AWAY, About, Register, Role, Segments, Upstream, sync_dir};
use crate::{Progress, Result, private};

const DIGEST_BYTES: usize = 32;
const LEN_BYTES: usize = 8;

/// Notes in the directory of segments.
struct Notes {
    dir: PathBuf,
}

impl Notes {
    fn path(&self, segment: &Digest) -> PathBuf {
        self.dir.join(format!("{segment}{AWAY}"))
    }
}

impl Register for Notes {
    fn announce(&self, _about: &About) -> Result<()> {
        // What is pushed from here is named already, so nobody takes it away.
        Ok(())
    }

    fn confirm(&self, about: &About) -> Result<()> {
        let path = self.path(&about.segment);
        let failed = |error| LedgerError::io(&path, error);
        let new = self.dir.join(format!("tmp-{}-{}", std::process::id(), about.segment));
        let mut file = private::create(&new).map_err(failed)?;
        file.write_all(&encode(about)).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)?;
        sync_dir(&self.dir)
    }

    fn about(&self, segment: &Digest) -> Result<Option<About>> {
        let path = self.path(segment);
        match fs::read(&path) {
            Ok(note) => {
                let damaged = || LedgerError::corrupt(path.display().to_string(), "it is no note of a segment");
                decode(segment, &note).map(Some).ok_or_else(damaged)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LedgerError::io(path, error)),
        }
    }
}

/// The length, the trailer, the deps, and a digest over them and the name.
fn encode(about: &About) -> Vec<u8> {
    let mut note = [&about.len.to_le_bytes()[..], &about.trailer].concat();
    note.extend(about.deps.iter().flat_map(|dep| *dep.as_bytes()));
    let digest = Digest::of(&[&note[..], about.segment.as_bytes()].concat());
    note.extend(digest.as_bytes());
    note
}

fn decode(segment: &Digest, note: &[u8]) -> Option<About> {
    let (fields, digest) = note.split_last_chunk::<DIGEST_BYTES>()?;
    if Digest::of(&[fields, segment.as_bytes()].concat()).as_bytes() != digest {
        return None;
    }
    let (len, rest) = fields.split_first_chunk::<LEN_BYTES>()?;
    let (trailer, deps) = rest.split_first_chunk::<TRAILER_BYTES>()?;
    let deps = deps.chunks(DIGEST_BYTES).map(Digest::from_slice).collect::<Option<_>>()?;
    Some(About { segment: *segment, len: u64::from_le_bytes(*len), trailer: *trailer, deps })
}

impl SqliteLedger {
    /// The same, with a second place for its segments.
    pub(crate) fn with_objects(mut self, address: ObjectsAddress) -> Result<Self> {
        let notes = Notes { dir: self.dir.join("segments") };
        let objects = Objects::new(address, &self.store_id()?);
        let upstream = Upstream::new(Role::Second, objects, Box::new(notes));
        self.segments = Arc::new(Segments::open(&self.dir)?.with_upstream(upstream));
        Ok(self)
    }

    /// The second place for segments, if there is one.
    pub fn objects(&self) -> Option<&Objects> {
        self.segments.upstream().map(Upstream::objects)
    }

    /// Pushes what is to be upstream as well, and lets go of copies that are too many. Returns how many were pushed.
    pub(crate) fn replicate(&self, progress: &mut Progress<'_>) -> Result<u64> {
        let Some(upstream) = self.segments.upstream() else { return Ok(0) };
        let _alone = self.maintenance()?;
        let wanted = self.places_of(&["replicate"])?;
        if wanted.iter().any(Option::is_none) {
            self.seal_all(progress)?;
        }
        let wanted: HashSet<Digest> = self.places_of(&["replicate"])?.into_iter().flatten().collect();
        let mut pushed = 0;
        for segment in self.with_deps(wanted)? {
            pushed += u64::from(self.push_once(upstream, &segment)?);
        }
        Ok(pushed + self.evict(upstream)?)
    }

    fn places_of(&self, policies: &[&str]) -> Result<Vec<Option<Digest>>> {
        self.look(|look| look.places_of(policies))
    }

    /// Puts a segment upstream, unless it is there; whether it was put. What a note says may be over by now, and if there is
    /// no copy here any more there is nothing to put.
    fn push_once(&self, upstream: &Upstream, segment: &Digest) -> Result<bool> {
        let about = upstream.about(segment)?;
        let is_there = about.map(|about| upstream.objects().has(segment, about.len)).transpose()?.unwrap_or(false);
        if is_there || !self.segments.path(segment).is_file() {
            return Ok(false);
        }
        self.segments.push(segment)?;
        Ok(true)
    }

    /// Removes the copies that were used longest ago until the rest fits, each once it is upstream. Returns how many had to
    /// be pushed for it.
    fn evict(&self, upstream: &Upstream) -> Result<u64> {
        let mut files = self.segments.files()?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut excess = bytes.saturating_sub(upstream.copies_bytes_max());
        if excess == 0 {
            return Ok(0);
        }
        let (kept, live) = (self.places_of(&["pin", "replicate"])?, self.live_segments()?);
        let kept: HashSet<Digest> = kept.into_iter().flatten().collect();
        files.sort_by_key(|file| file.used);
        let mut pushed = 0;
        for file in &files {
            let Some(segment) = file.digest.filter(|digest| live.contains(digest) && !kept.contains(digest)) else {
                continue;
            };
            if excess == 0 {
                break;
            }
            pushed += u64::from(self.push_once(upstream, &segment)?);
            if upstream.objects().has(&segment, file.bytes)? {
                self.segments.remove(file)?;
                excess = excess.saturating_sub(file.bytes);
            }
        }
        Ok(pushed)
    }

    /// Takes away what is upstream and nothing names any more. Whoever calls excludes those who write segments.
    pub(super) fn sweep_upstream(&self, live: &HashSet<Digest>) -> Result<()> {
        let Some(upstream) = self.segments.upstream() else { return Ok(()) };
        let dir = self.dir.join("segments");
        for (segment, note) in notes_in(&dir)?.into_iter().filter(|(segment, _)| !live.contains(segment)) {
            upstream.objects().remove(&segment)?;
            fs::remove_file(&note).map_err(|error| LedgerError::io(note, error))?;
        }
        Ok(())
    }
}

fn notes_in(dir: &Path) -> Result<Vec<(Digest, PathBuf)>> {
    let failed = |error| LedgerError::io(dir, error);
    let mut notes = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(AWAY));
        notes.extend(name.and_then(Digest::from_hex).map(|segment| (segment, path.clone())));
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_any_flipped_bit_is_noticed() {
        let segment = Digest::of(b"segment");
        let deps = vec![Digest::of(b"one"), Digest::of(b"two")];
        let about = About { segment, len: 900, trailer: [7; TRAILER_BYTES], deps };
        let note = encode(&about);
        assert_eq!(decode(&segment, &note), Some(about));
        assert_eq!(decode(&Digest::of(b"another"), &note), None);
        for bit in 0..note.len() * 8 {
            let mut flipped = note.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&segment, &flipped), None, "bit {bit}");
        }
    }
}
