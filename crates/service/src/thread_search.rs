//! Looking over all threads at once: what was said, which files were touched, and how threads hang together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use enjamb_core::frame::{Body, ContinuityBody, Frame};
use enjamb_core::lexicon::terms;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{StreamId, StreamKind};
use enjamb_ledger::{Ledger, Walk};

use crate::timeline::in_stream;
use crate::{Result, Store, ThreadError};

/// What to look for.
#[derive(Clone, Debug)]
pub enum ThreadQuery {
    /// Messages that hold every one of these words, or longer ones that begin so, whatever their case.
    Text(String),
    /// Side effects on a path, or on something below it.
    File(String),
}

/// A frame that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadHit {
    pub thread: String,
    pub seq: u64,
    pub at_ms: u64,
    pub actor_id: String,
    /// The message, or the tool.
    pub id: String,
    /// What fits of it.
    pub text: String,
}

/// Where a hit is among all: the last comes first, and of several at one instant those of one thread stay together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HitPlace {
    pub at_ms: Reverse<u64>,
    pub thread: String,
    pub seq: Reverse<u64>,
}

impl HitPlace {
    pub fn of(hit: &ThreadHit) -> Self {
        Self { at_ms: Reverse(hit.at_ms), thread: hit.thread.clone(), seq: Reverse(hit.seq) }
    }
}

/// A link between two threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEdge {
    /// `branch`, `handoff` or `reference`.
    pub kind: &'static str,
    /// The thread that goes on, or refers.
    pub from: String,
    /// The thread gone on from, or referred to.
    pub to: String,
    pub to_seq: Option<u64>,
}

/// Where something may be, thread by thread: the seqs of frames.
type Places = BTreeMap<StreamId, BTreeSet<u64>>;

impl Store {
    /// Frames of threads that fit, the last first, at most `limit`, and those after a place if one is given. Only frames
    /// that the index points to are read, and of each thread no more than are shown.
    pub fn search_threads(
        &self,
        query: &ThreadQuery,
        after: Option<&HitPlace>,
        limit: usize,
    ) -> Result<Vec<ThreadHit>> {
        let (wanted, places) = match query {
            ThreadQuery::Text(text) => (Wanted::words(text), self.places_of_words(text)?),
            ThreadQuery::File(path) => {
                let path = path.trim_end_matches('/');
                (Wanted::Path(path.to_owned()), self.places_of_path(path)?)
            }
        };
        let mut hits = Vec::new();
        for (thread, seqs) in places {
            let mut found = 0;
            for seq in seqs.into_iter().rev() {
                if found == limit {
                    break;
                }
                let hit = wanted.hit(&self.frame_at(&thread, seq)?);
                let hit = hit.filter(|hit| after.is_none_or(|after| HitPlace::of(hit) > *after));
                found += usize::from(hit.is_some());
                hits.extend(hit);
            }
        }
        hits.sort_by_cached_key(HitPlace::of);
        hits.truncate(limit);
        Ok(hits)
    }

    /// The messages in which words come that begin like each one asked for.
    fn places_of_words(&self, text: &str) -> Result<Places> {
        let mut all: Option<Places> = None;
        for (word, _) in terms(text) {
            let mut places = Places::new();
            for (like, thread) in self.ledger.words(&word)? {
                // Where an earlier word does not come, nothing is to be found.
                if all.as_ref().is_none_or(|all| all.contains_key(&thread)) {
                    let postings = self.ledger.postings(&thread, &like, u64::MAX, usize::MAX)?;
                    places.entry(thread).or_default().extend(postings.into_iter().map(|(seq, _)| seq));
                }
            }
            all = Some(match all {
                Some(all) => both(&all, &places),
                None => places,
            });
        }
        let nothing = || ThreadError::NoSearchWord { text: text.to_owned() };
        Ok(all.ok_or_else(nothing)?)
    }

