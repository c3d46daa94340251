//! Typed questions to the index.

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId};

use super::commits;
use super::db::{Result, damaged};
use super::rows::{self, ArtifactRow, KeyRow, Place, StreamRow, Totals};
use super::table::Table;
use crate::Walk;

/// An index at one moment, with names for what can be asked of it.
#[derive(Clone, Copy)]
pub struct Index<'c>(pub &'c dyn Table);

/// The order in which streams are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOrder {
    /// The one written to last comes first.
    Recent,
    Name,
}

/// Look-ups by key, the same whether rows are written already or about to be.
pub trait Lookup {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    fn totals(&self) -> Result<Totals> {
        totals_of(self)
    }

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamRow>> {
        stream_of(self, stream)
    }

    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactRow>> {
        let payload = self.get(&rows::artifact_key(id))?;
        payload.map(|payload| decoded(ArtifactRow::decode(&payload), "artifact")).transpose()
    }

    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>> {
        let Some(row) = self.stream(stream)? else { return Ok(None) };
        let payload = self.get(&rows::idempotency_key(row.number, key))?;
        payload.map(|payload| decoded(KeyRow::decode(&payload), "idempotency key")).transpose()
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>> {
        if let MarkKey::Commit(id) = key {
            return commits::commit_mark(self, id);
        }
        let Some(number) = self.scope_number(scope)? else { return Ok(None) };
        let payload = self.get(&rows::mark_key(number, key))?;
        payload.map(|payload| decoded(String::from_utf8(payload).ok(), "mark")).transpose()
    }

    /// The number of the scope's stream; `None` outside when there is no such stream, inside for the whole store.
    fn scope_number(&self, scope: &Scope) -> Result<Option<Option<u32>>> {
        match scope {
            Scope::Store => Ok(Some(None)),
            Scope::Stream(stream) => Ok(self.stream(stream)?.map(|row| Some(row.number))),
        }
    }
}

pub(super) fn totals_of(rows: &(impl Lookup + ?Sized)) -> Result<Totals> {
    match rows.get(&rows::totals_key())? {
        None => Ok(Totals::default()),
        Some(payload) => decoded(Totals::decode(&payload), "totals"),
    }
}

pub(super) fn stream_of(rows: &(impl Lookup + ?Sized), stream: &StreamId) -> Result<Option<StreamRow>> {
    let payload = rows.get(&rows::stream_key(stream))?;
    payload.map(|payload| decoded(StreamRow::decode(&payload), "stream")).transpose()
}

impl Lookup for Index<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }
}

