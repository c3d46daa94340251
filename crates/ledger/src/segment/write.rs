//! Writing a segment: objects in, blocks out, tables last.
//!
//! What is held in memory is one block, its compressed form and the tables; an artifact of 4 GiB costs some 70 MiB,
//! nearly all of it the digests of its chunks.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use enjamb_core::{ArtifactId, Digest, Hasher, limits};

use super::artifact::ArtifactSink;
use super::block::BlockEncoder;
use super::chunk::{self, Cut};
use super::error::SegmentWriteError;
use super::footer::{Artifact, Block, Chunk, ChunkAt, Extent, Footer, Record, Run, Source, Tables};
use super::layout::{BLOCK_BYTES_MAX, FOOTER_BYTES_MAX, Key, RECORD_BYTES_MAX, Trailer, header};
use super::tables;

const FOOTER_LEVEL: i32 = 9;

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    pub level: i32,
    /// Above 0, repeats are also sought at long distance, within a window of 2 to this power (at most 27), and the tables
    /// in which the compressor looks for them stay below 48 MiB.
    pub window_log: u32,
}

/// What the writer of a segment may choose. A reader needs to know none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Raw bytes of a block, from 64 KiB to 64 MiB: what must be decompressed to read any byte of it.
    pub block_bytes: u32,
    pub compression: Compression,
    /// Chunks of records are deduplicated, and listed for later segments to find, from this size on. Each that is
    /// listed costs 34 bytes of footer; `u32::MAX` lists none. Chunks of artifacts are always listed.
    pub record_chunk_bytes_min: u32,
}

impl SegmentOptions {
    pub const RECORD_CHUNK_BYTES_MIN: u32 = chunk::OBJECT_BYTES_MIN as u32;

    /// For artifacts that are read by range, soon after they are written.
    pub const RANGES: Self = Self {
        block_bytes: 128 << 10,
        compression: Compression { level: 3, window_log: 0 },
        record_chunk_bytes_min: Self::RECORD_CHUNK_BYTES_MIN,
    };

    /// For bytes that are rarely read again. Within so large a block long-distance matching finds what chunks would
    /// find, and needs no digests in the footer for it.
    pub const COLD: Self = Self {
        block_bytes: 32 << 20,
        compression: Compression { level: 19, window_log: 25 },
        record_chunk_bytes_min: u32::MAX,
    };
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The segment's name.
    pub digest: Digest,
    /// Of the file.
    pub bytes: u64,
    /// Of all objects.
    pub raw_bytes: u64,
    /// Of those, the bytes that were found in this or in an earlier segment and not stored again.
    pub duplicate_bytes: u64,
    /// Of the footer and the trailer.
    pub footer_bytes: u64,
    pub objects: u64,
    pub blocks: u64,
}

/// Writes one segment to `sink`. `known` says where earlier segments have a chunk. After an error of the sink nothing
/// can be made of what was written; after any other error the writer goes on as if the object had not been added.
pub struct SegmentWriter<W, K> {
    out: Hashing<W>,
    encoder: BlockEncoder,
    options: SegmentOptions,
    known: K,
    block: Vec<u8>,
    pub(super) tables: Tables,
    /// Rows of chunks by the first eight bytes of their digests. Two that share them are told apart by the whole.
    rows: HashMap<u64, u32>,
    deps: HashMap<Digest, u32>,
    pub(super) keys: HashSet<Key>,
    raw_bytes: u64,
    duplicate_bytes: u64,
}

impl<W: Write, K: FnMut(&Digest) -> Option<ChunkAt>> SegmentWriter<W, K> {
    pub fn new(sink: W, options: SegmentOptions, known: K) -> Result<Self, SegmentWriteError> {
        let block_bytes = options.block_bytes.clamp(chunk::BYTES_MAX as u32, BLOCK_BYTES_MAX);
        let mut out = Hashing { sink, hasher: Hasher::new(), len: 0 };
        out.write(&header())?;
        Ok(Self {
            out,
            encoder: BlockEncoder::new(options.compression)?,
            options: SegmentOptions { block_bytes, ..options },
            known,
            block: Vec::new(),
            tables: Tables::default(),
            rows: HashMap::new(),
            deps: HashMap::new(),
            keys: HashSet::new(),
            raw_bytes: 0,
            duplicate_bytes: 0,
        })
    }

    /// Bytes of the file so far, without the block that is being filled and without the footer.
    pub fn bytes_written(&self) -> u64 {
        self.out.len
    }

