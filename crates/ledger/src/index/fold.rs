//! The one function that turns a record into index rows. Live, catching up and rebuilding all call it, so the three
//! cannot differ.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use enjamb_core::frame::RawFrame;
use enjamb_core::order::{self, Mark, MarkKey, Scope};
use enjamb_core::{ArtifactId, Digest, StreamId, StreamKind};
use foldhash::fast::RandomState;

use super::commits;
use super::db::{self, damaged};
use super::queries::{Lookup, stream_of, totals_of};
use super::rows::{self, ArtifactRow, KeyRow, Place, StreamRow, Totals};
use super::words;
use crate::record::{FrameRecord, Record, SegmentRecord};

/// Rows to write by key, `None` being one that goes.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The index with changes on top that are not written yet.
pub struct View<'c> {
    below: &'c dyn Lookup,
    changes: Changes,
    // Rows that every frame changes: of thousands they are encoded once. Until then they are asked for by `stream` and
    // `totals`, never by their keys.
    streams: HashMap<StreamId, Standing, RandomState>,
    totals: Option<Totals>,
}

/// A stream as the changes leave it.
#[derive(Clone, Copy)]
struct Standing {
    row: StreamRow,
    /// When it was written to last, below; `None` for a new stream.
    last_ms_below: Option<u64>,
}

impl<'c> View<'c> {
    pub fn new(below: &'c dyn Lookup) -> Self {
        Self { below, changes: BTreeMap::new(), streams: HashMap::default(), totals: None }
    }

    pub(super) fn put(&mut self, key: Vec<u8>, payload: Vec<u8>) {
        self.changes.insert(key, Some(payload));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.changes.insert(key, None);
    }

    /// Takes a row away if it is there.
    pub(super) fn remove(&mut self, key: Vec<u8>) -> db::Result<()> {
        if self.get(&key)?.is_some() {
            self.delete(key);
        }
        Ok(())
    }

    fn standing(&self, stream: &StreamId) -> db::Result<Option<Standing>> {
        match self.streams.get(stream) {
            Some(standing) => Ok(Some(*standing)),
            None => Ok(self.stream(stream)?.map(|row| Standing { row, last_ms_below: Some(row.last_ms) })),
        }
    }

    fn stands(&mut self, stream: &StreamId, standing: Standing) {
        match self.streams.get_mut(stream) {
            Some(before) => *before = standing,
            None => drop(self.streams.insert(stream.clone(), standing)),
        }
    }

    /// Takes over changes that were made on top of these.
    pub fn absorb(&mut self, changes: Changes) {
        self.settle();
        self.changes.extend(changes);
    }

    /// What has to be written.
    pub fn into_changes(mut self) -> Changes {
        self.settle();
        self.changes
    }

    fn settle(&mut self) {
        for (stream, Standing { row, last_ms_below }) in std::mem::take(&mut self.streams) {
            if let Some(last_ms) = last_ms_below {
                self.delete(rows::activity_key(last_ms, row.number));
            }
            self.put(rows::activity_key(row.last_ms, row.number), Vec::new());
            self.put(rows::stream_key(&stream), row.encode());
        }
        if let Some(totals) = self.totals.take() {
            self.put(rows::totals_key(), totals.encode());
        }
    }
}

impl Lookup for View<'_> {
    fn get(&self, key: &[u8]) -> db::Result<Option<Vec<u8>>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.below.get(key),
        }
    }

    fn totals(&self) -> db::Result<Totals> {
        match self.totals {
            Some(totals) => Ok(totals),
            None => totals_of(self),
        }
    }

    fn stream(&self, stream: &StreamId) -> db::Result<Option<StreamRow>> {
        match self.streams.get(stream) {
            Some(standing) => Ok(Some(standing.row)),
            None => stream_of(self, stream),
        }
    }
}

/// What a frame says, as far as the rows of every frame follow from it.
#[derive(Clone, Debug)]
pub struct Told {
    pub at_ms: u64,
    pub marks: Vec<Mark>,
}

/// A frame's record, read as far as it had to be.
struct Reading<'r> {
    n: u64,
    frame: &'r FrameRecord,
    raw: OnceCell<RawFrame>,
}

impl Reading<'_> {
    fn raw(&self) -> db::Result<&RawFrame> {
        if self.raw.get().is_none() {
            let Ok(raw) = RawFrame::parse(self.frame.json.clone()) else { return does_not_parse(self.n) };
            let _ = self.raw.set(raw);
        }
        Ok(self.raw.get().expect("it was set just above"))
    }
}

fn does_not_parse<T>(n: u64) -> db::Result<T> {
    damaged(format!("record {n} holds a frame that does not parse"))
}

/// Folds a frame that was read already, and was told to say this. The same rows as [`fold`]'s.
pub fn fold_told(view: &mut View<'_>, n: u64, frame: &FrameRecord, told: &Told) -> db::Result<()> {
    fold_frame(view, &Reading { n, frame, raw: OnceCell::new() }, told)
}

