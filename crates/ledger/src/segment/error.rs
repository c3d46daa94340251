//! What can be wrong with a segment, and with what is put into one.

use std::fmt;
use std::io;

use enjamb_core::Digest;

use super::layout::Key;

/// Why a segment or an object of it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("segment {segment}: cannot read {place}: {source}")]
    Io { segment: Digest, place: Place, source: io::Error },
    #[error("segment {segment} is damaged in {place}: {what}")]
    Corrupt { segment: Digest, place: Place, what: &'static str },
    #[error("segment {segment} has format version {version}, which a newer enjamb wrote")]
    TooNew { segment: Digest, version: u32 },
    #[error("segment {segment} has no {key}")]
    MissingObject { segment: Digest, key: Key },
    #[error("segment {segment} is not at hand")]
    MissingSegment { segment: Digest },
}

/// The part of a segment that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    File,
    Trailer,
    Footer,
    Block(u32),
    /// An object that has bytes in this block. The error names the segment of the block, which need not be the one
    /// that lists the object.
    Object {
        key: Key,
        block: u32,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the file"),
            Self::Trailer => f.write_str("the trailer"),
            Self::Footer => f.write_str("the footer"),
            Self::Block(block) => write!(f, "block {block}"),
            Self::Object { key, block } => write!(f, "{key} (block {block})"),
        }
    }
}

/// Why something cannot be written to a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentWriteError {
    #[error("cannot write the segment")]
    Io(#[from] io::Error),
    #[error("the segment has record {0} already")]
    DuplicateRecord(u64),
    #[error("record {number} is of {len} bytes; a segment takes at most {max}")]
    RecordTooLarge { number: u64, len: usize, max: usize },
    #[error("the artifact is larger than {max} bytes")]
    ArtifactTooLarge { max: u64 },
    #[error("the segment's footer would be larger than {max} bytes: begin another segment earlier")]
    Full { max: u32 },
}

/// One thing that is wrong with a segment, as a full check finds it.
#[derive(Debug, thiserror::Error)]
pub enum Finding {
    #[error("the file's digest is {found}")]
    FileDigest { found: Digest },
    /// The trailer, the footer or a block.
    #[error(transparent)]
    Unreadable(SegmentError),
    #[error("chunk {digest} in block {block} is other bytes")]
    Chunk { block: u32, digest: Digest },
    #[error("{key} is damaged, for it has bytes in block {block}")]
    Object { key: Key, block: u32 },
}
