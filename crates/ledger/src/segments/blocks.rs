//! Raw blocks that are kept for the next reader.

use std::collections::HashMap;

use enjamb_core::Digest;

use crate::segment::RawBlock;

/// Raw bytes of blocks that are kept. In tests few, so that what is asked for again has to be unpacked again.
const BLOCK_CACHE_BYTES_MAX: usize = if cfg!(test) { 256 << 10 } else { 48 << 20 };

/// Blocks by last use, dropped from the least recent on when they grow past the bound.
pub(super) struct BlockCache {
    bytes_max: usize,
    blocks: HashMap<(Digest, u32), (RawBlock, u64)>,
    bytes: usize,
    clock: u64,
    /// Blocks that were unpacked, ever.
    #[cfg(test)]
    pub(super) unpacked: usize,
}

impl Default for BlockCache {
    fn default() -> Self {
        Self::of(BLOCK_CACHE_BYTES_MAX)
    }
}

impl BlockCache {
    pub(super) fn of(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            blocks: HashMap::new(),
            bytes: 0,
            clock: 0,
            #[cfg(test)]
            unpacked: 0,
        }
    }

    pub(super) fn get(&mut self, segment: &Digest, block: u32) -> Option<RawBlock> {
        self.clock += 1;
        let (bytes, used) = self.blocks.get_mut(&(*segment, block))?;
        *used = self.clock;
        Some(bytes.clone())
    }

    pub(super) fn put(&mut self, segment: &Digest, block: u32, bytes: RawBlock) {
        self.clock += 1;
        #[cfg(test)]
        (self.unpacked += 1);
        self.bytes += bytes.len();
        if let Some((old, _)) = self.blocks.insert((*segment, block), (bytes, self.clock)) {
            self.bytes -= old.len();
        }
        while self.bytes > self.bytes_max && self.blocks.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Drops what would not be kept beside so many bytes more.
    pub(super) fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max && !self.blocks.is_empty() {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.blocks.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
        if let Some((bytes, _)) = oldest.and_then(|key| self.blocks.remove(&key)) {
            self.bytes -= bytes.len();
        }
    }
}
