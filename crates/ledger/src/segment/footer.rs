//! The tables of a segment in memory, and how objects are found in them.

use std::ops::Range;

use enjamb_core::{ArtifactId, Digest, limits};

use super::block::Codec;
use super::layout::{Key, RECORD_BYTES_MAX};
use super::varint::Parsed;

/// A stretch of one block's raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub source: Source,
    pub block: u32,
    pub offset: u32,
    pub len: u32,
}

impl Extent {
    /// The bytes of the block that this is, or `None` when the block is shorter.
    pub(super) fn of<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(self.offset as usize..)?.get(..self.len as usize)
    }

    /// True when `next` begins where this ends, so that both together are one extent.
    pub(super) fn meets(&self, next: &Self) -> bool {
        self.source == next.source && self.block == next.block && self.offset + self.len == next.offset
    }
}

/// Which segment a block is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Own,
    /// The segment named in this row of the deps.
    Dep(u32),
}

/// Where a chunk is, for those who look chunks up across segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    pub segment: Digest,
    pub block: u32,
    pub offset: u32,
    pub len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where the stored bytes begin in the file.
    pub at: u64,
    /// The position of the first raw byte among those of all blocks, end to end.
    pub start: u64,
    pub stored_len: u32,
    pub raw_len: u32,
    pub codec: Codec,
    /// Of the stored bytes.
    pub digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub digest: Digest,
    pub at: Extent,
}

/// A record and its rows of [`Tables::extents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub number: u64,
    pub first_extent: u32,
    pub extents: u32,
}

/// An artifact and its rows of [`Tables::runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub id: ArtifactId,
    pub first_run: u32,
    pub runs: u32,
}

/// Consecutive rows of [`Tables::chunks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first_chunk: u32,
    pub chunks: u32,
}

/// What a footer stores. Records and artifacts are in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    pub deps: Vec<Digest>,
    pub blocks: Vec<Block>,
    pub chunks: Vec<Chunk>,
    pub records: Vec<Record>,
    pub extents: Vec<Extent>,
    pub artifacts: Vec<Artifact>,
    pub runs: Vec<Run>,
}

impl Tables {
    pub fn extents_of(&self, record: &Record) -> &[Extent] {
        &self.extents[record.first_extent as usize..][..record.extents as usize]
    }

    pub fn runs_of(&self, artifact: &Artifact) -> &[Run] {
        &self.runs[artifact.first_run as usize..][..artifact.runs as usize]
    }

    /// Raw bytes of all blocks.
    pub(super) fn blocks_len(&self) -> u64 {
        self.blocks.last().map_or(0, |last| last.start + u64::from(last.raw_len))
    }
}

/// The tables of a segment and what is derived from them to find things fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    tables: Tables,
    /// Rows of records by number, and of artifacts by id.
    by_number: Vec<u32>,
    by_id: Vec<u32>,
    /// For each chunk, the length of all before it; one more at the end.
    chunk_starts: Vec<u64>,
}