    pub fn add_record(&mut self, number: u64, bytes: &[u8]) -> Result<(), SegmentWriteError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(SegmentWriteError::RecordTooLarge { number, len: bytes.len(), max: RECORD_BYTES_MAX });
        }
        if !self.keys.insert(Key::Record(number)) {
            return Err(SegmentWriteError::DuplicateRecord(number));
        }
        self.keep_in_one_block(bytes.len())?;
        let first_extent = self.tables.extents.len();
        for piece in chunk::pieces(bytes) {
            let at = self.store_piece(piece)?;
            push_extent(&mut self.tables.extents, first_extent, at);
        }
        let extents = (self.tables.extents.len() - first_extent) as u32;
        self.tables.records.push(Record { number, first_extent: first_extent as u32, extents });
        Ok(())
    }

    /// Adds an artifact that is at hand as a whole, under the id that its bytes were found to have, in the pieces that it
    /// was [cut](super::cut) into. Otherwise as [`artifact`](Self::artifact).
    pub fn add_artifact(&mut self, id: ArtifactId, bytes: &[u8], cuts: &[Cut]) -> Result<(), SegmentWriteError> {
        debug_assert_eq!(id, ArtifactId::of(bytes), "its bytes have another id");
        debug_assert_eq!(cuts, chunk::cut(bytes), "it is cut elsewhere");
        if bytes.len() as u64 > limits::ARTIFACT_BYTES_MAX {
            return Err(SegmentWriteError::ArtifactTooLarge { max: limits::ARTIFACT_BYTES_MAX });
        }
        let (mut runs, mut rest) = (Vec::new(), bytes);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.len as usize);
            push_row(&mut runs, self.store_cut(piece, cut.digest)?);
            rest = after;
        }
        self.name(id, runs);
        Ok(())
    }

    /// Lists the artifact that has these chunks, unless the segment has it already.
    pub(super) fn name(&mut self, id: ArtifactId, mut runs: Vec<Run>) {
        if self.keys.insert(Key::Artifact(id)) {
            let first_run = self.tables.runs.len() as u32;
            self.tables.artifacts.push(Artifact { id, first_run, runs: runs.len() as u32 });
            self.tables.runs.append(&mut runs);
        }
    }

    /// Begins an artifact, whose bytes go to the sink that is returned.
    pub fn artifact(&mut self) -> ArtifactSink<'_, W, K> {
        ArtifactSink::new(self)
    }

    /// Writes what is left and returns the sink, what was written and the tables of it.
    pub fn finish(mut self) -> Result<(W, SegmentSummary, Footer), SegmentWriteError> {
        self.flush()?;
        // The tables are at their largest now, and their packed form is about to stand beside them.
        self.rows = HashMap::new();
        let footer_offset = self.out.len;
        self.write_footer()?;
        let summary = SegmentSummary {
            digest: self.out.hasher.finish(),
            bytes: self.out.len,
            raw_bytes: self.raw_bytes,
            duplicate_bytes: self.duplicate_bytes,
            footer_bytes: self.out.len - footer_offset,
            objects: (self.tables.records.len() + self.tables.artifacts.len()) as u64,
            blocks: self.tables.blocks.len() as u64,
        };
        self.out.sink.flush()?;
        let footer = Footer::new(self.tables).map_err(io::Error::other)?;
        Ok((self.out.sink, summary, footer))
    }

    fn write_footer(&mut self) -> Result<(), SegmentWriteError> {
        let raw = tables::encode(&self.tables);
        if raw.len() > FOOTER_BYTES_MAX as usize {
            return Err(SegmentWriteError::Full { max: FOOTER_BYTES_MAX });
        }
        let stored = zstd::bulk::compress(&raw, FOOTER_LEVEL)?;
        let trailer = Trailer {
            footer_offset: self.out.len,
            footer_len: stored.len() as u32,
            footer_raw_len: raw.len() as u32,
            footer_digest: Digest::of(&stored),
        };
        self.out.write(&stored)?;
        self.out.write(&trailer.encode())?;
        Ok(())
    }

    /// Begins a new block when an object of `len` bytes would straddle the end of this one, so that reading the object
    /// decompresses one block where one can hold it.
    fn keep_in_one_block(&mut self, len: usize) -> Result<(), SegmentWriteError> {
        let room = self.options.block_bytes as usize - self.block.len();
        if len > room && len <= self.options.block_bytes as usize { self.flush() } else { Ok(()) }
    }

    fn store_piece(&mut self, piece: &[u8]) -> Result<Extent, SegmentWriteError> {
        self.raw_bytes += piece.len() as u64;
        if piece.len() < self.options.record_chunk_bytes_min as usize || piece.len() < chunk::OBJECT_BYTES_MIN {
            return self.append(piece);
        }
        let digest = Digest::of(piece);
        match self.find(&digest, piece.len()) {
            Found::Row(row) => Ok(self.tables.chunks[row as usize].at),
            Found::Elsewhere(at) => Ok(at),
            Found::Nowhere => {
                let at = self.append(piece)?;
                self.list(digest, at);
                Ok(at)
            }
        }
    }

    /// Stores a chunk of an artifact and returns its row. It gets one even when its bytes are in another segment,
    /// because the row is what a range of the artifact is checked against.
    pub(super) fn store_chunk(&mut self, piece: &[u8]) -> Result<u32, SegmentWriteError> {
        self.store_cut(piece, Digest::of(piece))
    }

    fn store_cut(&mut self, piece: &[u8], digest: Digest) -> Result<u32, SegmentWriteError> {
        self.raw_bytes += piece.len() as u64;
        match self.find(&digest, piece.len()) {
            Found::Row(row) => Ok(row),
            Found::Elsewhere(at) => Ok(self.list(digest, at)),
            Found::Nowhere => {
                let at = self.append(piece)?;
                Ok(self.list(digest, at))
            }
        }
    }

    fn find(&mut self, digest: &Digest, len: usize) -> Found {
        let row = self.rows.get(&short(digest)).copied();
        let found = match row.filter(|row| self.tables.chunks[*row as usize].digest == *digest) {
            Some(row) => Found::Row(row),
            None => match (self.known)(digest).filter(|at| is_place(at, len)) {
                Some(at) => Found::Elsewhere(self.foreign(at)),
                None => Found::Nowhere,
            },
        };
        if !matches!(found, Found::Nowhere) {
            self.duplicate_bytes += len as u64;
        }
        found
    }

    fn foreign(&mut self, at: ChunkAt) -> Extent {
        let dep = match self.deps.entry(at.segment) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                self.tables.deps.push(at.segment);
                *entry.insert(self.tables.deps.len() as u32 - 1)
            }
        };
        Extent { source: Source::Dep(dep), block: at.block, offset: at.offset, len: at.len }
    }

    fn list(&mut self, digest: Digest, at: Extent) -> u32 {
        let row = self.tables.chunks.len() as u32;
        self.tables.chunks.push(Chunk { digest, at });
        self.rows.insert(short(&digest), row);
        row
    }

    fn append(&mut self, piece: &[u8]) -> Result<Extent, SegmentWriteError> {
        if self.block.len() + piece.len() > self.options.block_bytes as usize {
            self.flush()?;
        }
        let block = self.tables.blocks.len() as u32;
        let offset = self.block.len() as u32;
        self.block.extend_from_slice(piece);
        Ok(Extent { source: Source::Own, block, offset, len: piece.len() as u32 })
    }

    /// Ends the block that is being filled if it holds so many bytes: what comes next is read at other times.
    pub fn end_block_from(&mut self, bytes: usize) -> Result<(), SegmentWriteError> {
        if self.block.len() >= bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SegmentWriteError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (codec, stored) = self.encoder.encode(&self.block)?;
        self.tables.blocks.push(Block {
            at: self.out.len,
            start: self.tables.blocks_len(),
            stored_len: stored.len() as u32,
            raw_len: self.block.len() as u32,
            codec,
            digest: Digest::of(stored),
        });
        self.out.write(stored)?;
        self.block.clear();
        Ok(())
    }
}