impl Index<'_> {
    /// Up to `limit` streams of a kind, or of all kinds.
    pub fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<(StreamId, StreamRow)>> {
        match order {
            _ if limit == 0 => Ok(Vec::new()),
            StreamOrder::Recent => self.recent_streams(kind, limit),
            StreamOrder::Name => self.named_streams(kind, limit),
        }
    }

    fn recent_streams(&self, kind: Option<&str>, limit: usize) -> Result<Vec<(StreamId, StreamRow)>> {
        let mut found = Vec::new();
        let (from, to) = rows::activity_bounds();
        self.0.scan_back(&from, &to, &mut |key, _| {
            let stream = self.stream_numbered(rows::parse_activity_key(key))?;
            if kind.is_none_or(|kind| stream.kind.as_str() == kind) {
                let Some(row) = self.stream(&stream)? else { return damaged(format!("stream {stream} has no row")) };
                found.push((stream, row));
            }
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    fn named_streams(&self, kind: Option<&str>, limit: usize) -> Result<Vec<(StreamId, StreamRow)>> {
        let mut found = Vec::new();
        let (from, to) = rows::stream_bounds(kind);
        self.0.scan(&from, &to, &mut |key, payload| {
            let stream = decoded(rows::parse_stream_name(&key[1..]), "stream")?;
            found.push((stream, decoded(StreamRow::decode(payload), "stream")?));
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    pub(super) fn stream_numbered(&self, number: Option<u32>) -> Result<StreamId> {
        let number = decoded(number, "activity")?;
        let name = self.0.get(&rows::stream_name_key(number))?;
        decoded(name.and_then(|name| rows::parse_stream_name(&name)), "stream name")
    }

    /// The record numbers of up to `limit` frames from `from_seq` on. The stream has no gaps, so neither has the answer.
    pub fn frames(&self, row: &StreamRow, from_seq: u64, limit: usize) -> Result<Vec<u64>> {
        let to_seq = row.next_seq.min(from_seq.saturating_add(limit as u64));
        let mut records = Vec::new();
        let (from, to) = (rows::frame_key(row.number, from_seq), rows::frame_key(row.number, to_seq));
        self.0.scan(&from, &to, &mut |key, payload| {
            let seq = from_seq + records.len() as u64;
            if key != rows::frame_key(row.number, seq) {
                return damaged(format!("stream {} has no frame row {seq}", row.number));
            }
            records.push(decoded(rows::decode_number(payload), "frame")?);
            Ok(true)
        })?;
        if records.len() as u64 != to_seq.saturating_sub(from_seq) {
            return damaged(format!("stream {} ends at frame row {}", row.number, from_seq + records.len() as u64));
        }
        Ok(records)
    }

    /// Up to `limit` artifacts whose digest lies in `low..=high`, in the order of their ids.
    pub fn artifacts(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<(ArtifactId, ArtifactRow)>> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        let mut to = rows::artifact_bound(high);
        to.push(0);
        self.0.scan(&rows::artifact_bound(low), &to, &mut |key, payload| {
            let id = decoded(rows::parse_artifact_key(key), "artifact")?;
            found.push((id, decoded(ArtifactRow::decode(payload), "artifact")?));
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    /// The records that name segments of large artifacts.
    pub fn segment_records(&self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let (from, to) = (rows::artifact_bound(&[]), rows::artifact_bound(&[0xff; 33]));
        self.0.scan(&from, &to, &mut |_, payload| {
            let row = decoded(ArtifactRow::decode(payload), "artifact")?;
            if row.place == Place::Segment {
                numbers.push(row.n);
            }
            Ok(true)
        })?;
        Ok(numbers)
    }

    /// All marks of a scope that are of the same kind as `like`, as (what each is about, value).
    pub fn marks(&self, scope: &Scope, like: &MarkKey) -> Result<Vec<(String, String)>> {
        let tag = &like.encode()[..1];
        let all = self.mark_rows(scope, tag, &[tag, &[0xff; 16]].concat(), Walk::Forward, usize::MAX)?;
        Ok(all.into_iter().map(|(key, value)| (key.about(), value)).collect())
    }

    pub fn marks_in(
        &self,
        scope: &Scope,
        from: &MarkKey,
        to: &MarkKey,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<(MarkKey, String)>> {
        self.mark_rows(scope, &from.encode(), &[to.encode().as_slice(), &[0]].concat(), walk, limit)
    }

    /// Marks of a scope with `from <= key < to`.
    fn mark_rows(
        &self,
        scope: &Scope,
        from: &[u8],
        to: &[u8],
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<(MarkKey, String)>> {
        let Some(number) = self.scope_number(scope)? else { return Ok(Vec::new()) };
        let prefix = rows::mark_prefix(number);
        let (from, to) = ([prefix.as_slice(), from].concat(), [prefix.as_slice(), to].concat());
        let mut found = Vec::new();
        if limit == 0 || from >= to {
            return Ok(found);
        }
        let mut visit = |key: &[u8], payload: &[u8]| {
            let mark = MarkKey::decode(&key[prefix.len()..]).zip(String::from_utf8(payload.to_vec()).ok());
            found.push(decoded(mark, "mark")?);
            Ok(found.len() < limit)
        };
        match walk {
            Walk::Forward => self.0.scan(&from, &to, &mut visit)?,
            Walk::Back => self.0.scan_back(&from, &to, &mut visit)?,
        }
        Ok(found)
    }

    /// The seq of a thread's message by its number: from the nearest row before it, over the marks between.
    pub fn message_numbered(&self, thread: &StreamId, ordinal: u64) -> Result<Option<u64>> {
        let Some(row) = self.stream(thread)?.filter(|row| (1..=row.messages).contains(&ordinal)) else {
            return Ok(None);
        };
        let known = ordinal / rows::ORDINAL_STEP * rows::ORDINAL_STEP;
        let after = match known {
            0 => None,
            known => {
                let payload = self.0.get(&rows::ordinal_key(row.number, known))?;
                Some(decoded(payload.and_then(|payload| rows::decode_number(&payload)), "message number")?)
            }
        };
        let Some(left) = (ordinal - known).checked_sub(1) else { return Ok(after) };
        let from = MarkKey::Message(after.map_or(0, |seq| seq + 1));
        let scope = Scope::Stream(thread.clone());
        let marks = self.marks_in(&scope, &from, &MarkKey::Message(u64::MAX), Walk::Forward, left as usize + 1)?;
        match marks.get(left as usize) {
            Some((MarkKey::Message(seq), _)) => Ok(Some(*seq)),
            _ => damaged(format!("stream {} has no message {ordinal}", row.number)),
        }
    }
}

pub(super) fn decoded<T>(row: Option<T>, table: &str) -> Result<T> {
    row.map_or_else(|| damaged(format!("a {table} row does not parse")), Ok)
}
