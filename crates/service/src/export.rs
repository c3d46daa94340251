//! Giving an imported file back, byte for byte.

use std::path::Path;

use enjamb_ledger::{Ledger, Sink, StreamOrder};

use crate::import::{DATABASE_FORMAT, path_text};
use crate::{Result, ServiceError, SourceState, Store};

impl Store {
    /// Every source, by path.
    pub fn sources(&self) -> Result<Vec<SourceState>> {
        let streams = self.ledger.streams(Some("source"), StreamOrder::Name, usize::MAX)?;
        let states = streams.iter().map(|summary| self.source_in(&summary.stream));
        states.filter_map(Result::transpose).collect()
    }

    /// The source that was imported from a path.
    pub fn source_at(&self, path: &Path) -> Result<SourceState> {
        let path = path_text(path);
        self.source(&path)?.ok_or(ServiceError::Unknown { what: "source", name: path })
    }

    /// The source of a session: its id, or the beginning of it.
    pub fn source_of_session(&self, session: &str) -> Result<SourceState> {
        let is_it = |state: &SourceState| state.session.as_deref().is_some_and(|id| id.starts_with(session));
        let mut found: Vec<SourceState> = self.sources()?.into_iter().filter(is_it).collect();
        if found.iter().any(|state| state.session.as_deref() == Some(session)) {
            found.retain(|state| state.session.as_deref() == Some(session));
        }
        match found.len() {
            0 => Err(ServiceError::Unknown { what: "session", name: session.to_owned() }),
            1 => Ok(found.remove(0)),
            _ => {
                let candidates = found.into_iter().map(|state| state.path).collect();
                Err(ServiceError::Ambiguous { prefix: session.to_owned(), candidates })
            }
        }
    }

    /// Writes a source as it was when it was last read, and says how many bytes that were.
    pub fn export(&self, source: &SourceState, sink: &mut Sink<'_>) -> Result<u64> {
        if source.format == DATABASE_FORMAT {
            let detail = "a database is kept session by session: name one, as in enjamb export ses_…".to_owned();
            return Err(ServiceError::BadFile { path: source.path.clone().into(), detail });
        }
        let mut bytes = 0;
        let parts = source.parts.iter().map(|part| part.artifact).chain(source.tail);
        for artifact in parts {
            self.get(&artifact, None, &mut |part| {
                bytes += part.len() as u64;
                sink(part)
            })?;
        }
        Ok(bytes)
    }
}
