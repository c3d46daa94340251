//! One run in the store: its beginning, its end, and what it is in between.

use enjamb_core::conversation::Usage;
use enjamb_core::frame::{
    Body, Json, ProviderCursorUpdated, ProviderEvent, ProviderStatus, RunEnded, SessionEnded, SessionStarted,
};
use enjamb_core::provider::{Dialect, Round};
use enjamb_core::{StreamId, StreamKind};
use enjamb_ledger::Batch;
use serde_json::{Value, json};

use super::{Ending, Provider, Turned};
use crate::timeline::MessageAt;
use crate::{Actor, Posted, Result, Store};

/// What the event is called that says what a run took.
pub(super) const USAGE: &str = "enjamb.usage";

pub(super) struct Session<'s> {
    pub store: &'s Store,
    pub thread: StreamId,
    pub stream: StreamId,
    pub run: String,
    pub message: MessageAt,
    pub by: Actor,
}

/// What a run took and made.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    pub usage: Usage,
    pub requests: u64,
    pub tool_calls: u64,
    /// What the model said and what came of its calls, before its last words.
    pub rounds: Vec<Round>,
    /// Its last words.
    pub text: String,
    /// Where its own conversation stands at the provider.
    pub response_id: Option<String>,
    /// How far the context goes.
    pub from_seq: Option<u64>,
    /// The checkpoint of the workspace as its tools left it, if any was to change files.
    pub workspace: Option<String>,
}

impl Spent {
    /// All that the model said.
    pub fn all_text(&self) -> String {
        self.rounds.iter().map(|round| round.text.as_str()).chain([self.text.as_str()]).collect()
    }
}

impl<'s> Session<'s> {
    pub fn begin(store: &'s Store, thread: &StreamId, posted: Posted, input: &str, by: &Actor) -> Result<Self> {
        let run = posted.run.unwrap_or_default();
        let stream = StreamId::new(StreamKind::Session, run.clone())?;
        let message = MessageAt { seq: posted.seq, id: posted.message };
        store.append_bodies(&stream, &[SessionStarted { input: input.to_owned() }.into()], Vec::new())?;
        Ok(Self { store, thread: thread.clone(), stream, run, message, by: by.clone() })
    }

    /// Ends the run: where the provider stands, what it took, the end of the session, a commit and the end of the run, all
    /// of it or nothing.
    pub fn end(self, provider: Option<&Provider>, spent: Spent, ending: Ending) -> Result<Turned> {
        let cost = provider.and_then(|provider| Some(provider.options.prices?.dollars(&spent.usage)));
        let cursor = provider.and_then(|provider| self.cursor(provider, &spent, &ending));
        let told = provider.map(|provider| self.usage(provider, &spent, cost.as_deref()));
        let model = provider.and_then(Provider::model);
        let commit = self.ready_commit(&spent, &ending, model, cost.as_deref())?;
        let ended = SessionEnded { reason: ending.reason.as_str().into() };
        let in_thread = cursor.map(|body| (&self.thread, body)).into_iter();
        let in_session = told.into_iter().chain([ended.into()]).map(|body| (&self.stream, body));
        let bodies = in_thread.chain(in_session);
        let mut frames = bodies.map(|(stream, body)| self.store.frame_of(stream, &body)).collect::<Result<Vec<_>>>()?;
        let id = commit.answer.id;
        frames.push(commit.frame);
        frames.push(self.store.frame_of(&self.thread, &self.run_ended(ending.reason.as_str()))?);
        self.store.ledger.append(Batch { artifacts: vec![commit.artifact], frames, ..Batch::default() })?;
        let text = spent.all_text();
        let Self { run, message, .. } = self;
        let Spent { usage, requests, tool_calls, .. } = spent;
        let message = message.id;
        Ok(Turned { message, run, text, ending, usage, cost, requests, tool_calls, commit: Some(id), replayed: false })
    }

    pub fn run_ended(&self, reason: &str) -> Body {
        RunEnded {
            run_session_id: self.run.clone(),
            message_id: self.message.id.clone(),
            reason: reason.to_owned(),
            actor_id: Some(self.by.actor_id.clone()),
            origin: Some(self.by.origin.clone()),
        }
        .into()
    }

    /// A provider with conversations of its own is told where this one stands.
    fn cursor(&self, provider: &Provider, spent: &Spent, ending: &Ending) -> Option<Body> {
        let id = spent.response_id.as_ref()?;
        if provider.dialect() != Dialect::Responses || !ending.is_completed() {
            return None;
        }
        let cursor = json!({"previous_response_id": id});
        Some(self.cursor_update(provider, Some(cursor), "set", "run_completed"))
    }

    pub fn cursor_update(&self, provider: &Provider, cursor: Option<Value>, action: &str, reason: &str) -> Body {
        ProviderCursorUpdated {
            provider: provider.dialect().provider().into(),
            endpoint: Some(provider.shown().to_owned()),
            model: provider.model().map(str::to_owned),
            cursor: cursor.map(Json::from),
            action: action.into(),
            reason: Some(reason.into()),
            run_session_id: Some(self.run.clone()),
            actor_id: self.by.actor_id.clone(),
            origin: self.by.origin.clone(),
        }
        .into()
    }

    /// What the run took, in the same words whoever the provider is.
    fn usage(&self, provider: &Provider, spent: &Spent, cost: Option<&str>) -> Body {
        let mut told = usage_json(&spent.usage);
        told["type"] = USAGE.into();
        told["requests"] = spent.requests.into();
        told["tool_calls"] = spent.tool_calls.into();
        told["model"] = provider.model().into();
        told["cost_usd"] = cost.into();
        told["budget_tokens"] = provider.options.budget_tokens.into();
        of_ours(USAGE, told, Vec::new())
    }
}

pub(super) fn usage_json(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens,
        "provisional": usage.provisional,
    })
}

/// An event that we add to those of a provider.
pub(super) fn of_ours(name: &str, told: Value, errors: Vec<String>) -> Body {
    ProviderEvent {
        provider: "enjamb".into(),
        status: ProviderStatus::Event,
        event_name: Some(name.into()),
        data: Some(Json::from(told)),
        raw: None,
        errors,
        response_errors: Vec::new(),
    }
    .into()
}
