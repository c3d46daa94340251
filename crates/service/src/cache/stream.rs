//! Handing out what was kept: two threads read and check chunks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use enjamb_core::Digest;

use super::together::Together;
use super::{CHUNK_BYTES, Cache, Entry};

/// Why bytes could not be handed out to the end.
pub(crate) enum Broken {
    /// What is there is not what was kept. What was handed out before was right.
    Kept,
    /// Nobody takes them.
    Output(io::Error),
}

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
        let work = |at: usize, Chunk { mut bytes, .. }| {
            let is_right = read(&file, entry, at, &mut bytes).is_some();
            Chunk { bytes, is_right }
        };
        let together = Together::new(entry.chunks.len(), &work);
        together.run(&mut |chunk: &mut Chunk| match chunk.is_right {
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
