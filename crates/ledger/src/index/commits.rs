//! Commits in the index: by id, by parent, by principal and time, and those without a summary.

use std::collections::BTreeSet;

use enjamb_core::chain::CommitKind;
use enjamb_core::frame::{Body, CommitType, ContextBody, ContextCommitted, ContextNoted, Kept, RawFrame};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, Timestamp};

use super::db::{self, damaged};
use super::fold::View;
use super::queries::{Index, Lookup, decoded};
use super::rows::{self, decode_number, encode_number, varint, varints};
use crate::record::Fields;

const COMMIT: u8 = b'C';
const CHILD: u8 = b'P';
const TIMELINE: u8 = b'R';
const NOTE: u8 = b'O';
const UNSUMMARISED: u8 = b'U';
const FORMAT_NAME: u8 = b'D';
const FORMAT_NUMBER: u8 = b'E';

/// A commit as the index knows it: enough to walk a chain. The rest is in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRow {
    /// The record of the frame that made it.
    pub n: u64,
    pub parent: Option<CommitId>,
    pub kind: CommitKind,
    /// Commits between it and the first of its chain.
    pub generation: u64,
    pub created_at: Timestamp,
    /// The first half of its mark: tells the same commit from another under the same id.
    pub payload: [u8; 8],
    pub delta: DeltaRow,
}

/// What a commit's row says of its delta: enough to find its bytes and to check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaRow {
    /// `None` when what the commit names is no artifact id.
    pub artifact: Option<ArtifactId>,
    /// The record that holds the bytes; 0 when they are in a segment of their own.
    pub n: u64,
    pub len: u64,
    /// Formats are numbered in the order in which they came.
    pub format: u32,
    pub messages: u64,
    pub tokens: u64,
}

/// An instant, the order of the stream among others, and the record.
pub type Place = (Timestamp, usize, u64);

/// Which part of timelines is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub since: Timestamp,
    pub until: Timestamp,
    pub before: Option<Place>,
}

/// The frames that said last what a commit's summary and tags are; 0 when none did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteRow {
    pub summary_n: u64,
    pub tags_n: u64,
}

impl CommitRow {
    fn encode(&self) -> Vec<u8> {
        let kind = match self.kind {
            CommitKind::Delta => 0,
            CommitKind::Compaction => 1,
            CommitKind::Snapshot => 2,
        };
        let DeltaRow { artifact, n, len, format, messages, tokens } = self.delta;
        // The delta is nearly always the record before the commit.
        let back = if n == 0 { 0 } else { self.n - n };
        let mut out = varints(&[self.n, kind * 2 + u64::from(self.parent.is_some()), self.generation]);
        out.extend(varints(&[back, len, u64::from(format), messages, tokens]));
        out.extend(self.created_at.as_micros().to_le_bytes());
        out.extend(self.payload);
        out.extend(artifact.map_or(Digest::ZERO, |id| id.digest()).as_bytes());
        out.extend(self.parent.iter().flat_map(|parent| *parent.as_bytes()));
        out
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let n = varint(&mut fields)?;
        let flags = varint(&mut fields)?;
        let generation = varint(&mut fields)?;
        let kind = match flags / 2 {
            0 => CommitKind::Delta,
            1 => CommitKind::Compaction,
            2 => CommitKind::Snapshot,
            _ => return None,
        };
        let back = varint(&mut fields)?;
        let delta_n = if back == 0 { 0 } else { n.checked_sub(back)? };
        let len = varint(&mut fields)?;
        let format = varint(&mut fields)?.try_into().ok()?;
        let (messages, tokens) = (varint(&mut fields)?, varint(&mut fields)?);
        let created_at = Timestamp::from_micros(i64::from_le_bytes(fields.array()?));
        let digest = fields.array()?;
        let named = Digest::from_slice(fields.take(Digest::LEN)?)?;
        let artifact = (named != Digest::ZERO).then(|| ArtifactId::from_digest(named));
        let parent = if flags % 2 == 1 { Some(CommitId::from_bytes(fields.array()?)) } else { None };
        let delta = DeltaRow { artifact, n: delta_n, len, format, messages, tokens };
        Some(Self { n, parent, kind, generation, created_at, payload: digest, delta })
    }
}

