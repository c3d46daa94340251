//! Ending runs whose process is gone: what they received is put into the log, and they end with a reason.

use std::collections::BTreeSet;

use enjamb_core::frame::{Body, ContinuityBody, SessionBody, SessionStarted, ToolFailed};
use enjamb_core::order::MarkKey;
use enjamb_core::provider::AnswerReader;
use enjamb_core::{StreamId, StreamKind, limits};
use enjamb_ledger::Batch;

use super::journal::{Orphan, Received, orphans};
use super::session::{Session, Spent};
use super::{EndReason, Ending, RunView, Turned};
use crate::timeline::MessageAt;
use crate::{Actor, Posted, Result, Store};

/// A run that was found dead and ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    pub thread: String,
    pub run: String,
    /// Frames that were received and not yet in the log.
    pub rescued: u64,
}

/// What is in the log of a session.
#[derive(Default)]
struct Found {
    frames: u64,
    is_over: bool,
    text: String,
    /// The last request that was told of, and the frames of its answer.
    request: Option<(u64, usize)>,
    open_tools: BTreeSet<String>,
    /// The last checkpoint of the workspace.
    checkpoint: Option<String>,
}

impl Store {
    /// Ends the runs of processes that are gone. Costs one look at a directory when there are none.
    pub fn end_dead_runs(&self) -> Result<Vec<EndedRun>> {
        let mut ended = Vec::new();
        for orphan in orphans(self.dir()) {
            ended.extend(self.end_dead_run(&orphan)?);
            orphan.remove();
        }
        Ok(ended)
    }

    /// `None` for a run that never began, or has ended.
    fn end_dead_run(&self, orphan: &Orphan) -> Result<Option<EndedRun>> {
        let run = orphan.run.as_str();
        let Ok(thread) = StreamId::new(StreamKind::Continuity, &orphan.journaled.thread) else { return Ok(None) };
        let Some(spawned) = self.seq_of(&thread, &MarkKey::RunSpawned(run.to_owned()))? else { return Ok(None) };
        if self.seq_of(&thread, &MarkKey::RunEnded(run.to_owned()))?.is_some() {
            return Ok(None);
        }
        let ContinuityBody::RunSpawned(said) = self.said_at(&thread, spawned)? else { return Ok(None) };
        let message = MessageAt { seq: self.message_seq(&thread, &said.message_id)?, id: said.message_id };
        let by = Actor {
            actor_id: said.actor_id.unwrap_or_else(|| "enjamb".into()),
            origin: said.origin.unwrap_or_else(|| "enjamb".into()),
        };
        let stream = StreamId::new(StreamKind::Session, run)?;
        let session = Session { store: self, thread: thread.clone(), stream, run: run.to_owned(), message, by };
        let rescued = session.rescue(orphan.journaled.requests.last())?;
        let found = session.found()?;
        let spent = Spent { text: found.text, workspace: found.checkpoint, ..Spent::default() };
        let ending = Ending::new(EndReason::Interrupted, "the process that ran it is gone");
        match found.is_over {
            false => drop(session.end(None, spent, ending)?),
            true => drop(self.append_bodies(&thread, &[session.run_ended(ending.reason.as_str())], Vec::new())?),
        }
        Ok(Some(EndedRun { thread: thread.id, run: run.to_owned(), rescued }))
    }

    /// What came of a post that was made before.
    pub(super) fn turn_again(&self, thread: &StreamId, posted: Posted) -> Result<Turned> {
        let RunView { run, message, text, reason, usage, cost, requests, tool_calls, commit, .. } =
            self.run_view(thread, &posted.run.unwrap_or_default())?;
        let known = |word: &str| EndReason::ALL.iter().copied().find(|reason| reason.as_str() == word);
        let reason = reason.as_deref().and_then(known).unwrap_or(EndReason::Interrupted);
        let ending = Ending::new(reason, "as the first time");
        Ok(Turned { message, run, text, ending, usage, cost, requests, tool_calls, commit, replayed: true })
    }
}

impl Session<'_> {
    /// Appends what was received and is not in the log. Returns how many frames that were.
    fn rescue(&self, last: Option<&Received>) -> Result<u64> {
        let found = self.found()?;
        let mut frames: Vec<Body> = Vec::new();
        let mut artifacts = Vec::new();
        if found.is_over {
            return Ok(0);
        }
        if found.frames == 0 {
            let said = self.store.turn(&self.thread, &self.message, self.message.seq)?;
            frames.push(SessionStarted { input: said.content }.into());
        }
        if let Some(received) = last {
            let mut reader = AnswerReader::new(received.dialect);
            let mut kept = reader.push(&received.bytes);
            let rest = reader.finish();
            kept.frames.extend(rest.frames);
            artifacts.extend(kept.artifacts.into_iter().chain(rest.artifacts));
            let known = found.request.filter(|(index, _)| *index == received.index).map_or(0, |(_, frames)| frames);
            frames.extend(kept.frames.into_iter().skip(known));
        }
        let open =
            found.open_tools.into_iter().map(|tool_id| ToolFailed { tool_id, error: "interrupted".into() }.into());
        frames.extend(open);
        let mut artifacts =
            artifacts.into_iter().map(|bytes| self.store.artifact_of(bytes)).collect::<Result<Vec<_>>>()?;
        for some in frames.chunks(limits::BATCH_FRAMES_MAX) {
            let frames = some.iter().map(|body| self.store.frame_of(&self.stream, body)).collect::<Result<_>>()?;
            let artifacts = std::mem::take(&mut artifacts);
            self.store.ledger.append(Batch { artifacts, frames, ..Batch::default() })?;
        }
        Ok(frames.len() as u64)
    }

    fn found(&self) -> Result<Found> {
        let mut found = Found::default();
        self.store.replay(&self.stream, 0..u64::MAX, &mut |frame| {
            found.frames += 1;
            if let Body::Session(body) = frame.body {
                found.take(body);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

impl Found {
    fn take(&mut self, body: SessionBody) {
        match body {
            SessionBody::RequestStarted(request) => self.request = Some((request.request_index, 0)),
            SessionBody::ProviderEvent(_) => self.count(),
            SessionBody::OutputTextDelta(piece) => {
                self.text.push_str(&piece.delta);
                self.count();
            }
            SessionBody::CheckpointCreated(made) => self.checkpoint = Some(made.checkpoint_id),
            SessionBody::ToolStarted(tool) => drop(self.open_tools.insert(tool.tool_id)),
            SessionBody::ToolEnded(tool) => drop(self.open_tools.remove(&tool.tool_id)),
            SessionBody::ToolFailed(tool) => drop(self.open_tools.remove(&tool.tool_id)),
            SessionBody::SessionEnded(_) => self.is_over = true,
            _ => {}
        }
    }

    fn count(&mut self) {
        if let Some((_, frames)) = &mut self.request {
            *frames += 1;
        }
    }
}
