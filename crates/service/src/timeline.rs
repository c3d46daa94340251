//! Reading threads by what matters in them: messages, the runs for a message, compaction checkpoints. Each question
//! costs what it answers, however long the thread.

use enjamb_core::compile::Turn;
use enjamb_core::frame::{Body, CompactionCheckpointCreated, ContinuityBody, Frame, SessionBody};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{StreamId, StreamKind, limits};
use enjamb_ledger::{Ledger, LedgerError, StreamOrder, StreamSummary, Walk};

use crate::{Result, ServiceError, Store, ThreadError};

/// A message's place in its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageAt {
    pub(crate) seq: u64,
    pub(crate) id: String,
}

/// A compaction checkpoint and the seq of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointAt {
    pub(crate) seq: u64,
    pub(crate) checkpoint: CompactionCheckpointCreated,
}

impl Store {
    /// The thread that a person means: its id, or the beginning of one.
    pub fn resolve_thread(&self, text: &str) -> Result<StreamId> {
        let id = text.strip_prefix("continuity/").unwrap_or(text);
        let exact = StreamId::new(StreamKind::Continuity, id)?;
        if self.ledger.stream(&exact)?.is_some() {
            return Ok(exact);
        }
        let unknown = || ServiceError::Unknown { what: "thread", name: id.to_owned() };
        if id.len() < limits::ID_PREFIX_DIGITS_MIN {
            return Err(unknown());
        }
        let mut fits: Vec<_> = self.all_threads()?.into_iter().map(|summary| summary.stream).collect();
        fits.retain(|stream| stream.id.starts_with(id));
        match fits.len() {
            0 => Err(unknown()),
            1 => Ok(fits.remove(0)),
            _ => {
                let candidates = fits.into_iter().map(|stream| stream.id).take(limits::CANDIDATES_MAX).collect();
                Err(ServiceError::Ambiguous { prefix: id.to_owned(), candidates })
            }
        }
    }

    pub(crate) fn all_threads(&self) -> Result<Vec<StreamSummary>> {
        let kind = StreamKind::Continuity;
        Ok(self.ledger.streams(Some(kind.as_str()), StreamOrder::Name, usize::MAX)?)
    }

    /// Where a thread stands, or that there is none.
    pub(crate) fn thread_summary(&self, thread: &StreamId) -> Result<StreamSummary> {
        let unknown = || ServiceError::Unknown { what: "thread", name: thread.id.clone() };
        self.ledger.stream(thread)?.ok_or_else(unknown)
    }

    /// The seq of a thread's last frame.
    pub(crate) fn thread_head(&self, thread: &StreamId) -> Result<u64> {
        Ok(self.thread_summary(thread)?.next_seq.saturating_sub(1))
    }

    pub(crate) fn frame_at(&self, stream: &StreamId, seq: u64) -> Result<Frame> {
        let stored = self.ledger.frames(stream, seq, 1)?.pop();
        let missing = || LedgerError::corrupt(format!("frame {seq} of {stream}"), "the index names it");
        Ok(Frame::parse(&stored.ok_or_else(missing)?.json)?)
    }

    /// What a thread's frame says, where the index says that it is such a frame.
    pub(crate) fn said_at(&self, thread: &StreamId, seq: u64) -> Result<ContinuityBody> {
        match self.frame_at(thread, seq)?.body {
            Body::Continuity(body) => Ok(body),
            other => Err(LedgerError::corrupt(format!("frame {seq} of {thread}"), other.type_name()).into()),
        }
    }

    /// Up to `limit` messages with `after < seq <= upto`, last first.
    pub(crate) fn messages_back(
        &self,
        thread: &StreamId,
        after: Option<u64>,
        upto: u64,
        limit: usize,
    ) -> Result<Vec<MessageAt>> {
        let from = MarkKey::Message(after.map_or(0, |seq| seq.saturating_add(1)));
        let to = MarkKey::Message(upto);
        let marks = self.ledger.marks_in(&in_stream(thread), &from, &to, Walk::Back, limit)?;
        Ok(marks.into_iter().filter_map(message_at).collect())
    }

    pub(crate) fn message_after(&self, thread: &StreamId, seq: u64) -> Result<Option<MessageAt>> {
        let (from, to) = (MarkKey::Message(seq.saturating_add(1)), MarkKey::Message(u64::MAX));
        let marks = self.ledger.marks_in(&in_stream(thread), &from, &to, Walk::Forward, 1)?;
        Ok(marks.into_iter().find_map(message_at))
    }

    pub(crate) fn message_seq(&self, thread: &StreamId, message: &str) -> Result<u64> {
        let seq = self.ledger.mark(&in_stream(thread), &MarkKey::MessageId(message.to_owned()))?;
        let unknown = || ThreadError::UnknownMessage { thread: thread.id.clone(), message: message.to_owned() };
        Ok(seq.and_then(|seq| seq.parse().ok()).ok_or_else(unknown)?)
    }

