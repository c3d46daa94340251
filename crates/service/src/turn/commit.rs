//! The commit of a run: what was said since the commit before it, so that history, forks and resuming work on our own turns
//! as on anybody's.

use enjamb_core::frame::{Body, ContextBody, ContinuityBody};
use enjamb_core::provider::Round;
use enjamb_core::{CommitId, StreamId, StreamKind};
use enjamb_ledger::Ledger;
use serde_json::{Value, json};

use super::session::{Session, Spent, usage_json};
use super::{Ending, Provider};
use crate::checkpoint::Ready;
use crate::timeline::MessageAt;
use crate::workspace::WORKSPACE_CHECKPOINT;
use crate::{Checkpoint, Content, Result, Store};

const FORMAT: &str = "generic-v1";
/// Messages before this one, of each thread, that are looked through for the run before.
const MESSAGES_MAX: usize = 1_024;
/// Threads that a branch is followed back over.
const ANCESTORS_MAX: usize = 64;
/// Commits that are read at a time when one is looked for.
const PAGE: u64 = 64;

/// A thread as far as it counts here: the thread of the run, or one that it was branched from.
struct Stretch {
    thread: StreamId,
    /// Its last message is at this seq, or before.
    upto: u64,
    /// Runs that ended after this are not known of.
    cut: u64,
}

/// A run that has ended, and the commit that it made.
struct Before {
    /// Which of the stretches it is in.
    at: usize,
    run: String,
    message: MessageAt,
    commit: CommitId,
    from_seq: u64,
}

/// Whose timeline the commits of a thread are.
pub(crate) fn principal(thread: &StreamId) -> String {
    format!("thread/{}", thread.id)
}

