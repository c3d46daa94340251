//! What is fixed about the file: its keys, its limits, its header and its trailer.

use std::fmt;

use enjamb_core::{ArtifactId, Digest};

pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 16;
pub(crate) const TRAILER_BYTES: usize = 64;
/// Raw bytes of one block. A reader allocates no more than this for one.
pub(super) const BLOCK_BYTES_MAX: u32 = 64 << 20;
/// Raw bytes of a footer, which bounds what a hostile file costs. There is room for 5 GiB cut into the smallest chunks:
/// the largest artifact after a gigabyte of other things.
pub(super) const FOOTER_BYTES_MAX: u32 = 96 << 20;
/// Bytes of one record: a frame or an inline artifact with its envelope, with room to spare.
pub(super) const RECORD_BYTES_MAX: usize = 4 << 20;

const HEADER_MAGIC: &[u8; 8] = b"enjamb\r\n";
const TRAILER_MAGIC: &[u8; 8] = b"\nsegment";

/// What an object is asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A sealed record of the log, by its number.
    Record(u64),
    Artifact(ArtifactId),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(number) => write!(f, "record {number}"),
            Self::Artifact(id) => write!(f, "{id}"),
        }
    }
}

pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(HEADER_MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Where the footer is and what it must hash to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) footer_offset: u64,
    pub(super) footer_len: u32,
    pub(super) footer_raw_len: u32,
    pub(super) footer_digest: Digest,
}

/// Why bytes are no trailer that this version reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrailerError {
    Damaged(&'static str),
    TooNew(u32),
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.footer_offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.footer_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.footer_raw_len.to_le_bytes());
        bytes[16..48].copy_from_slice(self.footer_digest.as_bytes());
        bytes[48..52].copy_from_slice(&VERSION.to_le_bytes());
        bytes[56..].copy_from_slice(TRAILER_MAGIC);
        bytes
    }

    /// Reads the trailer of a file of `file_len` bytes.
    pub(super) fn decode(bytes: &[u8; TRAILER_BYTES], file_len: u64) -> Result<Self, TrailerError> {
        if &bytes[56..] != TRAILER_MAGIC {
            return Err(TrailerError::Damaged("it does not end as a segment does"));
        }
        match u32_at(bytes, 48) {
            VERSION => {}
            0 => return Err(TrailerError::Damaged("version 0 was never written")),
            newer => return Err(TrailerError::TooNew(newer)),
        }
        let trailer = Self {
            footer_offset: u64::from(u32_at(bytes, 0)) | u64::from(u32_at(bytes, 4)) << 32,
            footer_len: u32_at(bytes, 8),
            footer_raw_len: u32_at(bytes, 12),
            footer_digest: Digest::from_slice(&bytes[16..48]).unwrap_or(Digest::ZERO),
        };
        trailer.fits(file_len).map_err(TrailerError::Damaged)?;
        Ok(trailer)
    }

    fn fits(&self, file_len: u64) -> Result<(), &'static str> {
        let after = u64::from(self.footer_len) + TRAILER_BYTES as u64;
        if self.footer_offset < HEADER_BYTES as u64 || self.footer_offset.checked_add(after) != Some(file_len) {
            return Err("the footer does not end where the trailer begins");
        }
        // Incompressible tables grow by less than a hundredth in a zstd frame.
        if self.footer_raw_len > FOOTER_BYTES_MAX || self.footer_len > FOOTER_BYTES_MAX + FOOTER_BYTES_MAX / 64 {
            return Err("the footer is larger than any footer may be");
        }
        Ok(())
    }
}

fn u32_at(bytes: &[u8; TRAILER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