/// An object that a segment has: its key, its length and where its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'f> {
    pub key: Key,
    pub len: u64,
    pub(super) body: Body<'f>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'f> {
    Extents(&'f [Extent]),
    Runs(&'f [Run]),
}

impl Footer {
    /// Checks what no table alone can show: that keys are unique and that no object is larger than objects may be.
    pub(super) fn new(tables: Tables) -> Parsed<Self> {
        let by_number = sorted_rows(&tables.records, |record| record.number).ok_or("a record is listed twice")?;
        let by_id = sorted_rows(&tables.artifacts, |artifact| artifact.id).ok_or("an artifact is listed twice")?;
        let chunk_starts = starts(&tables.chunks);
        let footer = Self { tables, by_number, by_id, chunk_starts };
        if footer.records().any(|entry| entry.len > RECORD_BYTES_MAX as u64) {
            return Err("a record is larger than records may be");
        }
        if footer.artifacts().any(|entry| entry.len > limits::ARTIFACT_BYTES_MAX) {
            return Err("an artifact is larger than artifacts may be");
        }
        Ok(footer)
    }

    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    pub fn entry(&self, key: &Key) -> Option<Entry<'_>> {
        match key {
            Key::Record(number) => {
                let records = &self.tables.records;
                let at = self.by_number.binary_search_by_key(number, |row| records[*row as usize].number).ok()?;
                Some(self.record_entry(&records[self.by_number[at] as usize]))
            }
            Key::Artifact(id) => {
                let artifacts = &self.tables.artifacts;
                let at = self.by_id.binary_search_by_key(id, |row| artifacts[*row as usize].id).ok()?;
                Some(self.artifact_entry(&artifacts[self.by_id[at] as usize]))
            }
        }
    }

    /// All records, in the order of their bytes.
    pub fn records(&self) -> impl Iterator<Item = Entry<'_>> {
        self.tables.records.iter().map(|record| self.record_entry(record))
    }

    pub fn artifacts(&self) -> impl Iterator<Item = Entry<'_>> {
        self.tables.artifacts.iter().map(|artifact| self.artifact_entry(artifact))
    }

    /// The chunks whose bytes are in this segment, which is named `segment`: what an index of chunks is made from.
    pub fn own_chunks(&self, segment: Digest) -> impl Iterator<Item = (Digest, ChunkAt)> {
        self.tables.chunks.iter().filter(|chunk| chunk.at.source == Source::Own).map(move |chunk| {
            let Extent { block, offset, len, .. } = chunk.at;
            (chunk.digest, ChunkAt { segment, block, offset, len })
        })
    }

    pub(super) fn run_len(&self, run: &Run) -> u64 {
        let first = run.first_chunk as usize;
        // A difference of partial sums, and sums of runs saturate: a hostile table repeats runs as often as it likes.
        self.chunk_starts[first + run.chunks as usize] - self.chunk_starts[first]
    }

    /// The chunks of a run that have bytes in `range`, which counts from the run's first byte, each with where it
    /// begins in the run.
    pub(super) fn chunks_in(&self, run: &Run, range: Range<u64>) -> impl Iterator<Item = (u64, &Chunk)> {
        let first = run.first_chunk as usize;
        let starts = &self.chunk_starts[first..=first + run.chunks as usize];
        let base = starts[0];
        let skipped = starts[1..].partition_point(|end| end - base <= range.start);
        let chunks = &self.tables.chunks[first..][..run.chunks as usize];
        let placed = starts.iter().map(move |start| start - base).zip(chunks).skip(skipped);
        placed.take_while(move |(start, _)| *start < range.end)
    }

    fn record_entry(&self, record: &Record) -> Entry<'_> {
        let extents = self.tables.extents_of(record);
        let len = extents.iter().map(|extent| u64::from(extent.len)).sum();
        Entry { key: Key::Record(record.number), len, body: Body::Extents(extents) }
    }

    fn artifact_entry(&self, artifact: &Artifact) -> Entry<'_> {
        let runs = self.tables.runs_of(artifact);
        let len = runs.iter().fold(0_u64, |len, run| len.saturating_add(self.run_len(run)));
        Entry { key: Key::Artifact(artifact.id), len, body: Body::Runs(runs) }
    }
}

/// The rows in the order of their keys, or `None` when a key comes twice.
fn sorted_rows<T, K: Ord + Copy>(table: &[T], key: impl Fn(&T) -> K) -> Option<Vec<u32>> {
    let key_of = |row: &u32| key(&table[*row as usize]);
    let mut rows: Vec<u32> = (0..table.len() as u32).collect();
    rows.sort_unstable_by_key(key_of);
    rows.is_sorted_by(|a, b| key_of(a) < key_of(b)).then_some(rows)
}

fn starts(chunks: &[Chunk]) -> Vec<u64> {
    let mut end = 0;
    let ends = chunks.iter().map(|chunk| {
        end += u64::from(chunk.at.len);
        end
    });
    std::iter::once(0).chain(ends).collect()
}
