//! The full check of a segment: every byte, every digest, every place.

use std::collections::BTreeSet;

use enjamb_core::{Digest, Hasher};

use super::error::{Finding, Place, SegmentError};
use super::footer::{Body, Chunk, Entry, Footer, Source};
use super::read::{ReadAt, Segment, read};

const STEP_BYTES: u64 = 1 << 20;

/// Reads the whole segment named `name` and returns all that is wrong with it. Bytes that lie in other segments are
/// checked where they lie.
pub fn verify<R: ReadAt>(reader: R, name: Digest) -> Vec<Finding> {
    let mut findings = Vec::new();
    match digest_of(&reader, name) {
        Ok(found) if found == name => {}
        Ok(found) => findings.push(Finding::FileDigest { found }),
        Err(error) => findings.push(Finding::Unreadable(error)),
    }
    match Segment::open(reader, name) {
        Ok(segment) => check_blocks(&segment, &mut findings),
        Err(error) => findings.push(Finding::Unreadable(error)),
    }
    findings
}

fn digest_of(reader: &impl ReadAt, name: Digest) -> Result<Digest, SegmentError> {
    let place = Place::File;
    let len = reader.file_len().map_err(|source| SegmentError::Io { segment: name, place, source })?;
    let mut hasher = Hasher::new();
    let mut at = 0;
    while at < len {
        let end = len.min(at + STEP_BYTES);
        hasher.update(&read(reader, name, place, at..end)?);
        at = end;
    }
    Ok(hasher.finish())
}

fn check_blocks<R: ReadAt>(segment: &Segment<R>, findings: &mut Vec<Finding>) {
    let footer = segment.footer();
    let mut damaged = BTreeSet::new();
    // Own chunks are in the order of their bytes, so one pass over both tables meets each chunk in its block.
    let mut chunks = footer.tables().chunks.iter().filter(|chunk| chunk.at.source == Source::Own).peekable();
    for block in 0..footer.tables().blocks.len() as u32 {
        let raw = segment.load_block(block);
        let before = findings.len();
        while let Some(chunk) = chunks.next_if(|chunk| chunk.at.block == block) {
            findings.extend(raw.as_ref().ok().and_then(|raw| check_chunk(raw, chunk)));
        }
        findings.extend(raw.err().map(Finding::Unreadable));
        if findings.len() > before {
            damaged.insert(block);
        }
    }
    if !damaged.is_empty() {
        findings.extend(footer.records().chain(footer.artifacts()).filter_map(|entry| hit(footer, &entry, &damaged)));
    }
}

fn check_chunk(raw: &[u8], chunk: &Chunk) -> Option<Finding> {
    let same = chunk.at.of(raw).is_some_and(|bytes| Digest::of(bytes) == chunk.digest);
    (!same).then_some(Finding::Chunk { block: chunk.at.block, digest: chunk.digest })
}

/// The finding that an object has bytes in a damaged block, and in which first.
fn hit(footer: &Footer, entry: &Entry<'_>, damaged: &BTreeSet<u32>) -> Option<Finding> {
    let tables = footer.tables();
    let block = match entry.body {
        Body::Extents(extents) => first_own(extents.iter().map(|extent| (extent.source, extent.block)), damaged),
        Body::Runs(runs) => {
            let rows = runs.iter().flat_map(|run| &tables.chunks[run.first_chunk as usize..][..run.chunks as usize]);
            first_own(rows.map(|chunk| (chunk.at.source, chunk.at.block)), damaged)
        }
    };
    block.map(|block| Finding::Object { key: entry.key, block })
}

fn first_own(mut blocks: impl Iterator<Item = (Source, u32)>, damaged: &BTreeSet<u32>) -> Option<u32> {
    blocks.find(|(source, block)| *source == Source::Own && damaged.contains(block)).map(|(_, block)| block)
}
