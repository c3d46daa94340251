//! From a batch to the records that it becomes: the decision between the reads and the write.
//!
//! Whatever engine stores the records, this is where seqs are given, chains are linked, keys are honoured and the order
//! rules of `core::order` are asked.

use std::collections::HashMap;

use enjamb_core::frame::{Completed, Completion, Frame, FrameError, KeyUse, RawFrame};
use enjamb_core::order::{self, Mark, MarkKey, Scope};
use enjamb_core::{ArtifactId, Digest, Hasher, StreamId, StreamKind};
// Every append asks these maps some ten times; hashing as the standard library does is a twentieth of its cost.
use foldhash::fast::RandomState;

use crate::batch::{Appended, Batch, FrameAt, NewArtifact, NewFrame, RequestDigest};
use crate::error::LedgerError;
use crate::index::{KeyRow, Told};
use crate::record::{FrameRecord, Record};

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub next_seq: u64,
    pub chain: Digest,
}

/// What an engine knows of its past, as far as a decision needs it.
pub trait Facts {
    fn head(&self, stream: &StreamId) -> Result<Option<Head>, LedgerError>;
    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>, LedgerError>;
    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>, LedgerError>;
    fn has_artifact(&self, id: &ArtifactId) -> Result<bool, LedgerError>;
    /// Whether the artifact is known to be here without looking it up.
    fn has_recent_artifact(&self, _id: &ArtifactId) -> bool {
        false
    }
}

/// Facts established since some point, held in memory until the index has them.
#[derive(Debug, Default)]
pub struct Recent {
    heads: HashMap<StreamId, Head, RandomState>,
    marks: HashMap<(Scope, MarkKey), String, RandomState>,
    keys: HashMap<(StreamId, String), KeyRow, RandomState>,
    artifacts: HashMap<ArtifactId, bool, RandomState>,
}

impl Recent {
    /// Takes in what a record establishes.
    pub fn learn(&mut self, record: &Record) -> Result<(), LedgerError> {
        match record {
            Record::Frame(frame) => {
                let marks = order::marks(&RawFrame::parse(frame.json.clone())?);
                self.learn_frame(frame, frame.recorded_chain()?, marks);
            }
            Record::Bytes { id, .. } => {
                self.artifacts.insert(*id, true);
            }
            Record::Segment(segment) => self.artifacts.extend(segment.artifacts.iter().map(|(id, _)| (*id, true))),
            Record::Dropped { .. } => {}
        }
        Ok(())
    }

    fn learn_frame(&mut self, frame: &FrameRecord, chain: Digest, marks: Vec<Mark>) {
        self.heads.insert(frame.stream.clone(), Head { next_seq: frame.seq + 1, chain });
        for mark in marks {
            if let MarkKey::Dropped(id) = &mark.key {
                self.artifacts.insert(*id, false);
            }
            self.marks.insert((mark.scope, mark.key), mark.value);
        }
        if let Some(used) = &frame.key {
            let row = KeyRow { request: used.request, first_seq: frame.seq, frames: used.frames };
            self.keys.insert((frame.stream.clone(), used.key.clone()), row);
        }
    }

    /// Takes over all that `newer` knows and leaves it empty, with its room kept for the next.
    pub fn absorb(&mut self, newer: &mut Self) {
        self.heads.extend(newer.heads.drain());
        self.marks.extend(newer.marks.drain());
        self.keys.extend(newer.keys.drain());
        self.artifacts.extend(newer.artifacts.drain());
    }

    /// Forgets everything, with its room kept.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.marks.clear();
        self.keys.clear();
        self.artifacts.clear();
    }

    pub fn len(&self) -> usize {
        self.heads.len() + self.marks.len() + self.keys.len() + self.artifacts.len()
    }
}

/// Newer facts over older ones.
pub struct Layered<'a> {
    pub newer: &'a Recent,
    pub older: &'a dyn Facts,
}

impl Facts for Layered<'_> {
    fn head(&self, stream: &StreamId) -> Result<Option<Head>, LedgerError> {
        match self.newer.heads.get(stream) {
            Some(head) => Ok(Some(*head)),
            None => self.older.head(stream),
        }
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>, LedgerError> {
        match self.newer.marks.get(&(scope.clone(), key.clone())) {
            Some(value) => Ok(Some(value.clone())),
            None => self.older.mark(scope, key),
        }
    }

    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>, LedgerError> {
        match self.newer.keys.get(&(stream.clone(), key.to_owned())) {
            Some(row) => Ok(Some(*row)),
            None => self.older.key(stream, key),
        }
    }

    fn has_artifact(&self, id: &ArtifactId) -> Result<bool, LedgerError> {
        match self.newer.artifacts.get(id) {
            Some(present) => Ok(*present),
            None => self.older.has_artifact(id),
        }
    }

    fn has_recent_artifact(&self, id: &ArtifactId) -> bool {
        match self.newer.artifacts.get(id) {
            Some(present) => *present,
            None => self.older.has_recent_artifact(id),
        }
    }
}