    /// The seqs at which runs for a message were spawned or ended; `true` for those at which one ended.
    pub(crate) fn runs_of(&self, thread: &StreamId, message: &str) -> Result<Vec<(u64, bool)>> {
        let bound = |seq| MarkKey::RunOf { message: message.to_owned(), seq };
        let marks = self.ledger.marks_in(&in_stream(thread), &bound(0), &bound(u64::MAX), Walk::Forward, usize::MAX)?;
        let at = |(key, value): (MarkKey, String)| match key {
            MarkKey::RunOf { seq, .. } => Some((seq, value == "ended")),
            _ => None,
        };
        Ok(marks.into_iter().filter_map(at).collect())
    }

    /// Compaction checkpoints that cut at or before `upto`, the furthest first; of several at one cut, the latest frame
    /// first. Reads on until `take` says to stop.
    pub(crate) fn checkpoints_back(
        &self,
        thread: &StreamId,
        upto: u64,
        take: &mut dyn FnMut(CheckpointAt) -> bool,
    ) -> Result<()> {
        const PAGE: usize = 16;
        let from = MarkKey::Compaction { to_seq: 0, seq: 0 };
        let mut next = Some((upto, u64::MAX));
        while let Some((to_seq, seq)) = next {
            let to = MarkKey::Compaction { to_seq, seq };
            let marks = self.ledger.marks_in(&in_stream(thread), &from, &to, Walk::Back, PAGE)?;
            next = marks.get(PAGE - 1).and_then(|(last, _)| before(last));
            for (key, _) in marks {
                let MarkKey::Compaction { seq, .. } = key else { continue };
                if let ContinuityBody::CompactionCheckpointCreated(checkpoint) = self.said_at(thread, seq)?
                    && !take(CheckpointAt { seq, checkpoint })
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Up to `limit` messages with `after < seq <= upto`, each with its reply as of `upto`, in the order of the thread.
    pub(crate) fn turns_back(
        &self,
        thread: &StreamId,
        after: Option<u64>,
        upto: u64,
        limit: usize,
    ) -> Result<Vec<Turn>> {
        let mut messages = self.messages_back(thread, after, upto, limit)?;
        messages.reverse();
        messages.iter().map(|message| self.turn(thread, message, upto)).collect()
    }

    pub(crate) fn turn(&self, thread: &StreamId, message: &MessageAt, upto: u64) -> Result<Turn> {
        let seq = message.seq;
        let ContinuityBody::MessageAppended(said) = self.said_at(thread, seq)? else {
            return Err(LedgerError::corrupt(format!("frame {seq} of {thread}"), "it is no message").into());
        };
        let ended = self.runs_of(thread, &message.id)?.into_iter().rfind(|(at, ended)| *ended && *at <= upto);
        let reply = match ended {
            Some((at, _)) => match self.said_at(thread, at)? {
                ContinuityBody::RunEnded(run) => Some(self.run_text(&run.run_session_id)?),
                _ => None,
            },
            None => None,
        };
        Ok(Turn {
            seq,
            id: message.id.clone(),
            actor_id: said.actor_id,
            origin: said.origin,
            content: said.content,
            reply: reply.filter(|reply| !reply.is_empty()),
        })
    }

    /// What a run said, in one piece.
    pub(crate) fn run_text(&self, run: &str) -> Result<String> {
        let stream = StreamId::new(StreamKind::Session, run)?;
        let mut text = String::new();
        self.replay(&stream, 0..u64::MAX, &mut |frame| {
            if let Body::Session(SessionBody::OutputTextDelta(piece)) = frame.body {
                text.push_str(&piece.delta);
            }
            Ok(())
        })?;
        Ok(text)
    }

    pub(crate) fn seq_of(&self, thread: &StreamId, key: &MarkKey) -> Result<Option<u64>> {
        Ok(self.ledger.mark(&in_stream(thread), key)?.and_then(|seq| seq.parse().ok()))
    }
}

pub(crate) fn in_stream(stream: &StreamId) -> Scope {
    Scope::Stream(stream.clone())
}

/// What comes before a checkpoint when they are walked.
fn before(key: &MarkKey) -> Option<(u64, u64)> {
    match *key {
        MarkKey::Compaction { to_seq, seq: 0 } => Some((to_seq.checked_sub(1)?, u64::MAX)),
        MarkKey::Compaction { to_seq, seq } => Some((to_seq, seq - 1)),
        _ => None,
    }
}

fn message_at((key, id): (MarkKey, String)) -> Option<MessageAt> {
    match key {
        MarkKey::Message(seq) => Some(MessageAt { seq, id }),
        _ => None,
    }
}
