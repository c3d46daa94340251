//! Reading objects: their bytes, checked, out of blocks that the caller keeps.

use std::ops::Range;
use std::sync::Arc;

use enjamb_core::Digest;

use super::error::{Place, SegmentError};
use super::footer::{Body, Chunk, Entry, Extent, Footer, Run, Source};
use super::layout::Key;

/// The raw bytes of a block, shared with whatever cache they came from.
pub type RawBlock = Arc<Vec<u8>>;

/// Gives blocks of any segment that an object may lie in.
pub trait Fetch {
    /// A block. Whoever asks is done with `spent`, whose memory may serve again.
    fn block(&self, segment: &Digest, block: u32, spent: Option<RawBlock>) -> Result<RawBlock, SegmentError>;
}

/// Blocks as they are fetched, one after the other. The last is held, so that reading forward, within an object or from
/// one to the next, asks for no block twice in a row.
pub struct Blocks<'c> {
    fetch: &'c dyn Fetch,
    held: Option<Held>,
}

struct Held {
    segment: Digest,
    block: u32,
    bytes: RawBlock,
}

impl<'c> Blocks<'c> {
    pub fn new(fetch: &'c dyn Fetch) -> Self {
        Self { fetch, held: None }
    }

    fn get(&mut self, segment: &Digest, block: u32) -> Result<&[u8], SegmentError> {
        let held = match self.held.take() {
            Some(held) if held.segment == *segment && held.block == block => held,
            other => {
                let bytes = self.fetch.block(segment, block, other.map(|held| held.bytes))?;
                Held { segment: *segment, block, bytes }
            }
        };
        Ok(&self.held.insert(held).bytes)
    }
}

/// One object being read.
pub(super) struct ObjectReader<'a, 'c> {
    pub(super) name: &'a Digest,
    pub(super) footer: &'a Footer,
    pub(super) blocks: &'a mut Blocks<'c>,
}

impl ObjectReader<'_, '_> {
    pub(super) fn read<E: From<SegmentError>>(
        &mut self,
        entry: &Entry<'_>,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if range.is_empty() {
            return Ok(());
        }
        match entry.body {
            Body::Extents(extents) => self.read_extents(entry.key, extents, range, sink),
            Body::Runs(runs) => self.read_runs(entry.key, runs, range, sink),
        }
    }

    fn read_extents<E: From<SegmentError>>(
        &mut self,
        key: Key,
        extents: &[Extent],
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = 0;
        for extent in extents {
            let part = overlap(&range, start, extent.len);
            if !part.is_empty() {
                sink(&self.bytes(key, extent)?[part])?;
            }
            start += u64::from(extent.len);
        }
        Ok(())
    }

    fn read_runs<E: From<SegmentError>>(
        &mut self,
        key: Key,
        runs: &[Run],
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let footer = self.footer;
        let mut start = 0;
        for run in runs {
            let in_run = range.start.saturating_sub(start)..range.end.saturating_sub(start);
            for (chunk_start, chunk) in footer.chunks_in(run, in_run.clone()) {
                let part = overlap(&in_run, chunk_start, chunk.at.len);
                sink(&self.checked(key, chunk)?[part])?;
            }
            start += footer.run_len(run);
        }
        Ok(())
    }

    /// The bytes of a chunk, whose digest is compared however small a part of it is wanted.
    fn checked(&mut self, key: Key, chunk: &Chunk) -> Result<&[u8], SegmentError> {
        let corrupt = self.corrupt(key, &chunk.at, "a chunk does not match its digest");
        let bytes = self.bytes(key, &chunk.at)?;
        if Digest::of(bytes) == chunk.digest { Ok(bytes) } else { Err(corrupt) }
    }

    fn bytes(&mut self, key: Key, extent: &Extent) -> Result<&[u8], SegmentError> {
        let corrupt = self.corrupt(key, extent, "the block ends before the object's bytes do");
        let segment = self.segment(extent);
        let block = self.blocks.get(&segment, extent.block)?;
        extent.of(block).ok_or(corrupt)
    }

    fn corrupt(&self, key: Key, extent: &Extent, what: &'static str) -> SegmentError {
        let place = Place::Object { key, block: extent.block };
        SegmentError::Corrupt { segment: self.segment(extent), place, what }
    }

    fn segment(&self, extent: &Extent) -> Digest {
        match extent.source {
            Source::Own => *self.name,
            Source::Dep(dep) => self.footer.tables().deps[dep as usize],
        }
    }
}

/// The part of a piece that begins at `start` and is wanted, counted from the piece's first byte.
fn overlap(range: &Range<u64>, start: u64, len: u32) -> Range<usize> {
    let within = |at: u64| at.saturating_sub(start).min(u64::from(len)) as usize;
    within(range.start)..within(range.end)
}