/// The records that a batch becomes, and the answer to give once they are durable.
pub struct Planned {
    pub records: Vec<Record>,
    /// What each of the frames among them says, for whoever folds them at once. `None` where that follows from what else
    /// is here, and not from the frame alone.
    pub told: Vec<Option<Told>>,
    pub answer: Appended,
}

/// Decides what a batch becomes. Nothing is written here. What the records establish goes into `learned`, which is
/// empty before, and means nothing after a refusal.
pub fn plan(batch: Batch, learned: &mut Recent, facts: &dyn Facts) -> Result<Planned, LedgerError> {
    if let Some(answer) = replayed(&batch, facts)? {
        return Ok(Planned { records: Vec::new(), told: Vec::new(), answer });
    }
    let mut keys = key_uses(&batch);
    let mut planned = Planned {
        records: Vec::with_capacity(batch.artifacts.len() + batch.segments.len() + batch.frames.len()),
        told: Vec::with_capacity(batch.frames.len()),
        answer: Appended { frames: Vec::with_capacity(batch.frames.len()), replayed: false },
    };
    for artifact in batch.artifacts {
        plan_artifact(&mut planned, learned, artifact, facts)?;
    }
    for segment in batch.segments {
        let record = Record::Segment(segment);
        learned.learn(&record)?;
        planned.records.push(record);
    }
    let mut former = batch.former_keys;
    for (at, frame) in batch.frames.into_iter().enumerate() {
        let key = if keys.is_empty() { former.remove(&at) } else { keys.remove(&frame.stream) };
        plan_frame(&mut planned, learned, frame, key, facts)?;
    }
    Ok(planned)
}

/// Asks all that planning a batch asks, whatever the answers are. Who looks facts up in advance learns which they are:
/// planning ends at the first refusal, and would tell of one at a time.
pub fn survey(batch: Batch, facts: &dyn Facts) {
    let mut learned = Recent::default();
    for artifact in &batch.artifacts {
        let _ = facts.has_artifact(&artifact.id);
    }
    for frame in batch.frames {
        let seq = frame.expected_seq.or(frame.draft.seq()).unwrap_or_default();
        let asked = Completion { stream: &frame.stream, id: &frame.id, seq, timestamp_ms: frame.timestamp_ms };
        // What cannot be a frame is refused for that.
        let Ok(Completed { raw, frame: read, digest }) = frame.draft.complete(asked) else { continue };
        let _ = admit_read(&raw, read, digest, &Layered { newer: &learned, older: facts });
        let marks = order::marks(&raw).into_iter().map(|mark| ((mark.scope, mark.key), mark.value));
        learned.marks.extend(marks);
    }
}

fn plan_artifact(
    planned: &mut Planned,
    learned: &mut Recent,
    artifact: NewArtifact,
    facts: &dyn Facts,
) -> Result<(), LedgerError> {
    let known = Layered { newer: learned, older: facts };
    match artifact.bytes {
        None if known.has_artifact(&artifact.id)? => Ok(()),
        None => Err(LedgerError::ArtifactGone(artifact.id)),
        // Bytes that are here already may be stored once more: asking the index costs every writer more than that
        // costs, and sealing leaves the second copy out.
        Some(_) if known.has_recent_artifact(&artifact.id) => Ok(()),
        Some(bytes) => {
            learned.artifacts.insert(artifact.id, true);
            planned.records.push(Record::Bytes { id: artifact.id, bytes });
            Ok(())
        }
    }
}

fn plan_frame(
    planned: &mut Planned,
    learned: &mut Recent,
    frame: NewFrame,
    key: Option<KeyUse>,
    facts: &dyn Facts,
) -> Result<(), LedgerError> {
    let known = Layered { newer: learned, older: facts };
    let head = known.head(&frame.stream)?.unwrap_or(Head { next_seq: 0, chain: Digest::ZERO });
    check_seq(&frame, head.next_seq)?;
    let Completed { raw, frame: read, digest } = frame.draft.complete(Completion {
        stream: &frame.stream,
        id: &frame.id,
        seq: head.next_seq,
        timestamp_ms: frame.timestamp_ms,
    })?;
    let marks = admit_read(&raw, read, digest, &known)?;
    // Whether a kept frame leaves a commit's mark depends on whether the commit is here.
    let follows = frame.stream.kind != StreamKind::Branch;
    planned.told.push(follows.then(|| Told { at_ms: raw.timestamp_ms(), marks: marks.clone() }));
    let json = raw.into_bytes();
    let record = FrameRecord::chained(&head.chain, frame.stream.clone(), head.next_seq, key, json);
    learned.learn_frame(&record, record.recorded_chain()?, marks);
    planned.records.push(Record::Frame(record));
    planned.answer.frames.push(FrameAt { stream: frame.stream, seq: head.next_seq });
    Ok(())
}