    /// The frames at which tools touched a path, or something below it.
    fn places_of_path(&self, path: &str) -> Result<Places> {
        let touched = |path: String, thread: &str, seq| MarkKey::Touched { path, thread: thread.to_owned(), seq };
        let last_name = char::MAX.to_string();
        // `0` is what follows `/`.
        let at = (touched(path.to_owned(), "", 0), touched(path.to_owned(), &last_name, u64::MAX));
        let below = (touched(format!("{path}/"), "", 0), touched(format!("{path}0"), "", 0));
        let mut places = Places::new();
        for (from, to) in [at, below] {
            for (key, _) in self.ledger.marks_in(&Scope::Store, &from, &to, Walk::Forward, usize::MAX)? {
                if let MarkKey::Touched { thread, seq, .. } = key {
                    places.entry(StreamId::new(StreamKind::Continuity, thread)?).or_default().insert(seq);
                }
            }
        }
        Ok(places)
    }

    /// Every link between threads, by the thread that goes on or refers. No frame is read that is not a link.
    pub fn thread_edges(&self) -> Result<Vec<ThreadEdge>> {
        let mut edges = Vec::new();
        for summary in self.all_threads()? {
            let thread = &summary.stream;
            for (seq, _) in self.ledger.marks(&in_stream(thread), &MarkKey::Link(0))? {
                let Ok(seq) = seq.parse() else { continue };
                edges.extend(edge(thread.id.clone(), self.said_at(thread, seq)?));
            }
        }
        Ok(edges)
    }
}

fn both(one: &Places, other: &Places) -> Places {
    let common = other.iter().filter_map(|(thread, seqs)| {
        let seqs: BTreeSet<u64> = seqs.intersection(one.get(thread)?).copied().collect();
        (!seqs.is_empty()).then(|| (thread.clone(), seqs))
    });
    common.collect()
}

/// What a frame that the index points to has to be. The index knows words; what was asked for may have signs in it.
enum Wanted {
    Words(Vec<String>),
    Path(String),
}

impl Wanted {
    fn words(text: &str) -> Self {
        Self::Words(text.split_whitespace().map(str::to_lowercase).collect())
    }

    fn hit(&self, frame: &Frame) -> Option<ThreadHit> {
        let Body::Continuity(body) = &frame.body else { return None };
        match (self, body) {
            (Self::Words(words), ContinuityBody::MessageAppended(said)) => {
                let lower = said.content.to_lowercase();
                let fits = words.iter().all(|word| lower.contains(word));
                fits.then(|| hit(frame, &said.actor_id, &frame.id, said.content.clone()))
            }
            (Self::Path(path), ContinuityBody::ToolSideEffects(effects)) => {
                let paths = effects.affected_paths.iter().flatten().filter(|touched| is_at_or_below(touched, path));
                let paths: Vec<_> = paths.map(String::as_str).collect();
                (!paths.is_empty()).then(|| hit(frame, &effects.actor_id, &effects.tool_id, paths.join(" ")))
            }
            _ => None,
        }
    }
}

fn is_at_or_below(touched: &str, path: &str) -> bool {
    touched.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn hit(frame: &Frame, actor_id: &str, id: &str, text: String) -> ThreadHit {
    let thread: &StreamId = &frame.stream;
    ThreadHit {
        thread: thread.id.clone(),
        seq: frame.seq,
        at_ms: frame.timestamp_ms,
        actor_id: actor_id.to_owned(),
        id: id.to_owned(),
        text,
    }
}

fn edge(from: String, link: ContinuityBody) -> Option<ThreadEdge> {
    let (kind, to, to_seq) = match link {
        ContinuityBody::Branched(branch) => ("branch", branch.parent_thread_id, Some(branch.parent_seq)),
        ContinuityBody::HandoffCreated(handoff) => ("handoff", handoff.from_thread_id, Some(handoff.from_seq)),
        ContinuityBody::ThreadReferenced(reference) => ("reference", reference.to_thread_id, None),
        _ => return None,
    };
    Some(ThreadEdge { kind, from, to, to_seq })
}