impl Session<'_> {
    pub(super) fn ready_commit(
        &self,
        spent: &Spent,
        ending: &Ending,
        model: Option<&str>,
        cost: Option<&str>,
    ) -> Result<Ready> {
        let from_seq = spent.from_seq.unwrap_or(self.message.seq);
        let stretches = self.stretches(from_seq)?;
        let before = self.before(&stretches)?;
        let mut lines = self.said_since(&stretches, before.as_ref())?;
        spent.rounds.iter().for_each(|round| lines.extend(round_lines(round)));
        if !spent.text.is_empty() {
            let mut line = json!({"role": "assistant", "content": spent.text, "usage": usage_json(&spent.usage)});
            if let Some(model) = model {
                line["model"] = model.into();
            }
            lines.push(line);
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut attributes = json!({
            "run_session_id": self.run, "message_id": self.message.id, "from_seq": from_seq,
            "reason": ending.reason.as_str(), "model": model, "cost_usd": cost, "usage": usage_json(&spent.usage),
        });
        if let Some(checkpoint) = &spent.workspace {
            attributes[WORKSPACE_CHECKPOINT] = checkpoint.as_str().into();
        }
        self.store.ready(Checkpoint {
            parent: before.map(|before| before.commit),
            trigger: "turn_boundary".into(),
            session_id: Some(self.run.clone()),
            thread_id: Some(self.thread.id.clone()),
            attributes: Some(attributes),
            ..Checkpoint::new(Content::Bytes(text.into_bytes()), FORMAT, &principal(&self.thread))
        })
    }

    /// What the run goes on from: its thread up to its message, and where that was branched from.
    fn stretches(&self, from_seq: u64) -> Result<Vec<Stretch>> {
        let own = Stretch { thread: self.thread.clone(), upto: self.message.seq, cut: from_seq };
        let mut stretches = vec![own];
        while let Some(parent) = self.parent_of(&stretches[stretches.len() - 1].thread)? {
            if stretches.len() > ANCESTORS_MAX {
                break;
            }
            stretches.push(parent);
        }
        Ok(stretches)
    }

    fn parent_of(&self, thread: &StreamId) -> Result<Option<Stretch>> {
        let Some(summary) = self.store.ledger.stream(thread)? else { return Ok(None) };
        let origin = self.store.thread_origin(thread, summary.next_seq)?;
        // Of a thread that was handed over, a summary is all that went along.
        let Some(origin) = origin.filter(|origin| origin.kind == "branch") else { return Ok(None) };
        let thread = StreamId::new(StreamKind::Continuity, origin.thread)?;
        Ok(Some(Stretch { thread, upto: origin.seq, cut: origin.seq }))
    }

    /// The last run within the cut that made a commit.
    fn before(&self, stretches: &[Stretch]) -> Result<Option<Before>> {
        for (at, stretch) in stretches.iter().enumerate() {
            for message in self.store.messages_back(&stretch.thread, None, stretch.upto, MESSAGES_MAX)? {
                if message.id == self.message.id {
                    continue;
                }
                for (ended, run) in self.ended_runs(stretch, &message)?.into_iter().rev() {
                    if let Some((commit, cut)) = self.store.commit_of_run(&stretch.thread, &run)? {
                        return Ok(Some(Before { at, run, message, commit, from_seq: cut.unwrap_or(ended) }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The runs of a message that ended within a cut, and where.
    fn ended_runs(&self, stretch: &Stretch, message: &MessageAt) -> Result<Vec<(u64, String)>> {
        let mut runs = Vec::new();
        for (at, is_end) in self.store.runs_of(&stretch.thread, &message.id)? {
            if is_end
                && at <= stretch.cut
                && let ContinuityBody::RunEnded(run) = self.store.said_at(&stretch.thread, at)?
            {
                runs.push((at, run.run_session_id));
            }
        }
        Ok(runs)
    }

    /// Messages since the run before, and replies to earlier ones that it did not know of yet.
    fn said_since(&self, stretches: &[Stretch], before: Option<&Before>) -> Result<Vec<Value>> {
        let first = before.map_or(stretches.len() - 1, |before| before.at);
        let mut lines = Vec::new();
        for (at, stretch) in stretches.iter().enumerate().take(first + 1).rev() {
            self.said_in(stretch, before.filter(|before| before.at == at), &mut lines)?;
        }
        Ok(lines)
    }

    fn said_in(&self, stretch: &Stretch, before: Option<&Before>, lines: &mut Vec<Value>) -> Result<()> {
        let Stretch { thread, upto, .. } = stretch;
        let mut messages = self.store.messages_back(thread, None, *upto, MESSAGES_MAX)?;
        messages.reverse();
        for message in &messages {
            let is_new = before.is_none_or(|before| message.seq > before.message.seq);
            if is_new {
                let said = self.store.turn(thread, message, message.seq)?;
                let attributes = json!({"actor_id": said.actor_id, "origin": said.origin});
                lines.push(json!({"role": "user", "content": said.content, "id": said.id, "attributes": attributes}));
            }
            for (at, run) in self.ended_runs(stretch, message)? {
                let is_known = before.is_some_and(|before| run == before.run || (!is_new && at <= before.from_seq));
                let text = if is_known || run == self.run { String::new() } else { self.store.run_text(&run)? };
                if !text.is_empty() {
                    lines.push(json!({"role": "assistant", "content": text, "attributes": {"run_session_id": run}}));
                }
            }
        }
        Ok(())
    }

    /// Where the provider's own conversation stands, if all that it lacks is this message.
    pub(super) fn usable_cursor(&self, provider: &Provider) -> Result<Option<String>> {
        let Some(earlier) = self.message.seq.checked_sub(1) else { return Ok(None) };
        let Some(last) = self.store.messages_back(&self.thread, None, earlier, 1)?.pop() else { return Ok(None) };
        let own = Stretch { thread: self.thread.clone(), upto: earlier, cut: self.message.seq };
        let Some((_, run)) = self.ended_runs(&own, &last)?.pop() else { return Ok(None) };
        let (cursors, _) = self.store.cursors(&self.thread)?;
        let fits = cursors.into_iter().map(|cursor| cursor.update).find(|cursor| {
            cursor.provider == provider.dialect().provider()
                && cursor.endpoint.as_deref() == Some(provider.shown())
                && cursor.model.as_deref() == provider.model()
                && cursor.run_session_id.as_deref() == Some(&run)
        });
        let id = |cursor: Value| cursor["previous_response_id"].as_str().map(str::to_owned);
        Ok(fits.and_then(|cursor| id(serde_json::from_str(cursor.cursor?.get()).ok()?)))
    }
}

impl Store {
    /// The commit that a run made, and how far its context went.
    pub(super) fn commit_of_run(&self, thread: &StreamId, run: &str) -> Result<Option<(CommitId, Option<u64>)>> {
        let stream = StreamId::new(StreamKind::Context, principal(thread))?;
        let mut end = self.ledger.stream(&stream)?.map_or(0, |summary| summary.next_seq);
        while end > 0 {
            let start = end.saturating_sub(PAGE);
            let mut found = None;
            self.replay(&stream, start..end, &mut |frame| {
                if let Body::Context(ContextBody::ContextCommitted(commit)) = frame.body
                    && commit.agent_session_id.as_deref() == Some(run)
                {
                    let attributes = commit.attributes.and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
                    let cut = attributes.and_then(|attributes| attributes["from_seq"].as_u64());
                    found = commit.commit_id.parse().ok().map(|id| (id, cut));
                }
                Ok(())
            })?;
            if found.is_some() {
                return Ok(found);
            }
            end = start;
        }
        Ok(None)
    }
}

/// A round as lines of a transcript.
fn round_lines(round: &Round) -> Vec<Value> {
    let text = Some(&round.text).filter(|text| !text.is_empty());
    let mut content: Vec<_> = text.into_iter().map(|text| json!({"type": "text", "text": text})).collect();
    content.extend(round.calls.iter().map(|call| {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        json!({"type": "tool_call", "id": call.call_id, "name": call.name, "input": input})
    }));
    let results = round.outcomes.iter().map(|outcome| {
        let text = json!([{"type": "text", "text": outcome.output}]);
        let result =
            json!({"type": "tool_result", "call_id": outcome.call_id, "content": text, "is_error": outcome.is_error});
        json!({"role": "tool", "content": [result]})
    });
    [json!({"role": "assistant", "content": content})].into_iter().chain(results).collect()
}
