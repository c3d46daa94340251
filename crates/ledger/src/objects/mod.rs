//! Segments in an object store: put, read back, read by range, taken away. It decides nothing and remembers nothing: which
//! objects there are, and what they must hold, is in the ledger.
//!
//! An object is named by the digest of its bytes and put unconditionally, so whoever loses a race wrote the same bytes.
//! Nothing depends on conditional requests, on listings or on the order in which others see a change.

mod address;
mod client;
mod http;
mod probe;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use enjamb_core::{Digest, Hasher};
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};

pub use address::ObjectsAddress;
use client::Client;
pub use probe::ConditionalPuts;

use crate::error::LedgerError;
use crate::segment::ReadAt;

/// Bytes of one request, of a long object.
const PART_BYTES: u64 = 8 << 20;
/// Times that something is done again that the client does not do again by itself: what was answered was wrong.
pub(crate) const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Why an object store did not do as it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{place} did not do as asked while {doing}: {detail}")]
pub struct ObjectsError {
    pub(crate) place: String,
    pub(crate) doing: &'static str,
    pub(crate) detail: String,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There is no such object.
    Missing,
    /// The credentials are not good for this.
    Denied,
    /// The object is other bytes than its name says.
    Wrong,
    Unavailable,
}

type Result<T> = std::result::Result<T, ObjectsError>;

/// The objects of one store.
pub struct Objects {
    address: ObjectsAddress,
    store_id: String,
    /// Made when it is first needed: most commands need none.
    client: Mutex<Option<Arc<Client>>>,
}

impl Objects {
    pub(crate) fn new(address: ObjectsAddress, store_id: &str) -> Self {
        Self { address, store_id: store_id.to_owned(), client: Mutex::default() }
    }

    pub fn address(&self) -> &ObjectsAddress {
        &self.address
    }

