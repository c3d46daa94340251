//! Handing out what was kept: two threads read and check chunks in turns.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use enjamb_core::Digest;
use enjamb_ledger::Turns;

use super::{CHUNK_BYTES, Cache, Entry};

/// Why bytes could not be handed out to the end.
pub(crate) enum Broken {
    /// What is there is not what was kept. What was handed out before was right.
    Kept,
    /// Nobody takes them.
    Output(io::Error),
}

/// Chunks that are handed out while the other thread begins.
const CHUNKS_ALONE: usize = 6;
/// Chunks that one thread does before it is the other's turn: each turn may be waited for, and waking costs as much as a
/// chunk.
const CHUNKS_PER_TURN: usize = 3;

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    is_right: bool,
}

impl Cache {
    pub(crate) fn stream(
        &self,
        entry: &Entry,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> std::result::Result<(), Broken> {
        let file = File::open(self.data_path(&entry.data)).map_err(|_| Broken::Kept)?;
        let work = |(): &mut (), at: usize, Chunk { mut bytes, .. }| {
            let is_right = read(&file, entry, at, &mut bytes).is_some();
            Chunk { bytes, is_right }
        };
        let is_theirs = |at| at >= CHUNKS_ALONE && at / CHUNKS_PER_TURN % 2 == 1;
        let turns = Turns { count: entry.chunks.len(), is_theirs: &is_theirs, work: &work };
        turns.run(&mut (), || (), &mut |_, chunk: &mut Chunk| match chunk.is_right {
            true => out(&chunk.bytes).map_err(Broken::Output),
            false => Err(Broken::Kept),
        })
    }
}

/// Reads a chunk, if it is what the entry says.
fn read(file: &File, entry: &Entry, at: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let start = at as u64 * CHUNK_BYTES;
    let len = entry.said.bytes.checked_sub(start)?.min(CHUNK_BYTES) as usize;
    bytes.resize(len, 0);
    file.read_exact_at(bytes, start).ok()?;
    (Digest::of(bytes) == entry.chunks[at]).then_some(())
}
