//! Segments: immutable files that hold records and artifacts in compressed blocks.
//!
//! A segment is named by the BLAKE3 digest of all its bytes and never changes. It holds *objects*, each a byte string
//! under a [`Key`]. The bytes lie in *blocks*, which are compressed alone; an object is a list of places in blocks of
//! this or of another segment. Integers of fixed size are little-endian, `varint` is unsigned LEB128 of at most 64
//! bits, and `zigzag` maps a signed difference to a varint (0, -1, 1, -2 … become 0, 1, 2, 3 …).
//!
//! ```text
//! header    "enjamb\r\n" · u32 version (1) · u32 0                                                    16 bytes
//! blocks    one after another, without padding
//! footer    one zstd frame: the tables below
//! trailer   u64 footer offset · u32 footer stored length · u32 footer raw length
//!           · BLAKE3 of the footer's stored bytes · u32 version · u32 0 · "\nsegment"                 64 bytes
//! ```
//!
//! A block is either raw or one zstd frame that states its content size; it holds 1 byte to 64 MiB and needs a window
//! of at most 2^27. The raw bytes of all blocks, end to end, form one line of *positions*; nothing crosses the end of
//! a block. The footer lists, column by column:
//!
//! ```text
//! counts     varint deps · varint blocks · varint chunks · varint records · varint artifacts
//! deps       32-byte name of another segment, each
//! blocks     varint stored length * 2 + (1 if zstd), each · varint raw length, each · BLAKE3 of stored bytes, each
//! chunks     varint length * 2 + (1 if foreign), each
//!            · own: varint distance from the end of the own chunk before; foreign: a place; each
//!            · BLAKE3 of the chunk, each
//! records    zigzag number - number before, each · varint count of extents, each
//!            · varint length * 4 + kind, for each extent of each record
//!            · kind 0: nothing; kind 1: zigzag position - cursor; kind 2: a place; for each extent
//! artifacts  BLAKE3 of the artifact, each · varint count of runs, each
//!            · zigzag first chunk - end of the run before, varint count of chunks, for each run of each artifact
//! place      varint index in deps · varint block · varint offset in the block
//! ```
//!
//! The *cursor* is the greatest end position of any own extent so far; an extent of kind 0 begins there, so bytes that
//! were not seen before cost only their length. Objects stand in the order in which they were added. An artifact is a
//! list of runs of the chunk table, so that each of its chunks can be checked before any byte of it is handed out. A
//! record is a list of extents without digests: whoever reads it knows the digest of the whole.

mod artifact;
mod block;
mod chunk;
mod error;
mod footer;
mod layout;
mod object;
mod read;
mod tables;
mod varint;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use artifact::ArtifactSink;
pub use block::Codec;
pub use chunk::{Cut, cut};
pub use error::{Finding, Place, SegmentError, SegmentWriteError};
pub use footer::{Artifact, Block, Chunk, ChunkAt, Entry, Extent, Footer, Record, Run, Source, Tables};
pub use layout::Key;
pub(crate) use layout::TRAILER_BYTES;
pub use object::{Blocks, Fetch, RawBlock};
pub use read::{ReadAt, Segment};
pub use verify::verify;
pub use write::{Compression, SegmentOptions, SegmentSummary, SegmentWriter};
