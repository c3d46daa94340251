//! What the disk itself allows: one preallocated file, written in order and synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Problem;
use crate::took::Took;

const ZEROS_BYTES: usize = 1 << 20;

/// One writer: each record is written and synced before the next.
pub(crate) fn append(dir: &Path, n: usize, bytes: usize) -> Result<Took, Problem> {
    let file = preallocated(dir, n * bytes)?;
    let record = vec![b'x'; bytes];
    Ok(Took::repeating(n, |index| {
        file.write_all_at(&record, (index * bytes) as u64)?;
        file.sync_data()
    })?)
}

/// Many writers: whoever finds nobody writing writes for all who wait, with one sync.
pub(crate) fn group(dir: &Path, n: usize, bytes: usize, writers: usize) -> Result<Took, Problem> {
    let group = Group {
        file: preallocated(dir, n * bytes)?,
        queue: Mutex::new(Queue { buffer: Vec::with_capacity(writers * bytes), ..Queue::default() }),
        written: Condvar::new(),
    };
    let began = Instant::now();
    let runs = thread::scope(|scope| {
        let write = || Took::repeating(n / writers, |_| group.commit(&vec![b'x'; bytes]));
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| io::Error::other("a writer died"))?).collect()
    });
    let runs: io::Result<Vec<Took>> = runs;
    Ok(Took::together(began.elapsed(), runs?))
}

struct Group {
    file: File,
    queue: Mutex<Queue>,
    written: Condvar,
}

#[derive(Default)]
struct Queue {
    buffer: Vec<u8>,
    /// The buffer that the last leader wrote from, for the next to fill.
    spare: Vec<u8>,
    offset: u64,
    joined: u64,
    done: u64,
    led: bool,
}

impl Group {
    fn commit(&self, record: &[u8]) -> io::Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.buffer.extend_from_slice(record);
        queue.joined += 1;
        let ticket = queue.joined;
        while queue.done < ticket {
            if queue.led {
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.led = true;
            let spare = std::mem::take(&mut queue.spare);
            let mut buffer = std::mem::replace(&mut queue.buffer, spare);
            let (offset, last) = (queue.offset, queue.joined);
            drop(queue);
            self.file.write_all_at(&buffer, offset)?;
            self.file.sync_data()?;
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.offset += buffer.len() as u64;
            buffer.clear();
            (queue.spare, queue.done, queue.led) = (buffer, last, false);
            self.written.notify_all();
        }
        Ok(())
    }
}

/// A file of zeros that are on the disk already: syncing one that grows costs several times as much.
fn preallocated(dir: &Path, bytes: usize) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(true).open(dir.join("log.bin"))?;
    let zeros = vec![0; ZEROS_BYTES];
    for offset in (0..bytes + ZEROS_BYTES).step_by(ZEROS_BYTES) {
        file.write_all_at(&zeros, offset as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}
