//! What an object store makes of conditional puts. It is told to whoever asks; nothing here depends on it.

use object_store::{Error, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use super::{Objects, ObjectsError};

/// What became of an object that was to be made only if there is none, when there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalPuts {
    /// It stayed as it was.
    Honoured,
    /// It was written over.
    Ignored,
    /// Nobody can say: the request is not known there.
    Unsupported,
}

impl Objects {
    /// Makes an object twice, and takes it away.
    pub fn probe(&self) -> Result<ConditionalPuts, ObjectsError> {
        let doing = "probing it";
        let client = self.client()?;
        let path = client.path(&format!("probe-{}", uuid::Uuid::new_v4()));
        let failed = |error: &Error| self.failed(doing, error);
        let once = client.wait(client.store().put(&path, PutPayload::from_static(b"one")));
        once.map_err(|error| failed(&error))?;
        let mode = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let twice = client.wait(client.store().put_opts(&path, PutPayload::from_static(b"two"), mode));
        let read = client.wait(async { client.store().get(&path).await?.bytes().await });
        // Left behind it would be in nobody's way.
        let _ = client.wait(client.store().delete(&path));
        let read = read.map_err(|error| failed(&error))?;
        match (twice, &read[..]) {
            (Err(Error::AlreadyExists { .. } | Error::Precondition { .. }), b"one") => Ok(ConditionalPuts::Honoured),
            (Ok(_), b"two") => Ok(ConditionalPuts::Ignored),
            (_, b"one" | b"two") => Ok(ConditionalPuts::Unsupported),
            _ => Err(self.error(doing, "what was read is not what was put".to_owned(), super::Cause::Wrong)),
        }
    }
}
