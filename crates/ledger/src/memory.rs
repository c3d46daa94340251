//! The model: everything in plain vectors, every answer by walking all of them. Slow, and too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::frame::{Body, CommitType, ContextBody, ContextCommitted, Kept, RawFrame};
use enjamb_core::lexicon::Postings;
use enjamb_core::order::{self, MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, StreamId, Timestamp};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;
use crate::index::{KeyRow, StreamOrder, Totals, words_of};
use crate::plan::{Facts, Head, Recent, plan};
use crate::record::{FrameRecord, Record};
use crate::{
    ArtifactSummary, Ledger, Link, Part, PartSink, Present, Result, Sink, StoredCommit, StoredFrame, StreamSummary,
    Walk, clip,
};

/// A ledger that forgets everything when it is dropped.
#[derive(Default)]
pub struct MemoryLedger(Mutex<Records>);

#[derive(Default)]
struct Records(Vec<Record>);

impl Records {
    fn frames(&self) -> impl DoubleEndedIterator<Item = (usize, &FrameRecord)> {
        self.0.iter().enumerate().filter_map(|(at, record)| match record {
            Record::Frame(frame) => Some((at, frame)),
            _ => None,
        })
    }

    fn stream(&self, stream: &StreamId) -> Vec<&FrameRecord> {
        self.frames().map(|(_, frame)| frame).filter(|frame| frame.stream == *stream).collect()
    }

    /// Every mark that holds, each with the value set last.
    fn marks(&self) -> BTreeMap<(Option<StreamId>, Vec<u8>), String> {
        let marks = self.frames().flat_map(|(_, frame)| order::marks(&parsed(frame)));
        let mut all: BTreeMap<_, String> = BTreeMap::new();
        for mark in marks {
            let is_commit = matches!(mark.key, MarkKey::Commit(_));
            let value = all.entry((scope_stream(mark.scope), mark.key.encode())).or_default();
            // A commit that a branch has as well stays what it was first.
            if !is_commit || value.is_empty() {
                *value = mark.value;
            }
        }
        all.retain(|_, value| !value.is_empty());
        all
    }

    /// What is stored: bytes by id, without what was dropped after it was stored last.
    fn artifacts(&self) -> BTreeMap<ArtifactId, &[u8]> {
        let mut artifacts = BTreeMap::new();
        for record in &self.0 {
            match record {
                Record::Bytes { id, bytes } => drop(artifacts.entry(*id).or_insert(bytes.as_slice())),
                Record::Frame(frame) => artifacts.retain(|id, _| !drops(frame, id)),
                Record::Segment(_) | Record::Dropped { .. } => {}
            }
        }
        artifacts
    }

    /// Every commit in the order in which they were stored, with the words said of it last.
    fn commits(&self) -> Vec<StoredCommit> {
        let mut commits: Vec<StoredCommit> = Vec::new();
        for (_, frame) in self.frames() {
            let kept = Kept::read(&parsed(frame)).and_then(|kept| kept.frame());
            let is_kept = kept.is_some();
            match kept.unwrap_or_else(|| parsed(frame)).decode().map(|frame| frame.body) {
                Ok(Body::Context(ContextBody::ContextCommitted(commit))) => {
                    if commits.iter().any(|other| other.commit.commit_id == commit.commit_id) {
                        continue;
                    }
                    let parent: Option<CommitId> = commit.parent.as_ref().and_then(|parent| parent.parse().ok());
                    let above = commits.iter().find(|other| Some(other.link.id) == parent);
                    let generation = above.map_or(0, |above| above.link.generation + 1);
                    commits.push(stored_commit(frame, commit, parent, generation));
                }
                Ok(Body::Context(ContextBody::ContextNoted(note))) if !is_kept => {
                    commits.iter_mut().filter(|commit| commit.commit.commit_id == note.commit_id).for_each(|commit| {
                        if let Some(summary) = &note.summary {
                            commit.summary = Some(summary.clone()).filter(|summary| !summary.is_empty());
                        }
                        if let Some(tags) = &note.tags {
                            commit.tags = tags.clone();
                        }
                    });
                }
                _ => {}
            }
        }
        commits
    }

