//! Driving a run: ask, call tools, ask again, until there is an answer or a reason to stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use enjamb_core::frame::{Body, RequestDumped, RequestStarted};
use enjamb_core::provider::{Answer, Kept, Request, Round, Stop, ToolSpec, body};
use enjamb_core::{ArtifactId, ErrorKind};
use serde_json::{Value, json};

use super::answer::{Came, ending_of};
use super::ask::{Asked, wait};
use super::budget::{Allowance, add, allow, measured};
use super::journal::Journal;
use super::recorder::Recorder;
use super::session::{Session, Spent, of_ours};
use super::{EndReason, Ending, Means, Turn, TurnEvent};
use crate::{Compile, Result, ServiceError};

/// Bytes of a request's body that a dump holds.
const DUMP_BYTES_MAX: usize = 1_000_000;
/// Longer than this nobody is kept waiting.
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(super) struct Drive<'d, 'scope> {
    pub session: &'d Session<'d>,
    pub means: &'d Means<'d>,
    pub recorder: &'d Recorder<'scope>,
    pub journal: &'d mut Journal,
    pub watch: &'d mut dyn FnMut(TurnEvent<'_>),
    pub spent: Spent,
    /// What bounded the last answer was the budget.
    pub is_budgeted: bool,
}

/// What every request of a run says.
struct Context {
    rendered: Vec<u8>,
    tools: Vec<ToolSpec>,
    /// Where the provider's own conversation stands, when it is gone on with.
    previous: Option<String>,
    /// All of it, for when the provider has lost its conversation.
    whole: Vec<u8>,
}

/// A request that was made ready.
struct Prepared {
    body: Vec<u8>,
    allowance: Allowance,
}

impl Drive<'_, '_> {
    pub fn run(&mut self, turn: &Turn) -> Result<Ending> {
        let mut context = match self.context(turn) {
            Ok(context) => context,
            Err(error) if is_of_store(&error) => return Err(error),
            Err(error) => return Ok(Ending::new(EndReason::ContextFailed, error.to_string())),
        };
        loop {
            if self.means.cancel.load(Ordering::Relaxed) {
                return Ok(Ending::new(EndReason::Cancelled, "the run was called off"));
            }
            let answer = match self.answered(&mut context)? {
                Ok(answer) => answer,
                Err(ending) => return Ok(ending),
            };
            if let Some(ending) = self.taken(answer)? {
                return Ok(ending);
            }
        }
    }

    /// Compiles the context and says so in the thread.
    fn context(&mut self, turn: &Turn) -> Result<Context> {
        let Session { store, thread, run, message, by, .. } = self.session;
        let request = Compile {
            message: Some(message.id.clone()),
            run: Some(run.clone()),
            dry_run: false,
            ..turn.compile.clone()
        };
        let compiled = store.compile(thread, &request, by)?;
        self.spent.from_seq = Some(compiled.bundle.source.from_seq);
        let provider = self.means.provider;
        let whole = store.render(&compiled.artifact, provider.dialect().target())?;
        let previous = if provider.options.use_cursor { self.session.usable_cursor(provider)? } else { None };
        let rendered = match &previous {
            Some(_) => serde_json::to_vec(&json!([{"type": "message", "role": "user", "content": turn.content}]))
                .expect("a value in memory is always JSON"),
            None => whole.clone(),
        };
        Ok(Context { rendered, tools: self.means.tools.specs(), previous, whole })
    }

    /// Asks until there is an answer, or none to be hoped for.
    fn answered(&mut self, context: &mut Context) -> Result<std::result::Result<Answer, Ending>> {
        let mut attempt = 0;
        loop {
            let Some(prepared) = self.prepare(context)? else {
                let budget = self.means.provider.options.budget_tokens;
                let detail = format!("the next request does not fit what is left of {budget} tokens");
                return Ok(Err(Ending::new(EndReason::TokenBudget, detail)));
            };
            match self.ask(context, &prepared)? {
                Came::Answer(answer) => {
                    self.charge(&prepared, &answer);
                    self.is_budgeted = prepared.allowance.is_budget;
                    return Ok(Ok(answer));
                }
                Came::Broken { answer, ending } => {
                    self.charge(&prepared, &answer);
                    self.spent.text = answer.text;
                    return Ok(Err(ending));
                }
                Came::Away { body, status, .. } if self.lost_cursor(context, status, &body)? => {}
                Came::Away { ending, status, retry_after, .. } => {
                    attempt += 1;
                    if let Some(ending) = self.come_back(ending, status, retry_after, attempt) {
                        return Ok(Err(ending));
                    }
                }
            }
        }
    }

