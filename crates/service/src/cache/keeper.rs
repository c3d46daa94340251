//! Keeping a materialization while it is handed out. Whatever goes wrong here costs the cache, never the answer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use enjamb_core::{Digest, Hasher};
use enjamb_ledger::private;

use super::{CHUNK_BYTES, Cache, Entry, Key};
use crate::Materialized;

/// Bytes that are written at once. The system keeps them in pieces as large as they came, and reads large ones faster.
const WRITE_BYTES: usize = 1 << 20;

/// Writes bytes as they pass, and hashes them chunk by chunk.
pub(crate) struct Keeper<'c> {
    cache: &'c Cache,
    data: String,
    file: BufWriter<File>,
    chunks: Vec<Digest>,
    /// Of the chunk that is not full yet.
    hasher: Hasher,
    in_chunk: u64,
    failed: bool,
}

impl<'c> Keeper<'c> {
    /// Begins a new file for about so many bytes.
    pub(crate) fn begin(cache: &'c Cache, bytes: u64, name: String) -> Option<Self> {
        if bytes < cache.bytes_min || bytes > cache.bytes_max / 2 {
            return None;
        }
        let open = || -> io::Result<File> {
            cache.make_dir()?;
            cache.make_room(bytes)?;
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(cache.data_path(&name))
        };
        let file = BufWriter::with_capacity(WRITE_BYTES, open().ok()?);
        let (chunks, hasher) = (Vec::new(), Hasher::new());
        Some(Self { cache, data: name, file, chunks, hasher, in_chunk: 0, failed: false })
    }

    /// Goes on at the end of what an entry names, unless someone else has gone on there before.
    pub(crate) fn resume(cache: &'c Cache, entry: &Entry) -> Option<Self> {
        let open = || OpenOptions::new().read(true).append(true).open(cache.data_path(&entry.data));
        let file = open().ok()?;
        file.try_lock().ok()?;
        let len = entry.said.bytes;
        if file.metadata().ok()?.len() != len {
            return None;
        }
        let mut chunks = entry.chunks.clone();
        let in_chunk = len % CHUNK_BYTES;
        let mut hasher = Hasher::new();
        if in_chunk > 0 {
            let mut last = vec![0; in_chunk as usize];
            file.read_exact_at(&mut last, len - in_chunk).ok()?;
            hasher.update(&last);
            chunks.pop();
        }
        let file = BufWriter::with_capacity(WRITE_BYTES, file);
        Some(Self { cache, data: entry.data.clone(), file, chunks, hasher, in_chunk, failed: false })
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.failed = self.failed || self.file.write_all(bytes).is_err();
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = (CHUNK_BYTES - self.in_chunk) as usize;
            let (now, later) = rest.split_at(rest.len().min(room));
            self.hasher.update(now);
            self.in_chunk += now.len() as u64;
            if self.in_chunk == CHUNK_BYTES {
                self.end_chunk();
            }
            rest = later;
        }
    }

    fn end_chunk(&mut self) {
        self.chunks.push(std::mem::take(&mut self.hasher).finish());
        self.in_chunk = 0;
    }

    /// Enters what was written under the key.
    pub(crate) fn keep(mut self, key: &Key, said: &Materialized) {
        if self.in_chunk > 0 {
            self.end_chunk();
        }
        self.failed |= self.file.flush().is_err();
        let entry = Entry { data: self.data.clone(), chunks: self.chunks.clone(), said: said.clone() };
        let path = self.cache.entry_path(key);
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = || -> io::Result<()> {
            let mut file = private::create(&new)?;
            file.write_all(entry.to_text().as_bytes())?;
            fs::rename(&new, &path)
        };
        if self.failed || written().is_err() {
            self.drop_all();
        }
    }

    /// Gives up: what was written belongs to nobody.
    pub(crate) fn drop_all(self) {
        let _ = fs::remove_file(self.cache.data_path(&self.data));
    }
}