fn check_seq(frame: &NewFrame, next_seq: u64) -> Result<(), LedgerError> {
    match frame.expected_seq.or(frame.draft.seq()) {
        Some(expected) if expected != next_seq => {
            Err(LedgerError::SeqConflict { stream: frame.stream.clone(), expected, actual: next_seq })
        }
        _ => Ok(()),
    }
}

/// Asks the order rules, which cannot fail to read: a failed look-up is remembered and wins over what they say.
pub fn admit(raw: &RawFrame, known: &dyn Facts) -> Result<Vec<Mark>, LedgerError> {
    admit_read(raw, raw.decode(), None, known)
}

fn admit_read(
    raw: &RawFrame,
    read: Result<Frame, FrameError>,
    digest: Option<String>,
    known: &dyn Facts,
) -> Result<Vec<Mark>, LedgerError> {
    let mut failed = None;
    let verdict = order::admit_read(raw, read, digest, &mut |scope, key| match look_up(known, scope, key) {
        Ok(value) => value,
        Err(error) => {
            failed.get_or_insert(error);
            None
        }
    });
    match failed {
        Some(error) => Err(error),
        None => verdict.map_err(|refusal| Box::new(refusal).into()),
    }
}

/// A mark without a value is one that was unset; a dropped artifact whose bytes have come again is not dropped any more.
fn look_up(known: &dyn Facts, scope: &Scope, key: &MarkKey) -> Result<Option<String>, LedgerError> {
    if let MarkKey::Dropped(id) = key
        && known.has_artifact(id)?
    {
        return Ok(None);
    }
    Ok(known.mark(scope, key)?.filter(|value| !value.is_empty()))
}

/// The answer of an earlier request with the same key, if there was one.
fn replayed(batch: &Batch, facts: &dyn Facts) -> Result<Option<Appended>, LedgerError> {
    let Some((key, first)) = batch.idempotency_key.as_ref().zip(batch.frames.first()) else { return Ok(None) };
    let request = request_digest(batch);
    // The next frame of the request in each of its streams: what a batch has in one, it has without gaps.
    let mut next_seqs: HashMap<&StreamId, Option<u64>> = HashMap::new();
    for stream in batch.frames.iter().map(|frame| &frame.stream) {
        if next_seqs.contains_key(stream) {
            continue;
        }
        let row = facts.key(stream, key)?;
        if let Some(row) = row.filter(|row| row.request != request) {
            return Err(LedgerError::KeyReused { stream: stream.clone(), key: key.clone(), seq: row.first_seq });
        }
        next_seqs.insert(stream, row.map(|row| row.first_seq));
    }
    if next_seqs.get(&first.stream).is_none_or(Option::is_none) {
        return Ok(None);
    }
    let mut frames = Vec::with_capacity(batch.frames.len());
    for stream in batch.frames.iter().map(|frame| &frame.stream) {
        // A stream without the key was written when only the first one had it: where its frames are is not known.
        if let Some(Some(seq)) = next_seqs.get_mut(stream) {
            frames.push(FrameAt { stream: stream.clone(), seq: *seq });
            *seq += 1;
        }
    }
    Ok(Some(Appended { frames, replayed: true }))
}

/// What the first frame of a batch in each stream says of its key.
fn key_uses(batch: &Batch) -> HashMap<StreamId, KeyUse> {
    let mut uses: HashMap<StreamId, KeyUse> = HashMap::new();
    let Some(key) = &batch.idempotency_key else { return uses };
    let request = request_digest(batch);
    for frame in &batch.frames {
        let used = uses.entry(frame.stream.clone());
        used.or_insert_with(|| KeyUse { key: key.clone(), request, frames: 0 }).frames += 1;
    }
    uses
}

/// Tells one request from another. What the store fills in (ids, times) is left out: a retry has others.
fn request_digest(batch: &Batch) -> RequestDigest {
    if let Some(request) = batch.request {
        return request;
    }
    let mut hasher = Hasher::new();
    for artifact in &batch.artifacts {
        hasher.update(artifact.id.digest().as_bytes());
    }
    for frame in &batch.frames {
        let name = frame.stream.to_string();
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        let draft = frame.draft.bytes();
        hasher.update(&(draft.len() as u64).to_le_bytes()).update(draft);
    }
    let digest = hasher.finish();
    let mut half = [0; 16];
    half.copy_from_slice(&digest.as_bytes()[..16]);
    half
}