    fn summary(&self, stream: &StreamId) -> Option<StreamSummary> {
        let frames = self.stream(stream);
        let (first, last) = (frames.first()?, frames.last()?);
        Some(StreamSummary {
            stream: stream.clone(),
            next_seq: frames.len() as u64,
            chain: last.chain?,
            first_ms: parsed(first).timestamp_ms(),
            last_ms: parsed(last).timestamp_ms(),
            bytes: frames.iter().map(|frame| frame.json.len() as u64).sum(),
            messages: self.messages(stream).len() as u64,
        })
    }

    /// The seqs of a thread's messages.
    fn messages(&self, thread: &StreamId) -> Vec<u64> {
        let is_message = |frame: &&FrameRecord| parsed(frame).type_name() == "continuity_message_appended";
        self.stream(thread).into_iter().filter(is_message).map(|frame| frame.seq).collect()
    }

    /// All streams in the order of their first frames.
    fn streams(&self) -> Vec<StreamSummary> {
        let firsts = self.frames().filter(|(_, frame)| frame.seq == 0);
        firsts.filter_map(|(_, frame)| self.summary(&frame.stream)).collect()
    }
}

fn parsed(frame: &FrameRecord) -> RawFrame {
    RawFrame::parse(frame.json.clone()).expect("a stored frame was parsed when it was appended")
}

/// The id of the commit that a frame of a principal's stream makes.
fn commit_in(frame: &FrameRecord) -> Option<String> {
    match parsed(frame).decode().ok()?.body {
        Body::Context(ContextBody::ContextCommitted(commit)) => Some(commit.commit_id),
        _ => None,
    }
}

fn stored_commit(
    frame: &FrameRecord,
    commit: ContextCommitted,
    parent: Option<CommitId>,
    generation: u64,
) -> StoredCommit {
    let kind = match commit.commit_type {
        CommitType::Compaction => CommitKind::Compaction,
        CommitType::Snapshot => CommitKind::Snapshot,
        CommitType::Delta | CommitType::Other(_) => CommitKind::Delta,
    };
    let admitted = "a stored commit was checked when it was appended";
    let (id, created_at) = (commit.commit_id.parse().expect(admitted), commit.created_at.parse().expect(admitted));
    let (stream, seq) = frame.told_in();
    StoredCommit {
        link: Link { id, parent, kind, generation, created_at },
        stream,
        seq,
        summary: commit.summary.clone().filter(|summary| !summary.is_empty()),
        commit,
        tags: Vec::new(),
    }
}

fn drops(frame: &FrameRecord, id: &ArtifactId) -> bool {
    order::marks(&parsed(frame)).iter().any(|mark| mark.key == MarkKey::Dropped(*id))
}

fn scope_stream(scope: Scope) -> Option<StreamId> {
    match scope {
        Scope::Stream(stream) => Some(stream),
        Scope::Store => None,
    }
}

impl Facts for Records {
    fn head(&self, stream: &StreamId) -> Result<Option<Head>> {
        let last = self.stream(stream).last().copied();
        last.map(|frame| Ok(Head { next_seq: frame.seq + 1, chain: frame.recorded_chain()? })).transpose()
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>> {
        Ok(self.marks().remove(&(scope_stream(scope.clone()), key.encode())))
    }

    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>> {
        let used = self.stream(stream).into_iter().find_map(|frame| {
            let used = frame.key.as_ref().filter(|used| used.key == key)?;
            Some(KeyRow { request: used.request, first_seq: frame.seq, frames: used.frames })
        });
        Ok(used)
    }

    fn has_artifact(&self, id: &ArtifactId) -> Result<bool> {
        Ok(self.artifacts().contains_key(id))
    }
}

impl MemoryLedger {
    pub fn new() -> Self {
        Self::default()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, batch: Batch) -> Result<Appended> {
        batch.check()?;
        let mut records = self.records();
        let planned = plan(batch, &mut Recent::default(), &*records)?;
        records.0.extend(planned.records);
        Ok(planned.answer)
    }

    fn totals(&self) -> Result<Totals> {
        let records = self.records();
        let artifacts = records.artifacts();
        Ok(Totals {
            streams: records.streams().len() as u64,
            frames: records.frames().count() as u64,
            frame_bytes: records.frames().map(|(_, frame)| frame.json.len() as u64).sum(),
            artifacts: artifacts.len() as u64,
            artifact_bytes: artifacts.values().map(|bytes| bytes.len() as u64).sum(),
        })
    }

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamSummary>> {
        Ok(self.records().summary(stream))
    }

    fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<StreamSummary>> {
        let mut streams = self.records().streams();
        streams.retain(|summary| kind.is_none_or(|kind| summary.stream.kind.as_str() == kind));
        match order {
            // Of two that are equally recent, the one that began later comes first.
            StreamOrder::Recent => {
                streams.reverse();
                streams.sort_by_key(|summary| std::cmp::Reverse(summary.last_ms));
            }
            StreamOrder::Name => streams.sort_by_key(|summary| name(&summary.stream)),
        }
        streams.truncate(limit);
        Ok(streams)
    }

    fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Result<Vec<StoredFrame>> {
        let records = self.records();
        let frames = records.stream(stream).into_iter().filter(|frame| frame.seq >= from_seq).take(limit);
        frames
            .map(|frame| {
                let (chain, key, json) = (frame.recorded_chain()?, frame.key.clone(), frame.json.clone());
                Ok(StoredFrame { seq: frame.seq, chain, key, json })
            })
            .collect()
    }

    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactSummary>> {
        let records = self.records();
        let found = records.artifacts().get(id).map(|bytes| ArtifactSummary { id: *id, len: bytes.len() as u64 });
        Ok(found)
    }

    fn artifacts(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<ArtifactSummary>> {
        let records = self.records();
        let within = |id: &ArtifactId| (low..=high).contains(&id.digest().as_bytes().as_slice());
        let artifacts = records.artifacts();
        let found = artifacts.iter().filter(|(id, _)| within(id)).take(limit);
        Ok(found.map(|(id, bytes)| ArtifactSummary { id: *id, len: bytes.len() as u64 }).collect())
    }

    fn read(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()> {
        let records = self.records();
        let artifacts = records.artifacts();
        let bytes = artifacts.get(id).ok_or(LedgerError::NoArtifact(*id))?;
        let range = clip(id, bytes.len() as u64, range)?;
        sink(&bytes[range.start as usize..range.end as usize]).map_err(LedgerError::Output)
    }

    fn present(&self, commits: &[CommitId], artifacts: &[ArtifactId]) -> Result<Present> {
        let commit = |id: &CommitId| Ok(Ledger::mark(self, &Scope::Store, &MarkKey::Commit(*id))?.is_some());
        let artifact = |id: &ArtifactId| Ok(self.artifact(id)?.is_some());
        let commits = commits.iter().map(commit).collect::<Result<_>>()?;
        Ok(Present { commits, artifacts: artifacts.iter().map(artifact).collect::<Result<_>>()? })
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>> {
        Facts::mark(&*self.records(), scope, key)
    }

    fn marks(&self, scope: &Scope, like: &MarkKey) -> Result<Vec<(String, String)>> {
        let (scope, tag) = (scope_stream(scope.clone()), like.encode()[0]);
        let marks = self.records().marks().into_iter();
        let own = marks.filter(|((of, key), _)| *of == scope && key[0] == tag);
        Ok(own.filter_map(|((_, key), value)| Some((MarkKey::decode(&key)?.about(), value))).collect())
    }

    fn marks_in(
        &self,
        scope: &Scope,
        from: &MarkKey,
        to: &MarkKey,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<(MarkKey, String)>> {
        let (scope, keys) = (scope_stream(scope.clone()), from.encode()..=to.encode());
        let marks = self.records().marks().into_iter();
        let own = marks.filter(|((of, key), _)| *of == scope && keys.contains(key));
        let mut own: Vec<_> = own.filter_map(|((_, key), value)| Some((MarkKey::decode(&key)?, value))).collect();
        if walk == Walk::Back {
            own.reverse();
        }
        own.truncate(limit);
        Ok(own)
    }

    fn message_numbered(&self, thread: &StreamId, ordinal: u64) -> Result<Option<u64>> {
        let at = ordinal.checked_sub(1).map(|at| at as usize);
        Ok(at.and_then(|at| self.records().messages(thread).get(at).copied()))
    }

    fn postings(&self, thread: &StreamId, word: &str, upto_seq: u64, limit: usize) -> Result<Postings> {
        let records = self.records();
        let frames = records.stream(thread).into_iter().rev().filter(|frame| frame.seq <= upto_seq);
        let found = frames.filter_map(|frame| {
            let words = words_of(&parsed(frame));
            words.into_iter().find(|(own, _)| own == word).map(|(_, count)| (frame.seq, count))
        });
        Ok(found.take(limit).collect())
    }

    fn words(&self, prefix: &str) -> Result<Vec<(String, StreamId)>> {
        let records = self.records();
        let all = records
            .frames()
            .flat_map(|(_, frame)| words_of(&parsed(frame)).into_iter().map(|(word, _)| (word, frame.stream.clone())));
        let found: BTreeSet<_> = all.filter(|(word, _)| word.starts_with(prefix)).collect();
        Ok(found.into_iter().collect())
    }

    fn commit(&self, id: &CommitId) -> Result<Option<StoredCommit>> {
        let found = self.records().commits().into_iter().find(|commit| commit.link.id == *id);
        Ok(found)
    }

    fn commits(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<CommitId>> {
        let mut ids: Vec<_> = self.records().commits().iter().map(|commit| commit.link.id).collect();
        ids.retain(|id| (low..=high).contains(&id.as_bytes().as_slice()));
        ids.sort();
        ids.truncate(limit);
        Ok(ids)
    }

    fn walk(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Link>>> {
        let commits = self.records().commits();
        let mut chain: Vec<Link> = Vec::new();
        let mut next = Some(*tip);
        while let Some(id) = next.filter(|_| chain.len() < limit) {
            let Some(commit) = commits.iter().find(|commit| commit.link.id == id) else { return Ok(None) };
            chain.push(commit.link);
            next = commit.link.parent.filter(|_| !stop.ends_at(&id, commit.link.kind));
        }
        Ok(Some(chain))
    }

    fn parts(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Part>>> {
        let Some(chain) = self.walk(tip, stop, limit)? else { return Ok(None) };
        let commits = self.records().commits();
        let part = |link: Link| {
            let commit = commits.iter().find(|commit| commit.link.id == link.id)?;
            let artifact = commit.commit.artifact_ref.parse().ok();
            let len = artifact.and_then(|id| self.artifact(&id).ok()?).map_or(0, |found| found.len);
            let ContextCommitted { message_count: messages, token_count: tokens, .. } = commit.commit;
            Some(Part { link, artifact, format: commit.commit.format.as_str().into(), messages, tokens, len, place: 0 })
        };
        Ok(Some(chain.into_iter().filter_map(part).collect()))
    }

    fn read_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        for (at, part) in parts.iter().enumerate() {
            self.read(&part.named()?, None, &mut |bytes| sink(at, bytes))?;
        }
        Ok(())
    }

    fn children(&self, id: &CommitId) -> Result<Vec<CommitId>> {
        let commits = self.records().commits();
        Ok(commits.iter().filter(|commit| commit.link.parent == Some(*id)).map(|commit| commit.link.id).collect())
    }

    fn commit_at(&self, principal: &StreamId, at: Timestamp) -> Result<Option<CommitId>> {
        let records = self.records();
        // What others committed in the principal's name is in a branch, and not in its stream.
        let own: BTreeSet<_> = records.stream(principal).into_iter().filter_map(commit_in).collect();
        let is_own = |commit: &StoredCommit| own.contains(&commit.commit.commit_id);
        let commits = records.commits();
        let of_principal = commits.iter().filter(|commit| is_own(commit) && commit.link.created_at <= at);
        // `max_by_key` keeps the last of several that are equal.
        Ok(of_principal.max_by_key(|commit| commit.link.created_at).map(|commit| commit.link.id))
    }

    fn unsummarised(&self, after: Option<&CommitId>, limit: usize) -> Result<Vec<CommitId>> {
        let commits = self.records().commits();
        let from = match after {
            None => 0,
            Some(id) => commits.iter().position(|commit| commit.link.id == *id).map_or(commits.len(), |at| at + 1),
        };
        let later = commits[from..].iter().filter(|commit| commit.summary.is_none());
        Ok(later.map(|commit| commit.link.id).take(limit).collect())
    }

    fn each_frame(&self, from: u64, visit: &mut dyn FnMut(u64, &FrameRecord) -> Result<bool>) -> Result<()> {
        let records = self.records();
        for (at, frame) in records.frames() {
            let n = at as u64 + 1;
            if n >= from && !visit(n, frame)? {
                break;
            }
        }
        Ok(())
    }

    fn position(&self) -> Result<u64> {
        Ok(self.records().0.len() as u64)
    }
}

fn name(stream: &StreamId) -> (String, String) {
    (stream.kind.as_str().to_owned(), stream.id.clone())
}