    fn prepare(&self, context: &Context) -> Result<Option<Prepared>> {
        let provider = self.means.provider;
        let mut request = Request {
            model: provider.model(),
            context: &context.rendered,
            rounds: &self.spent.rounds,
            tools: &context.tools,
            output_tokens_max: None,
            previous_response_id: context.previous.as_deref(),
        };
        let written = |request: &Request<'_>| {
            body(provider.dialect(), request)
                .map_err(|error| ServiceError::BadFile { path: "the request".into(), detail: error.to_string() })
        };
        let options = &provider.options;
        let bare = written(&request)?;
        let Some(allowance) = allow(options.budget_tokens, &self.spent.usage, &bare, options.output_tokens_max) else {
            return Ok(None);
        };
        request.output_tokens_max = allowance.output_tokens_max;
        Ok(Some(Prepared { body: written(&request)?, allowance }))
    }

    fn ask(&mut self, context: &Context, prepared: &Prepared) -> Result<Came> {
        let index = self.spent.requests;
        self.spent.requests += 1;
        if index > 0 {
            // The journal is read back from the last request on: all before it is on disk.
            self.recorder.flush();
        }
        self.tell_request(index, self.kind(context), &prepared.body);
        self.journal.request(index, self.means.provider.dialect())?;
        let asked = Asked::send(self.means.provider, prepared.body.clone())?;
        self.receive(&asked, index, &prepared.allowance)
    }

    /// What a request is, in the words of the seed.
    fn kind(&self, context: &Context) -> &'static str {
        match (self.spent.rounds.is_empty(), context.previous.is_some()) {
            (true, false) => "initial_items",
            (true, true) => "followup",
            (false, _) => "followup_stateless_history",
        }
    }

    fn tell_request(&self, index: u64, kind: &str, body: &[u8]) {
        let provider = self.means.provider;
        let (endpoint, model) = (provider.shown().to_owned(), provider.model().map(str::to_owned));
        let started: Body = RequestStarted {
            endpoint: endpoint.clone(),
            model: model.clone(),
            request_index: index,
            kind: kind.into(),
        }
        .into();
        let mut kept = Kept::default();
        if provider.options.dump_requests {
            let dump = body[..body.len().min(DUMP_BYTES_MAX)].to_vec();
            let dumped = RequestDumped {
                endpoint,
                model,
                request_index: index,
                kind: kind.into(),
                body_artifact_id: ArtifactId::of(&dump).to_hex(),
                body_bytes: dump.len() as u64,
                total_bytes: body.len() as u64,
                truncated: dump.len() < body.len(),
            };
            kept.frames.push(dumped.into());
            kept.artifacts.push(dump);
        }
        kept.frames.push(started);
        self.recorder.keep(kept);
    }

    /// Whether the provider says that it has lost its own conversation. Then all of ours is sent.
    fn lost_cursor(&mut self, context: &mut Context, status: u16, body: &str) -> Result<bool> {
        let is_lost = (400..500).contains(&status) && body.contains("previous_response");
        if context.previous.is_none() || !is_lost {
            return Ok(false);
        }
        let session = self.session;
        let cleared = session.cursor_update(self.means.provider, None, "cleared", "provider_lost_it");
        session.store.append_bodies(&session.thread, &[cleared], Vec::new())?;
        (context.previous, context.rendered) = (None, context.whole.clone());
        Ok(true)
    }

    /// Waits to be asked back, or says why not.
    fn come_back(
        &mut self,
        ending: Ending,
        status: u16,
        retry_after: Option<Duration>,
        attempt: u32,
    ) -> Option<Ending> {
        let options = &self.means.provider.options;
        // Who was never reached, or refuses for now, has not worked yet.
        let is_temporary = matches!(status, 0 | 408 | 429 | 500..=599);
        if !is_temporary || attempt > options.retries {
            return Some(ending);
        }
        let pause = retry_after.unwrap_or(options.backoff.saturating_mul(1 << (attempt - 1).min(6)));
        if pause > WAIT_MAX {
            let detail = format!("{}, and asks to come back in {} s", ending.detail, pause.as_secs());
            return Some(Ending { detail, ..ending });
        }
        (self.watch)(TurnEvent::Waiting { seconds: pause.as_secs(), because: &ending.detail });
        wait(pause, self.means.cancel).err().map(ending_of)
    }

    fn charge(&mut self, prepared: &Prepared, answer: &Answer) {
        let counted = answer.usage.unwrap_or_else(|| measured(&prepared.body, &answer.text));
        add(&mut self.spent.usage, &counted);
    }

    /// What an answer asks for next: `None` to go on.
    fn taken(&mut self, answer: Answer) -> Result<Option<Ending>> {
        self.spent.response_id = answer.response_id.clone();
        let text = answer.text.clone();
        let ending = match answer.stop {
            Some(Stop::ToolCalls) => {
                let round = Round { text, calls: answer.calls, outcomes: Vec::new() };
                return self.call_tools(round);
            }
            Some(Stop::Completed) | None => Ending::completed(),
            Some(Stop::OutputLimit) if self.is_budgeted => {
                Ending::new(EndReason::TokenBudget, "the answer took what was left of the budget")
            }
            Some(Stop::OutputLimit) => Ending::new(EndReason::OutputLimit, "the answer took as many tokens as it may"),
            Some(Stop::Refused(said)) => Ending::new(EndReason::Refused, said),
            Some(Stop::Failed(said)) => Ending::new(EndReason::ProviderError, said),
        };
        self.spent.text = text;
        Ok(Some(ending))
    }

    /// What went wrong on the way, as an event among those that came.
    pub(super) fn tell_fault(&self, ending: &Ending) {
        let told: Value = json!({"type": "enjamb.fault", "reason": ending.reason.as_str()});
        self.recorder.push(vec![of_ours("enjamb.fault", told, vec![ending.detail.clone()])]);
    }
}

/// Whether the store itself failed, so that nothing more can be recorded.
fn is_of_store(error: &ServiceError) -> bool {
    matches!(error, ServiceError::Ledger(_))
        && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::Internal)
}