enum Found {
    Row(u32),
    Elsewhere(Extent),
    Nowhere,
}

/// True when this can be where a chunk of `len` bytes is. An index may be stale or damaged, and a place that no reader
/// accepts would make the whole segment unreadable.
fn is_place(at: &ChunkAt, len: usize) -> bool {
    at.len as usize == len && u64::from(at.offset) + u64::from(at.len) <= u64::from(BLOCK_BYTES_MAX)
}

/// Adds a row to those of an artifact.
pub(super) fn push_row(runs: &mut Vec<Run>, row: u32) {
    match runs.last_mut() {
        Some(last) if last.first_chunk + last.chunks == row => last.chunks += 1,
        _ => runs.push(Run { first_chunk: row, chunks: 1 }),
    }
}

/// Adds an extent to those of the object that began at row `first`, or lengthens the last of them.
fn push_extent(extents: &mut Vec<Extent>, first: usize, next: Extent) {
    match extents[first..].last_mut() {
        Some(last) if last.meets(&next) => last.len += next.len,
        _ => extents.push(next),
    }
}

fn short(digest: &Digest) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// A sink whose bytes are counted and hashed as they pass.
struct Hashing<W> {
    sink: W,
    hasher: Hasher,
    len: u64,
}

impl<W: Write> Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        self.sink.write_all(bytes)
    }
}
