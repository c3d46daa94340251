//! Blocks: how raw bytes become stored bytes and, checked, come back.

use std::io;

use enjamb_core::Digest;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CParameter};

use super::footer::Block;
use super::layout::BLOCK_BYTES_MAX;
use super::write::Compression;

const WINDOW_BYTES_MAX: u64 = 1 << 27;
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Bounds of the compressor's tables: 32 and 8 MiB. The larger ones of its highest levels save half a percent.
const CHAIN_LOG: u32 = 23;
const HASH_LOG: u32 = 21;

/// How the stored bytes of a block are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Raw,
    Zstd,
}

/// A compressor that keeps its tables and its buffer from block to block.
pub(super) struct BlockEncoder {
    zstd: Compressor<'static>,
    stored: Vec<u8>,
}

impl BlockEncoder {
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        let mut zstd = Compressor::new(compression.level)?;
        if compression.window_log > 0 {
            zstd.set_parameter(CParameter::WindowLog(compression.window_log))?;
            zstd.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
            zstd.set_parameter(CParameter::ChainLog(CHAIN_LOG))?;
            zstd.set_parameter(CParameter::HashLog(HASH_LOG))?;
        }
        Ok(Self { zstd, stored: Vec::new() })
    }

    /// The bytes to store for `raw`, which are `raw` itself when compression does not make it smaller.
    pub(super) fn encode<'a>(&'a mut self, raw: &'a [u8]) -> io::Result<(Codec, &'a [u8])> {
        self.stored.clear();
        self.stored.reserve(zstd_safe::compress_bound(raw.len()));
        self.zstd.compress_to_buffer(raw, &mut self.stored)?;
        if self.stored.len() < raw.len() { Ok((Codec::Zstd, &self.stored)) } else { Ok((Codec::Raw, raw)) }
    }
}

/// The raw bytes of a block whose stored bytes were read from where the footer says, in `memory` if it needs some.
pub(super) fn decode(block: &Block, stored: Vec<u8>, memory: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    if Digest::of(&stored) != block.digest {
        return Err("its stored bytes do not match their digest");
    }
    match block.codec {
        Codec::Raw => Ok(stored),
        Codec::Zstd => inflate_into(memory, &stored, block.raw_len, BLOCK_BYTES_MAX),
    }
}

/// Decodes exactly one zstd frame of exactly `raw_len` bytes. `raw_len` comes from the file: it is used only once the
/// frame's own header agrees, and no more than `max` is ever allocated.
pub(super) fn inflate(stored: &[u8], raw_len: u32, max: u32) -> Result<Vec<u8>, &'static str> {
    inflate_into(Vec::new(), stored, raw_len, max)
}

fn inflate_into(mut raw: Vec<u8>, stored: &[u8], raw_len: u32, max: u32) -> Result<Vec<u8>, &'static str> {
    if raw_len > max {
        return Err("it claims to be larger than it may be");
    }
    if zstd_safe::get_frame_content_size(stored).ok().flatten() != Some(u64::from(raw_len)) {
        return Err("its zstd frame is of another size than the tables say");
    }
    if zstd_safe::find_frame_compressed_size(stored) != Ok(stored.len()) {
        return Err("it is not exactly one zstd frame");
    }
    if window_bytes(stored).is_none_or(|window| window > WINDOW_BYTES_MAX) {
        return Err("its zstd frame needs too large a window");
    }
    raw.clear();
    raw.reserve_exact(raw_len as usize);
    let decoded = Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(stored, &mut raw));
    match decoded {
        Ok(len) if len == raw_len as usize => Ok(raw),
        Ok(_) => Err("its zstd frame ends early"),
        Err(_) => Err("its zstd frame cannot be decoded"),
    }
}

/// The window that a zstd frame's header asks for (RFC 8878, 3.1.1.1.2); 0 where the content itself is the window.
fn window_bytes(frame: &[u8]) -> Option<u64> {
    let header = frame.strip_prefix(&ZSTD_MAGIC)?;
    let single_segment = header.first()? & 0x20 != 0;
    if single_segment {
        return Some(0);
    }
    let descriptor = header.get(1)?;
    let base = 1_u64 << (10 + (descriptor >> 3));
    Some(base + base / 8 * u64::from(descriptor & 7))
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    fn encode(raw: &[u8], window_log: u32) -> (Codec, Vec<u8>) {
        let mut encoder = BlockEncoder::new(Compression { level: 3, window_log }).unwrap();
        let (codec, stored) = encoder.encode(raw).unwrap();
        (codec, stored.to_vec())
    }

    #[test]
    fn what_does_not_shrink_is_stored_as_it_is() {
        let raw = noise(1, 5_000);
        assert_eq!(encode(&raw, 0), (Codec::Raw, raw));
    }

    #[test]
    fn a_frame_must_be_what_the_tables_say() {
        let (_, stored) = encode(&[7; 9_000], 27);
        assert_eq!(inflate(&stored, 9_000, BLOCK_BYTES_MAX), Ok(vec![7; 9_000]));
        for wrong in [0, 1, 8_999, 9_001, u32::MAX] {
            assert!(inflate(&stored, wrong, BLOCK_BYTES_MAX).is_err(), "{wrong}");
        }
        assert!(inflate(&[&stored[..], &stored[..]].concat(), 18_000, BLOCK_BYTES_MAX).is_err());
        assert!(inflate(&stored[..stored.len() - 1], 9_000, BLOCK_BYTES_MAX).is_err());
    }

    #[test]
    fn a_frame_with_a_huge_window_is_refused() {
        // A header with a window of 2^28 and a content size of 256 + 44, then one raw block, the last, of 300 bytes.
        let mut frame = [&ZSTD_MAGIC[..], &[0x40, 18 << 3, 44, 0, 0x61, 0x09, 0x00]].concat();
        frame.extend([5; 300]);
        assert_eq!(inflate(&frame, 300, BLOCK_BYTES_MAX), Err("its zstd frame needs too large a window"));
        frame[5] = 17 << 3;
        assert_eq!(inflate(&frame, 300, BLOCK_BYTES_MAX), Ok(vec![5; 300]));
    }
}
