//! Handing out what was kept: two threads read and check chunks in turns.

use std::fs::File;
use std::io;
use std::mem::take;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use enjamb_core::Digest;

use super::{CHUNK_BYTES, Cache, Entry};

/// Chunks that are read before someone wants them. With few, what was read last is still in the processor's cache.
const CHUNKS_AHEAD: usize = 2;

/// Why bytes could not be handed out to the end.
pub(crate) enum Broken {
    /// What is there is not what was kept. What was handed out before was right.
    Kept,
    /// Nobody takes them.
    Output(io::Error),
}

impl Cache {
    pub(crate) fn stream(
        &self,
        entry: &Entry,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> std::result::Result<(), Broken> {
        let file = File::open(self.data_path(&entry.data)).map_err(|_| Broken::Kept)?;
        let (full, chunks) = sync_channel(CHUNKS_AHEAD);
        let (empty, spent) = sync_channel(CHUNKS_AHEAD + 1);
        thread::scope(|scope| {
            let file = &file;
            if entry.chunks.len() > 1 {
                scope.spawn(move || read_ahead(file, entry, &full, &spent));
            }
            hand_out(file, entry, chunks, &empty, out)
        })
    }
}

/// Every second chunk.
fn read_ahead(file: &File, entry: &Entry, full: &SyncSender<Option<Vec<u8>>>, spent: &Receiver<Vec<u8>>) {
    for at in (1..entry.chunks.len()).step_by(2) {
        let chunk = chunk(file, entry, at, spent.try_recv().unwrap_or_default());
        // When nobody listens any more, someone else has met an error.
        if full.send(chunk).is_err() {
            return;
        }
    }
}

fn hand_out(
    file: &File,
    entry: &Entry,
    ahead: Receiver<Option<Vec<u8>>>,
    empty: &SyncSender<Vec<u8>>,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> std::result::Result<(), Broken> {
    let mut own = Vec::new();
    for at in 0..entry.chunks.len() {
        let is_own = at % 2 == 0;
        let found = if is_own { chunk(file, entry, at, take(&mut own)) } else { ahead.recv().ok().flatten() };
        let bytes = found.ok_or(Broken::Kept)?;
        out(&bytes).map_err(Broken::Output)?;
        match is_own {
            true => own = bytes,
            // When there are enough of them, this one goes.
            false => drop(empty.try_send(bytes)),
        }
    }
    Ok(())
}

/// A chunk, if it is what the entry says.
fn chunk(file: &File, entry: &Entry, at: usize, mut buffer: Vec<u8>) -> Option<Vec<u8>> {
    let start = at as u64 * CHUNK_BYTES;
    let len = entry.said.bytes.checked_sub(start)?.min(CHUNK_BYTES) as usize;
    buffer.resize(len, 0);
    file.read_exact_at(&mut buffer, start).ok()?;
    (Digest::of(&buffer) == entry.chunks[at]).then_some(buffer)
}
