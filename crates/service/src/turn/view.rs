//! A run as its frames tell of it.

use enjamb_core::conversation::Usage;
use enjamb_core::frame::{Body, ContinuityBody, SessionBody};
use enjamb_core::order::MarkKey;
use enjamb_core::{CommitId, StreamId, StreamKind};
use serde_json::Value;

use super::EndReason;
use super::session::USAGE;
use crate::{Result, ServiceError, Store};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunView {
    pub run: String,
    pub message: String,
    /// What was said so far.
    pub text: String,
    /// How it ended; nothing while it goes on.
    pub reason: Option<String>,
    /// What is known of why.
    pub detail: String,
    pub usage: Usage,
    pub cost: Option<String>,
    pub requests: u64,
    pub tool_calls: u64,
    pub commit: Option<CommitId>,
}

impl Store {
    /// What became of a run of a thread, or of one that goes on.
    pub fn run_view(&self, thread: &StreamId, run: &str) -> Result<RunView> {
        self.thread_summary(thread)?;
        let unknown = || ServiceError::Unknown { what: "run", name: run.to_owned() };
        let spawned = self.seq_of(thread, &MarkKey::RunSpawned(run.to_owned()))?.ok_or_else(unknown)?;
        let ContinuityBody::RunSpawned(said) = self.said_at(thread, spawned)? else { return Err(unknown()) };
        let mut view = RunView { run: run.to_owned(), message: said.message_id, ..RunView::default() };
        let stream = StreamId::new(StreamKind::Session, run)?;
        self.replay(&stream, 0..u64::MAX, &mut |frame| {
            if let Body::Session(body) = frame.body {
                view.take(body);
            }
            Ok(())
        })?;
        if view.reason.as_deref() == Some(EndReason::Completed.as_str()) {
            view.detail.clear();
        }
        if view.reason.is_some() {
            view.commit = self.commit_of_run(thread, run)?.map(|(commit, _)| commit);
        }
        Ok(view)
    }
}

impl RunView {
    fn take(&mut self, body: SessionBody) {
        match body {
            SessionBody::OutputTextDelta(piece) => self.text.push_str(&piece.delta),
            SessionBody::SessionEnded(ended) => self.reason = Some(ended.reason),
            SessionBody::ProviderEvent(event) => {
                // The last thing that went wrong is what ended it.
                if let Some(error) = event.errors.into_iter().next() {
                    self.detail = error;
                }
                if event.provider == "enjamb" && event.event_name.as_deref() == Some(USAGE) {
                    let told = event.data.and_then(|data| serde_json::from_str(data.get()).ok());
                    self.spent(&told.unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    /// What it took, as the frame at its end says.
    fn spent(&mut self, told: &Value) {
        let number = |name: &str| told[name].as_u64().unwrap_or(0);
        self.usage = Usage {
            input_tokens: number("input_tokens"),
            output_tokens: number("output_tokens"),
            cache_read_tokens: number("cache_read_tokens"),
            cache_write_tokens: number("cache_write_tokens"),
            provisional: told["provisional"].as_bool().unwrap_or(false),
        };
        self.cost = told["cost_usd"].as_str().map(str::to_owned);
        self.requests = number("requests");
        self.tool_calls = number("tool_calls");
    }
}