    /// Where the objects of this store are, for people. Stores that share an address do not share objects.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.address.place, self.store_id)
    }

    fn client(&self) -> Result<Arc<Client>> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let made = Client::new(&self.address, &self.store_id);
        let made = Arc::new(made.map_err(|detail| self.error("preparing to use it", detail, Cause::Unavailable))?);
        *client = Some(made.clone());
        Ok(made)
    }

    fn error(&self, doing: &'static str, detail: String, cause: Cause) -> ObjectsError {
        ObjectsError { place: self.shown(), doing, detail, cause }
    }

    fn failed(&self, doing: &'static str, error: &Error) -> ObjectsError {
        let cause = match error {
            Error::NotFound { .. } => Cause::Missing,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Cause::Denied,
            _ => Cause::Unavailable,
        };
        self.error(doing, brief(&error.to_string()), cause)
    }

    /// Puts a segment and reads it back. When this is well, it is there.
    pub(crate) fn put(&self, segment: &Digest, file: &File, len: u64) -> Result<()> {
        let mut tried = 0;
        loop {
            tried += 1;
            let put = self.put_once(segment, file, len);
            if let Err(error) = &put
                && error.cause == Cause::Denied
            {
                return put;
            }
            // Whatever was said of the put: what can be read back is what counts.
            match self.check(segment, len) {
                Ok(()) => return Ok(()),
                Err(error) if tried >= TRIES_MAX => return put.and(Err(error)),
                Err(_) => std::thread::sleep(PAUSE * tried),
            }
        }
    }

    fn put_once(&self, segment: &Digest, file: &File, len: u64) -> Result<()> {
        let doing = "storing a segment";
        let client = self.client()?;
        if client.directory().is_some() {
            let put = client.put_file(&file_name(segment), file, len);
            return put.map_err(|error| self.error(doing, error.to_string(), Cause::Unavailable));
        }
        let unreadable = |error: io::Error| self.error(doing, error.to_string(), Cause::Unavailable);
        let path = client.path(&file_name(segment));
        if len <= PART_BYTES {
            let bytes = part(file, 0..len).map_err(unreadable)?;
            let put = client.wait(client.store().put(&path, PutPayload::from(bytes)));
            return put.map(drop).map_err(|error| self.failed(doing, &error));
        }
        let put = client.wait(put_in_parts(client.store(), &path, file, len));
        put.map_err(|error| self.failed(doing, &error))
    }

    /// Reads a segment whole, and compares its digest.
    fn check(&self, segment: &Digest, len: u64) -> Result<()> {
        self.read_whole(segment, len, &mut |_| Ok(()))
    }

    /// Hands a segment out piece by piece. It is right only if this ends well: until then nobody may use what they got.
    pub(crate) fn read_whole(
        &self,
        segment: &Digest,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<()> {
        let doing = "reading a segment";
        let (mut hasher, mut at) = (Hasher::new(), 0);
        while at < len {
            let bytes = self.range(segment, at..len.min(at + PART_BYTES))?;
            hasher.update(&bytes);
            sink(&bytes).map_err(|error| self.error(doing, error.to_string(), Cause::Unavailable))?;
            at += bytes.len() as u64;
        }
        match hasher.finish() == *segment {
            true => Ok(()),
            false => Err(self.error(doing, format!("segment {segment} is other bytes than were put"), Cause::Wrong)),
        }
    }

    /// Bytes of a segment, exactly those that were asked for. Whether they are right, whoever asked can tell.
    pub(crate) fn range(&self, segment: &Digest, range: Range<u64>) -> Result<Vec<u8>> {
        let doing = "reading a segment";
        let client = self.client()?;
        let path = client.path(&file_name(segment));
        let mut tried = 0;
        loop {
            tried += 1;
            let asked = client.wait(client.store().get_range(&path, range.clone()));
            let error = match asked {
                Ok(bytes) if bytes.len() as u64 == range.end - range.start => return Ok(bytes.into()),
                Ok(bytes) => {
                    let detail = format!("{} bytes came instead of {}", bytes.len(), range.end - range.start);
                    self.error(doing, detail, Cause::Unavailable)
                }
                Err(error) => self.failed(doing, &error),
            };
            if tried >= TRIES_MAX || error.cause == Cause::Denied {
                return Err(error);
            }
            std::thread::sleep(PAUSE * tried);
        }
    }

    /// Whether a segment is there, by its length.
    pub(crate) fn has(&self, segment: &Digest, len: u64) -> Result<bool> {
        let client = self.client()?;
        match client.wait(client.store().head(&client.path(&file_name(segment)))) {
            Ok(meta) => Ok(meta.size == len),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("looking for a segment", &error)),
        }
    }

    /// Takes a segment away. One that is gone already is as good.
    pub(crate) fn remove(&self, segment: &Digest) -> Result<()> {
        let client = self.client()?;
        match client.wait(client.store().delete(&client.path(&file_name(segment)))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("removing a segment", &error)),
        }
    }
}

impl From<ObjectsError> for LedgerError {
    fn from(error: ObjectsError) -> Self {
        match error.cause {
            Cause::Denied => Self::Denied { path: error.place.into(), detail: error.detail },
            Cause::Missing | Cause::Wrong | Cause::Unavailable => Self::Objects(error),
        }
    }
}

/// How a segment is called, wherever it is.
pub(crate) fn file_name(segment: &Digest) -> String {
    format!("{segment}.seg")
}

fn part(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_at(range.start, &mut bytes)?;
    Ok(bytes)
}

async fn put_in_parts(store: &dyn ObjectStore, path: &ObjectPath, file: &File, len: u64) -> object_store::Result<()> {
    let mut upload = store.put_multipart(path).await?;
    let mut at = 0;
    while at < len {
        let end = len.min(at + PART_BYTES);
        let bytes = part(file, at..end).map_err(|error| Error::Generic { store: "a file", source: Box::new(error) });
        let put = match bytes {
            Ok(bytes) => upload.put_part(PutPayload::from(bytes)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = put {
            // What cannot be called off costs space until the bucket's own rules take it away.
            let _ = upload.abort().await;
            return Err(error);
        }
        at = end;
    }
    upload.complete().await.map(drop)
}

/// The first words of what a client has to say, which can be whole documents.
fn brief(detail: &str) -> String {
    let line: String = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
