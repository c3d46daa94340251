//! One materialization at a time of the same thing: whoever asks while it is made is given what is made.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use enjamb_service::{Materialize, Materialized, Store};

use crate::call::Output;
use crate::problem::{Problem, Result};

/// What is made is kept in memory up to this size, and else in a file without a name.
const MEMORY_MAX: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;

/// A conversation as it was written, for all who asked for it at once.
#[derive(Debug)]
pub struct Written {
    pub said: Materialized,
    bytes: Kept,
}

#[derive(Debug)]
enum Kept {
    Memory(Vec<u8>),
    File(Mutex<File>),
}

type Flight = OnceLock<Result<Arc<Written>>>;

/// What is being made now, by what was asked for.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<String, Weak<Flight>>>);

impl Flights {
    /// Makes it, or waits for who is making it.
    pub fn materialize(&self, store: &Store, request: &Materialize) -> Result<Arc<Written>> {
        let key = format!("{:?}", (request.tip, request.stop, &request.format));
        let flight = self.join(&key);
        let result = flight.get_or_init(|| write(store, request).map(Arc::new)).clone();
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Whoever comes later begins anew: the cache below us knows what is asked for often.
        if all.get(&key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&flight))) {
            all.remove(&key);
        }
        result
    }

    fn join(&self, key: &str) -> Arc<Flight> {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(flight) = all.get(key).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = Arc::new(Flight::new());
        all.insert(key.to_owned(), Arc::downgrade(&flight));
        flight
    }
}

fn write(store: &Store, request: &Materialize) -> Result<Written> {
    let mut spool = Spool { memory: Vec::new(), file: None };
    let said = store.materialize(request, &mut |part| spool.write(store.dir(), part))?;
    let bytes = match spool.file {
        Some(file) => Kept::File(Mutex::new(file)),
        None => Kept::Memory(spool.memory),
    };
    Ok(Written { said, bytes })
}

struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
}

impl Spool {
    fn write(&mut self, dir: &Path, part: &[u8]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.write_all(part);
        }
        self.memory.extend_from_slice(part);
        if self.memory.len() > MEMORY_MAX {
            let mut file = tempfile::tempfile_in(dir)?;
            file.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        Ok(())
    }
}

impl Written {
    pub fn len(&self) -> u64 {
        self.said.bytes
    }

    /// Writes a part of it.
    pub fn read(&self, range: Range<u64>, out: &mut Output<'_>) -> Result<()> {
        let failed = |error: io::Error| Problem::from(enjamb_ledger::LedgerError::io("what was materialized", error));
        match &self.bytes {
            Kept::Memory(bytes) => {
                let part = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
                part.chunks(READ_BYTES).try_for_each(out).map_err(failed)
            }
            Kept::File(file) => read_file(file, range, out).map_err(failed),
        }
    }
}

/// Several read the same file at their own places, so each piece is looked for anew.
fn read_file(file: &Mutex<File>, range: Range<u64>, out: &mut Output<'_>) -> io::Result<()> {
    let mut at = range.start;
    let mut buffer = vec![0; READ_BYTES];
    while at < range.end {
        let wanted = buffer.len().min((range.end - at) as usize);
        {
            let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut buffer[..wanted])?;
        }
        out(&buffer[..wanted])?;
        at += wanted as u64;
    }
    Ok(())
}
