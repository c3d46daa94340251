//! Looking over all threads at once: what was said, which files were touched, and how threads hang together.

use enjamb_core::frame::{Body, ContinuityBody, Frame, RawFrame};
use enjamb_core::{StreamId, limits};
use enjamb_ledger::Ledger;

use crate::{Result, Store};

/// What to look for.
#[derive(Clone, Debug)]
pub enum ThreadQuery {
    /// Messages that hold every one of these words, whatever their case.
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

impl Store {
    /// Frames of threads that fit, the last first, at most `limit`.
    pub fn search_threads(&self, query: &ThreadQuery, limit: usize) -> Result<Vec<ThreadHit>> {
        let wanted = Wanted::of(query);
        let mut hits = Vec::new();
        self.each_thread_frame(&mut |frame| hits.extend(wanted.hit(frame)))?;
        hits.sort_by(|a: &ThreadHit, b| (b.at_ms, &a.thread, b.seq).cmp(&(a.at_ms, &b.thread, a.seq)));
        hits.truncate(limit);
        Ok(hits)
    }

    /// Every link between threads, by the thread that goes on or refers.
    pub fn thread_edges(&self) -> Result<Vec<ThreadEdge>> {
        let mut edges = Vec::new();
        self.each_thread_frame(&mut |frame| edges.extend(edge(frame)))?;
        Ok(edges)
    }

    /// Every frame of every thread, thread by thread.
    fn each_thread_frame(&self, visit: &mut dyn FnMut(&Frame)) -> Result<()> {
        for summary in self.all_threads()? {
            let mut next = 0;
            while next < summary.next_seq {
                let frames = self.ledger.frames(&summary.stream, next, limits::PAGE_ROWS_MAX)?;
                let Some(last) = frames.last() else { break };
                next = last.seq + 1;
                for frame in frames {
                    visit(&RawFrame::parse(frame.json)?.decode()?);
                }
            }
        }
        Ok(())
    }
}

enum Wanted {
    Words(Vec<String>),
    Path(String),
}

impl Wanted {
    fn of(query: &ThreadQuery) -> Self {
        match query {
            ThreadQuery::Text(text) => Self::Words(text.split_whitespace().map(str::to_lowercase).collect()),
            ThreadQuery::File(path) => Self::Path(path.trim_end_matches('/').to_owned()),
        }
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

fn edge(frame: &Frame) -> Option<ThreadEdge> {
    let Body::Continuity(body) = &frame.body else { return None };
    let from = frame.stream.id.clone();
    match body {
        ContinuityBody::Branched(branch) => Some(ThreadEdge {
            kind: "branch",
            from,
            to: branch.parent_thread_id.clone(),
            to_seq: Some(branch.parent_seq),
        }),
        ContinuityBody::HandoffCreated(handoff) => Some(ThreadEdge {
            kind: "handoff",
            from,
            to: handoff.from_thread_id.clone(),
            to_seq: Some(handoff.from_seq),
        }),
        ContinuityBody::ThreadReferenced(reference) => {
            Some(ThreadEdge { kind: "reference", from, to: reference.to_thread_id.clone(), to_seq: None })
        }
        _ => None,
    }
}
