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
use crate::{Checkpoint, Content, Result, Store};

const FORMAT: &str = "generic-v1";
/// Messages before this one that are looked through for the run before.
const MESSAGES_MAX: usize = 64;
/// Commits that are read at a time when one is looked for.
const PAGE: u64 = 64;

/// A run that has ended, and the commit that it made.
struct Before {
    run: String,
    message: MessageAt,
    commit: CommitId,
    from_seq: u64,
}

/// Whose timeline the commits of a thread are.
pub(super) fn principal(thread: &StreamId) -> String {
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
        let before = self.before(from_seq)?;
        let mut lines = self.said_since(before.as_ref(), from_seq)?;
        spent.rounds.iter().for_each(|round| lines.extend(round_lines(round)));
        if !spent.text.is_empty() {
            let mut line = json!({"role": "assistant", "content": spent.text, "usage": usage_json(&spent.usage)});
            if let Some(model) = model {
                line["model"] = model.into();
            }
            lines.push(line);
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let attributes = json!({
            "run_session_id": self.run, "message_id": self.message.id, "from_seq": from_seq,
            "reason": ending.reason.as_str(), "model": model, "cost_usd": cost, "usage": usage_json(&spent.usage),
        });
        self.store.ready(Checkpoint {
            parent: before.map(|before| before.commit),
            trigger: "turn_boundary".into(),
            session_id: Some(self.run.clone()),
            thread_id: Some(self.thread.id.clone()),
            attributes: Some(attributes),
            ..Checkpoint::new(Content::Bytes(text.into_bytes()), FORMAT, &principal(&self.thread))
        })
    }

    /// The last run within the cut that made a commit.
    fn before(&self, from_seq: u64) -> Result<Option<Before>> {
        let Some(earlier) = self.message.seq.checked_sub(1) else { return Ok(None) };
        for message in self.store.messages_back(&self.thread, None, earlier, MESSAGES_MAX)? {
            for (at, run) in self.ended_runs(&message, from_seq)?.into_iter().rev() {
                if let Some((commit, cut)) = self.store.commit_of_run(&self.thread, &run)? {
                    return Ok(Some(Before { run, message, commit, from_seq: cut.unwrap_or(at) }));
                }
            }
        }
        Ok(None)
    }

    /// The runs of a message that ended within a cut, and where.
    fn ended_runs(&self, message: &MessageAt, from_seq: u64) -> Result<Vec<(u64, String)>> {
        let mut runs = Vec::new();
        for (at, is_end) in self.store.runs_of(&self.thread, &message.id)? {
            if is_end
                && at <= from_seq
                && let ContinuityBody::RunEnded(run) = self.store.said_at(&self.thread, at)?
            {
                runs.push((at, run.run_session_id));
            }
        }
        Ok(runs)
    }

    /// Messages since the run before, and replies to earlier ones that it did not know of yet.
    fn said_since(&self, before: Option<&Before>, from_seq: u64) -> Result<Vec<Value>> {
        let after = before.map(|before| before.message.seq);
        let mut messages = self.store.messages_back(&self.thread, None, self.message.seq, MESSAGES_MAX)?;
        messages.reverse();
        let mut lines = Vec::new();
        for message in &messages {
            let is_new = after.is_none_or(|after| message.seq > after);
            if is_new {
                let said = self.store.turn(&self.thread, message, message.seq)?;
                let attributes = json!({"actor_id": said.actor_id, "origin": said.origin});
                lines.push(json!({"role": "user", "content": said.content, "id": said.id, "attributes": attributes}));
            }
            for (at, run) in self.ended_runs(message, from_seq)? {
                let is_known = before.is_some_and(|before| run == before.run || (!is_new && at <= before.from_seq));
                let text = if is_known || run == self.run { String::new() } else { self.store.run_text(&run)? };
                if !text.is_empty() {
                    lines.push(json!({"role": "assistant", "content": text, "attributes": {"run_session_id": run}}));
                }
            }
        }
        Ok(lines)
    }

    /// Where the provider's own conversation stands, if all that it lacks is this message.
    pub(super) fn usable_cursor(&self, provider: &Provider) -> Result<Option<String>> {
        let Some(earlier) = self.message.seq.checked_sub(1) else { return Ok(None) };
        let Some(last) = self.store.messages_back(&self.thread, None, earlier, 1)?.pop() else { return Ok(None) };
        let Some((_, run)) = self.ended_runs(&last, self.message.seq)?.pop() else { return Ok(None) };
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
    fn commit_of_run(&self, thread: &StreamId, run: &str) -> Result<Option<(CommitId, Option<u64>)>> {
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