/// Whether this is the key of a commit's row, whose payload ends with the id of its parent if it has one.
pub fn is_commit_key(key: &[u8]) -> bool {
    key.first() == Some(&COMMIT)
}

fn commit_key(id: &[u8]) -> Vec<u8> {
    [&[COMMIT], id].concat()
}

/// Record numbers in keys have five bytes, which is a trillion of them.
fn number(n: u64) -> [u8; 5] {
    let bytes = n.to_be_bytes();
    [bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

fn parse_number(bytes: &[u8]) -> Option<u64> {
    let tail: [u8; 5] = *bytes.last_chunk()?;
    Some(tail.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

fn child_key(parent_n: u64, child_n: u64) -> Vec<u8> {
    [&[CHILD][..], &number(parent_n), &number(child_n)].concat()
}

/// Instants before 1970 sort before those after it.
fn timeline_key(stream: u32, at: Timestamp, n: u64) -> Vec<u8> {
    let micros = (at.as_micros() as u64) ^ (1 << 63);
    [&[TIMELINE][..], &stream.to_be_bytes(), &micros.to_be_bytes(), &number(n)].concat()
}

/// The instant and the record of a key of the timeline.
fn parse_timeline_key(key: &[u8]) -> Option<(Timestamp, u64)> {
    let micros = u64::from_be_bytes(*key.get(5..)?.first_chunk()?) ^ (1 << 63);
    Some((Timestamp::from_micros(micros as i64), parse_number(key)?))
}

fn note_key(id: &CommitId) -> Vec<u8> {
    [&[NOTE][..], id.as_bytes()].concat()
}

fn unsummarised_key(n: u64) -> Vec<u8> {
    [&[UNSUMMARISED][..], &number(n)].concat()
}

fn format_name_key(number: u32) -> Vec<u8> {
    [&[FORMAT_NAME][..], &number.to_be_bytes()].concat()
}

fn format_number_key(name: &str) -> Vec<u8> {
    [&[FORMAT_NUMBER], name.as_bytes()].concat()
}

/// The name of a format by its number.
pub fn format_name<L: Lookup + ?Sized>(rows: &L, number: u32) -> db::Result<String> {
    let name = rows.get(&format_name_key(number))?.and_then(|name| String::from_utf8(name).ok());
    decoded(name, "format")
}

/// The number of a format, which gets one when it has none.
fn format_number(view: &mut View<'_>, name: &str) -> db::Result<u32> {
    if let Some(number) = view.get(&format_number_key(name))? {
        return decoded(decode_number(&number).and_then(|number| number.try_into().ok()), "format");
    }
    let count = view.get(&[FORMAT_NUMBER])?.map_or(Some(0), |count| decode_number(&count));
    let number: u32 = decoded(count.and_then(|count| count.try_into().ok()), "format")?;
    view.put(vec![FORMAT_NUMBER], encode_number(u64::from(number) + 1));
    view.put(format_number_key(name), encode_number(u64::from(number)));
    view.put(format_name_key(number), name.as_bytes().to_vec());
    Ok(number)
}

/// Where a commit's delta is.
fn delta_row(view: &mut View<'_>, commit: &ContextCommitted) -> db::Result<DeltaRow> {
    let artifact: Option<ArtifactId> = commit.artifact_ref.parse().ok();
    let stored = artifact.map(|id| view.artifact(&id)).transpose()?.flatten();
    let n = stored.filter(|row| row.place == rows::Place::Record).map_or(0, |row| row.n);
    let format = format_number(view, &commit.format)?;
    let (messages, tokens) = (commit.message_count, commit.token_count);
    Ok(DeltaRow { artifact, n, len: stored.map_or(0, |row| row.len), format, messages, tokens })
}

/// The payload mark of a commit as the order rules compare it.
pub fn commit_mark<L: Lookup + ?Sized>(rows: &L, id: &CommitId) -> db::Result<Option<String>> {
    let row = commit_row(rows, id)?;
    Ok(row.map(|row| row.payload.iter().map(|byte| format!("{byte:02x}")).collect()))
}

pub fn commit_row<L: Lookup + ?Sized>(rows: &L, id: &CommitId) -> db::Result<Option<CommitRow>> {
    let payload = rows.get(&commit_key(id.as_bytes()))?;
    payload.map(|payload| decoded(CommitRow::decode(&payload), "commit")).transpose()
}

/// Folds a frame of a context stream. `mark` is the value of the commit's mark, when the frame is a commit.
pub(super) fn fold_context(
    view: &mut View<'_>,
    n: u64,
    stream: u32,
    raw: &RawFrame,
    mark: Option<&str>,
) -> db::Result<()> {
    match raw.decode().map(|frame| frame.body) {
        Ok(Body::Context(ContextBody::ContextCommitted(commit))) => fold_commit(view, n, stream, &commit, mark),
        Ok(Body::Context(ContextBody::ContextNoted(note))) => fold_note(view, n, &note),
        _ => Ok(()),
    }
}

/// Folds a frame of a branch. Of the commits that it keeps, those are found that are not here already.
pub(super) fn fold_kept(
    view: &mut View<'_>,
    n: u64,
    stream: u32,
    raw: &RawFrame,
    mark: Option<&str>,
) -> db::Result<()> {
    let Some(inner) = Kept::read(raw).and_then(|kept| kept.frame()) else { return Ok(()) };
    match inner.decode().map(|frame| frame.body) {
        Ok(Body::Context(ContextBody::ContextCommitted(commit))) => {
            let here = commit.commit_id.parse().ok().map(|id| commit_row(view, &id)).transpose()?.flatten();
            if here.is_some() { Ok(()) } else { fold_commit(view, n, stream, &commit, mark) }
        }
        _ => Ok(()),
    }
}

fn fold_commit(
    view: &mut View<'_>,
    n: u64,
    stream: u32,
    commit: &ContextCommitted,
    mark: Option<&str>,
) -> db::Result<()> {
    let Some((id, row)) = new_row(view, n, commit, mark)? else {
        return damaged(format!("record {n} holds a commit that does not parse"));
    };
    if let Some(parent) = &row.parent
        && let Some(parent) = commit_row(view, parent)?
    {
        view.put(child_key(parent.n, n), Vec::new());
    }
    view.put(timeline_key(stream, row.created_at, n), Vec::new());
    if commit.summary.as_ref().is_none_or(String::is_empty) {
        view.put(unsummarised_key(n), Vec::new());
    }
    view.put(commit_key(id.as_bytes()), row.encode());
    Ok(())
}

fn new_row(
    view: &mut View<'_>,
    n: u64,
    commit: &ContextCommitted,
    mark: Option<&str>,
) -> db::Result<Option<(CommitId, CommitRow)>> {
    let kind = match commit.commit_type {
        CommitType::Delta => CommitKind::Delta,
        CommitType::Compaction => CommitKind::Compaction,
        CommitType::Snapshot => CommitKind::Snapshot,
        CommitType::Other(_) => return Ok(None),
    };
    let parent: Option<CommitId> = match &commit.parent {
        Some(text) => match text.parse() {
            Ok(parent) => Some(parent),
            Err(_) => return Ok(None),
        },
        None => None,
    };
    let above = parent.map(|parent| commit_row(view, &parent)).transpose()?.flatten();
    let delta = delta_row(view, commit)?;
    let parsed = commit.commit_id.parse().ok().zip(commit.created_at.parse().ok()).zip(mark.and_then(parse_mark));
    Ok(parsed.map(|((id, created_at), payload)| {
        let generation = above.map_or(0, |above| above.generation + 1);
        (id, CommitRow { n, parent, kind, generation, created_at, payload, delta })
    }))
}

fn parse_mark(mark: &str) -> Option<[u8; 8]> {
    u64::from_str_radix(mark.get(..16)?, 16).ok().map(u64::to_be_bytes)
}

fn fold_note(view: &mut View<'_>, n: u64, note: &ContextNoted) -> db::Result<()> {
    let Ok(id) = note.commit_id.parse::<CommitId>() else {
        return damaged(format!("record {n} holds a note that does not parse"));
    };
    let mut row = note_row(view, &id)?;
    if let Some(summary) = &note.summary {
        row.summary_n = n;
        if let Some(commit) = commit_row(view, &id)? {
            match summary.is_empty() {
                true => view.put(unsummarised_key(commit.n), Vec::new()),
                false => view.remove(unsummarised_key(commit.n))?,
            }
        }
    }
    if note.tags.is_some() {
        row.tags_n = n;
    }
    view.put(note_key(&id), varints(&[row.summary_n, row.tags_n]));
    Ok(())
}

fn note_row<L: Lookup + ?Sized>(rows: &L, id: &CommitId) -> db::Result<NoteRow> {
    let Some(payload) = rows.get(&note_key(id))? else { return Ok(NoteRow::default()) };
    let mut fields = Fields(&payload);
    let numbers = varint(&mut fields).zip(varint(&mut fields));
    decoded(numbers.map(|(summary_n, tags_n)| NoteRow { summary_n, tags_n }), "note")
}

impl Index<'_> {
    pub fn note(&self, id: &CommitId) -> db::Result<NoteRow> {
        note_row(self, id)
    }

    /// Up to `limit` commits whose id lies in `low..=high`.
    pub fn commits(&self, low: &[u8], high: &[u8], limit: usize) -> db::Result<Vec<(CommitId, CommitRow)>> {
        let mut found = Vec::new();
        let mut to = commit_key(high);
        to.push(0);
        self.0.scan(&commit_key(low), &to, &mut |key, payload| {
            let id = decoded(key[1..].try_into().ok().map(CommitId::from_bytes), "commit")?;
            found.push((id, decoded(CommitRow::decode(payload), "commit")?));
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    /// The records of the commits whose parent is the commit of record `n`, oldest first.
    pub fn children(&self, n: u64) -> db::Result<Vec<u64>> {
        self.numbers(&child_key(n, 0), &child_key(n, u64::MAX >> 24), usize::MAX)
    }

    /// The record of the last commit of a principal at or before an instant; of several, the one stored last.
    pub fn at_or_before(&self, principal: &StreamId, at: Timestamp) -> db::Result<Option<u64>> {
        let Some(stream) = self.stream(principal)? else { return Ok(None) };
        let from = timeline_key(stream.number, Timestamp::from_micros(i64::MIN), 0);
        let mut to = timeline_key(stream.number, at, u64::MAX);
        to.push(0);
        let mut found = None;
        self.0.scan_back(&from, &to, &mut |key, _| {
            found = parse_number(key);
            Ok(false)
        })?;
        Ok(found)
    }

    /// The records of the last `limit` places in the timelines of streams, given as (order, number), latest first. Each
    /// stream is read from its end only as far as it has later places than those found before.
    pub fn timeline(&self, streams: &[(usize, u32)], bounds: &Bounds, limit: usize) -> db::Result<Vec<u64>> {
        let mut latest: BTreeSet<Place> = BTreeSet::new();
        for (order, number) in streams {
            let full = latest.first().filter(|_| latest.len() >= limit).map(|(at, ..)| *at);
            let from = timeline_key(*number, full.map_or(bounds.since, |at| at.max(bounds.since)), 0);
            let mut to = timeline_key(*number, bounds.until, u64::MAX);
            to.push(0);
            self.0.scan_back(&from, &to, &mut |key, _| {
                let (at, n) = decoded(parse_timeline_key(key), "timeline")?;
                let place = (at, *order, n);
                if bounds.before.is_none_or(|before| place < before) {
                    latest.insert(place);
                }
                if latest.len() <= limit {
                    return Ok(true);
                }
                // What is earlier in this stream is earlier than all that is kept.
                Ok(latest.pop_first() != Some(place))
            })?;
        }
        Ok(latest.into_iter().rev().map(|(.., n)| n).collect())
    }

    /// Records of commits without a summary, from record `from` on, oldest first.
    pub fn unsummarised(&self, from: u64, limit: usize) -> db::Result<Vec<u64>> {
        self.numbers(&unsummarised_key(from), &[UNSUMMARISED + 1], limit)
    }

    /// The numbers that end the keys of a range.
    fn numbers(&self, from: &[u8], to: &[u8], limit: usize) -> db::Result<Vec<u64>> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        self.0.scan(from, to, &mut |key, _| {
            found.push(decoded(parse_number(key), "commit")?);
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }
}