/// Folds record `n` into the view.
pub fn fold(view: &mut View<'_>, n: u64, record: &Record) -> db::Result<()> {
    match record {
        Record::Frame(frame) => {
            let Ok((raw, read)) = RawFrame::read(frame.json.clone()) else { return does_not_parse(n) };
            let told = Told { at_ms: raw.timestamp_ms(), marks: order::marks_read(&raw, &read) };
            fold_frame(view, &Reading { n, frame, raw: raw.into() }, &told)
        }
        Record::Bytes { id, bytes } => {
            let row = ArtifactRow { n, len: bytes.len() as u64, place: Place::Record };
            fold_artifact(view, id, row)
        }
        Record::Segment(segment) => fold_segment(view, n, segment),
        Record::Dropped { .. } => Ok(()),
    }
}

fn fold_frame(view: &mut View<'_>, reading: &Reading<'_>, told: &Told) -> db::Result<()> {
    let Reading { n, frame, .. } = *reading;
    let mut totals = view.totals()?;
    let mut standing = match view.standing(&frame.stream)? {
        Some(standing) => standing,
        None => Standing { row: new_stream(view, &mut totals, frame, told.at_ms), last_ms_below: None },
    };
    let row = &mut standing.row;
    row.next_seq = frame.seq + 1;
    row.chain = frame.chain.unwrap_or_else(|| frame.chain_after(&row.chain));
    row.last_ms = told.at_ms;
    row.bytes += frame.json.len() as u64;
    if told.marks.iter().any(|mark| matches!(mark.key, MarkKey::Message(_))) {
        fold_message(view, row, reading.raw()?)?;
    }
    totals.frames += 1;
    totals.frame_bytes += frame.json.len() as u64;
    view.totals = Some(totals);
    let row = *row;
    view.stands(&frame.stream, standing);
    view.put(rows::frame_key(row.number, frame.seq), rows::encode_number(n));
    if let Some(used) = &frame.key {
        let used_row = KeyRow { request: used.request, first_seq: frame.seq, frames: used.frames };
        view.put(rows::idempotency_key(row.number, &used.key), used_row.encode());
    }
    let mut commit = None;
    for mark in &told.marks {
        match &mark.key {
            // A commit's row holds its mark, so that there is one row and not two.
            MarkKey::Commit(_) => commit = Some(mark.value.as_str()),
            MarkKey::Dropped(id) => {
                drop_artifact(view, id)?;
                fold_mark(view, row.number, mark)?;
            }
            _ => fold_mark(view, row.number, mark)?,
        }
    }
    match frame.stream.kind {
        StreamKind::Context => commits::fold_context(view, n, row.number, reading.raw()?, commit),
        StreamKind::Branch => commits::fold_kept(view, n, row.number, reading.raw()?, commit),
        _ => Ok(()),
    }
}

/// A message has a number in its thread, and is found by its words.
fn fold_message(view: &mut View<'_>, row: &mut StreamRow, raw: &RawFrame) -> db::Result<()> {
    row.messages += 1;
    if row.messages.is_multiple_of(rows::ORDINAL_STEP) {
        view.put(rows::ordinal_key(row.number, row.messages), rows::encode_number(raw.seq()));
    }
    words::fold_words(view, row.number, raw)
}

fn new_stream(view: &mut View<'_>, totals: &mut Totals, frame: &FrameRecord, at_ms: u64) -> StreamRow {
    let number = totals.streams as u32;
    totals.streams += 1;
    view.put(rows::stream_name_key(number), rows::stream_name(&frame.stream));
    StreamRow { number, next_seq: 0, chain: Digest::ZERO, first_ms: at_ms, last_ms: at_ms, bytes: 0, messages: 0 }
}

/// A mark without a value is one that was unset, and has no row.
fn fold_mark(view: &mut View<'_>, own_stream: u32, mark: &Mark) -> db::Result<()> {
    let scope = match mark.scope {
        Scope::Stream(_) => Some(own_stream),
        Scope::Store => None,
    };
    let key = rows::mark_key(scope, &mark.key);
    if mark.value.is_empty() {
        return view.remove(key);
    }
    view.put(key, mark.value.clone().into_bytes());
    Ok(())
}

fn fold_segment(view: &mut View<'_>, n: u64, segment: &SegmentRecord) -> db::Result<()> {
    for (id, len) in &segment.artifacts {
        fold_artifact(view, id, ArtifactRow { n, len: *len, place: Place::Segment })?;
    }
    Ok(())
}

/// The first place where an artifact was stored stays its place.
fn fold_artifact(view: &mut View<'_>, id: &ArtifactId, row: ArtifactRow) -> db::Result<()> {
    let key = rows::artifact_key(id);
    if view.get(&key)?.is_some() {
        return Ok(());
    }
    let mut totals = view.totals()?;
    totals.artifacts += 1;
    totals.artifact_bytes += row.len;
    view.totals = Some(totals);
    view.put(key, row.encode());
    Ok(())
}

fn drop_artifact(view: &mut View<'_>, id: &ArtifactId) -> db::Result<()> {
    let key = rows::artifact_key(id);
    let Some(row) = view.artifact(id)? else { return Ok(()) };
    let mut totals = view.totals()?;
    let left = totals.artifacts.checked_sub(1).zip(totals.artifact_bytes.checked_sub(row.len));
    let Some((artifacts, artifact_bytes)) = left else { return damaged("the totals count less than there is") };
    (totals.artifacts, totals.artifact_bytes) = (artifacts, artifact_bytes);
    view.totals = Some(totals);
    view.delete(key);
    Ok(())
}
