//! Compiling a thread's context for a run: the bundle, and the frames that say what was decided and why.

mod audit;
mod chain;
mod compose;
mod inputs;
mod retrieve;
#[cfg(test)]
mod tests;
mod within;

use enjamb_core::compile::{ActorRoles, Bundle, COMPILER_ID, Choice, Compiler, Provenance, Source, Strategy};
use enjamb_core::compile::{BUNDLE_SCHEMA, RetrievalResults, cut_point};
use enjamb_core::frame::{Body, CheckpointRef, ContextCompiled, ContinuityBody, SelectionDecided};
use enjamb_core::order::{MarkKey, Rule};
use enjamb_core::{ArtifactId, Json, StreamId, limits};
use enjamb_formats::TokenCounting;
use enjamb_ledger::{Batch, LedgerError, NewArtifact};
use serde_json::Value;

pub use audit::Audit;
pub use chain::CompiledChain;
pub use compose::ContextCandidate;
use inputs::Inputs;
use retrieve::retrieval_decided;

use crate::thread::run_spawned;
use crate::timeline::MessageAt;
use crate::{Actor, Result, ServiceError, Store, ThreadError};

/// What to compile, and how.
#[derive(Clone, Debug, Default)]
pub struct Compile {
    /// The message that the context is for; without it, that of the run, or the thread's last.
    pub message: Option<String>,
    /// The run that is to start from it; without it, one that waits for its context, or a new one.
    pub run: Option<String>,
    /// Without it, one of the seed's three, by how many summaries there are.
    pub strategy: Option<Strategy>,
    /// For [`Strategy::TokenBudget`].
    pub budget: Option<Budget>,
    /// For [`Strategy::ActorRoles`].
    pub roles: ActorRoles,
    /// Files of the workspace to refer to: their paths, and their bytes as they are now.
    pub files: Vec<(String, Vec<u8>)>,
    pub artifacts: Vec<ArtifactId>,
    /// A summary that cannot be read is a failure, not a reset.
    pub strict: bool,
    /// Count the tokens of every candidate.
    pub explain: bool,
    /// Write nothing.
    pub dry_run: bool,
}

/// A number of tokens, and how they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub tokens: u64,
    pub counting: TokenCounting,
}

impl Budget {
    /// The name of the counting, as decisions record it.
    pub fn method(&self) -> &'static str {
        match self.counting {
            TokenCounting::Exact => enjamb_formats::TOKENIZER,
            TokenCounting::Cheap => "bytes",
        }
    }

    pub fn counting(method: &str) -> Option<TokenCounting> {
        match method {
            enjamb_formats::TOKENIZER => Some(TokenCounting::Exact),
            "bytes" => Some(TokenCounting::Cheap),
            _ => None,
        }
    }
}

/// A compiled context.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub bundle: Bundle,
    pub bytes: Vec<u8>,
    pub artifact: ArtifactId,
    pub limits: Value,
    pub choice: Choice,
    pub candidates: Vec<ContextCandidate>,
    /// What was searched for and found, and where it is kept.
    pub retrieved: Option<(RetrievalResults, ArtifactId)>,
    /// The seq of the decision; `None` when nothing was written.
    pub decided_seq: Option<u64>,
}

impl Store {
    /// Compiles a thread's context and records it, all in one batch.
    pub fn compile(&self, thread: &StreamId, request: &Compile, by: &Actor) -> Result<Compiled> {
        check(request)?;
        let anchor = self.anchor(thread, request)?;
        if request.dry_run {
            let run = request.run.clone().map_or_else(|| self.waiting_run(thread, &anchor), |run| Ok(Some(run)))?;
            let run = run.unwrap_or_else(|| "dry-run".into());
            return self.compiled(thread, &anchor, &run, request, by).map(|(compiled, _)| compiled);
        }
        loop {
            let run = match &request.run {
                Some(run) => run.clone(),
                None => self.run_for(thread, &anchor, request, by)?,
            };
            let (mut compiled, artifacts) = self.compiled(thread, &anchor, &run, request, by)?;
            match self.record(thread, &compiled, artifacts) {
                Ok(seq) => {
                    compiled.decided_seq = Some(seq);
                    return Ok(compiled);
                }
                // Someone else found the run waiting too, and was quicker.
                Err(error) if request.run.is_none() && is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A run that waits for its context, or one that is said to start now.
    fn run_for(&self, thread: &StreamId, anchor: &MessageAt, request: &Compile, by: &Actor) -> Result<String> {
        if let Some(run) = self.waiting_run(thread, anchor)? {
            return Ok(run);
        }
        // What cannot be compiled is found out before a run is said to have started.
        self.compiled(thread, anchor, "dry-run", request, by)?;
        let run = self.env.new_id();
        self.append_bodies(thread, &[run_spawned(&run, &anchor.id, by)], Vec::new())?;
        Ok(run)
    }

    /// The message that a context is for.
    fn anchor(&self, thread: &StreamId, request: &Compile) -> Result<MessageAt> {
        let head = self.thread_head(thread)?;
        let of_run = request.run.as_deref().map(|run| self.message_of_run(thread, run)).transpose()?;
        if let (Some(message), Some(own)) = (&request.message, &of_run)
            && message != own
        {
            let (text, expected) = (message.clone(), "the message that the run was spawned for, or none");
            return Err(ServiceError::Invalid { what: "message", text, expected });
        }
        match request.message.clone().or(of_run) {
            Some(id) => Ok(MessageAt { seq: self.message_seq(thread, &id)?, id }),
            None => {
                let last = self.messages_back(thread, None, head, 1)?.pop();
                Ok(last.ok_or_else(|| ThreadError::NoMessages(thread.id.clone()))?)
            }
        }
    }

    /// The message that a run was spawned for. The run goes on, or it needs no context any more.
    fn message_of_run(&self, thread: &StreamId, run: &str) -> Result<String> {
        let name = || (thread.id.clone(), run.to_owned());
        let Some(seq) = self.seq_of(thread, &MarkKey::RunSpawned(run.to_owned()))? else {
            let (thread, run) = name();
            return Err(ThreadError::UnknownRun { thread, run }.into());
        };
        if self.seq_of(thread, &MarkKey::RunEnded(run.to_owned()))?.is_some() {
            let (thread, run) = name();
            return Err(ThreadError::RunEnded { thread, run }.into());
        }
        match self.said_at(thread, seq)? {
            ContinuityBody::RunSpawned(run) => Ok(run.message_id),
            _ => Err(ThreadError::UnknownRun { thread: thread.id.clone(), run: run.to_owned() }.into()),
        }
    }

    /// The last run that was spawned for a message, if it has neither ended nor been given a context.
    fn waiting_run(&self, thread: &StreamId, anchor: &MessageAt) -> Result<Option<String>> {
        let spawned = self.runs_of(thread, &anchor.id)?.into_iter().rfind(|(_, ended)| !ended);
        let Some((seq, _)) = spawned else { return Ok(None) };
        let ContinuityBody::RunSpawned(run) = self.said_at(thread, seq)? else { return Ok(None) };
        let run = run.run_session_id;
        let used = [MarkKey::RunEnded(run.clone()), MarkKey::RunDecided(run.clone())];
        for key in used {
            if self.seq_of(thread, &key)?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(run))
    }

    fn compiled(
        &self,
        thread: &StreamId,
        anchor: &MessageAt,
        run: &str,
        request: &Compile,
        by: &Actor,
    ) -> Result<(Compiled, Vec<NewArtifact>)> {
        let next = self.message_after(thread, anchor.seq)?.map(|message| message.seq);
        let from_seq = cut_point(anchor.seq, next, self.thread_head(thread)?);
        let inputs = self.inputs(thread, anchor, from_seq, request)?;
        let provenance =
            Provenance { run_session_id: run.to_owned(), actor_id: by.actor_id.clone(), origin: by.origin.clone() };
        self.bundled(inputs, provenance, request.explain)
    }

    /// The bundle that follows from inputs, and bytes that it refers to and that are new.
    fn bundled(&self, inputs: Inputs, provenance: Provenance, explain: bool) -> Result<(Compiled, Vec<NewArtifact>)> {
        let mut composed = self.compose(&inputs, explain)?;
        composed.artifacts.extend(inputs.fresh.iter().map(|bytes| NewArtifact::from_bytes(bytes.clone())));
        let bundle = Bundle {
            schema: BUNDLE_SCHEMA.into(),
            compiler: Compiler { id: COMPILER_ID.into(), strategy: inputs.choice.strategy.id().into() },
            source: Source {
                thread_id: inputs.thread.id.clone(),
                from_seq: inputs.from_seq,
                from_message_id: Some(inputs.anchor.id.clone()),
            },
            provenance,
            items: composed.items,
        };
        let bytes = bundle.to_bytes();
        let results = |id: ArtifactId| {
            let bytes = inputs.fresh.iter().find(|bytes| ArtifactId::of(bytes) == id)?;
            Some((RetrievalResults::parse(bytes)?, id))
        };
        let retrieved = inputs.retrieved.and_then(results);
        let compiled = Compiled {
            artifact: ArtifactId::of(&bytes),
            bundle,
            bytes,
            limits: inputs.limits(),
            choice: Choice {
                reason: inputs.reason(),
                resets: [inputs.choice.resets, composed.resets].concat(),
                ..inputs.choice
            },
            candidates: composed.candidates,
            retrieved,
            decided_seq: None,
        };
        Ok((compiled, composed.artifacts))
    }

    /// Stores the bundle, that it was decided on and that it was compiled. Returns the seq of the decision.
    fn record(&self, thread: &StreamId, compiled: &Compiled, mut artifacts: Vec<NewArtifact>) -> Result<u64> {
        artifacts.push(self.artifact_of(compiled.bytes.clone())?);
        let mut bodies = Vec::new();
        if let Some((results, id)) = &compiled.retrieved {
            let Provenance { run_session_id, actor_id, origin } = &compiled.bundle.provenance;
            let message = compiled.bundle.source.from_message_id.as_deref().unwrap_or_default();
            let by = (actor_id.clone(), origin.clone());
            bodies.push(retrieval_decided(run_session_id, message, results, *id, by));
        }
        bodies.extend([decided(compiled), contexted(compiled)]);
        let at = bodies.len() - 2;
        let frames = bodies.iter().map(|body| self.frame_of(thread, body)).collect::<Result<Vec<_>>>()?;
        let appended = self.ledger.append(Batch { artifacts, frames, ..Batch::default() })?;
        Ok(appended.frames[at].seq)
    }
}

fn is_taken(error: &ServiceError) -> bool {
    let ServiceError::Ledger(LedgerError::Refused(refusal)) = error else { return false };
    matches!(refusal.rule, Rule::SelectionAfterCompiled | Rule::RunEnded)
}

/// Refuses what no thread could make right, and what the seed's strategies have no place for.
fn check(request: &Compile) -> Result<()> {
    let invalid = |what, text: &str, expected| Err(ServiceError::Invalid { what, text: text.into(), expected });
    let name = request.strategy.map_or("auto", Strategy::id);
    let is_bounded = request.strategy == Some(Strategy::TokenBudget);
    let is_seeds =
        matches!(request.strategy, None | Some(Strategy::Recent | Strategy::Summaries | Strategy::Hierarchical));
    let extras = !request.files.is_empty() || !request.artifacts.is_empty() || !request.roles.is_empty();
    if is_bounded && request.budget.is_none() {
        return invalid("budget", "none", "a number of tokens");
    }
    if !is_bounded && request.budget.is_some() {
        return invalid("strategy", name, "token_budget_v1 when a budget is given");
    }
    if request.strategy == Some(Strategy::ActorRoles) && request.roles.is_empty() {
        return invalid("role", "none", "at least one ACTOR=ROLE");
    }
    if is_seeds && extras {
        return invalid("strategy", name, "one of our own when files, artifacts or roles are given");
    }
    request.files.iter().try_for_each(|(path, bytes)| check_file(path, bytes))
}

fn check_file(path: &str, bytes: &[u8]) -> Result<()> {
    if bytes.len() <= limits::ARTIFACT_INLINE_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("it has {} bytes: put it, and give it as an artifact", bytes.len());
    Err(ServiceError::BadFile { path: path.into(), detail })
}

fn decided(compiled: &Compiled) -> Body {
    let (source, provenance) = (&compiled.bundle.source, &compiled.bundle.provenance);
    let checkpoints: Vec<_> = compiled.choice.checkpoints.iter().map(CheckpointRef::from).collect();
    SelectionDecided {
        run_session_id: provenance.run_session_id.clone(),
        message_id: source.from_message_id.clone().unwrap_or_default(),
        compiler_id: compiled.bundle.compiler.id.clone(),
        compiler_strategy: compiled.bundle.compiler.strategy.clone(),
        limits: Json::from(compiled.limits.clone()),
        compaction_checkpoint: checkpoints.last().cloned(),
        compaction_checkpoints: checkpoints,
        resets: compiled.choice.resets.clone(),
        reason: Some(Json::from(compiled.choice.reason.clone())),
        actor_id: provenance.actor_id.clone(),
        origin: provenance.origin.clone(),
    }
    .into()
}

fn contexted(compiled: &Compiled) -> Body {
    let (source, provenance) = (&compiled.bundle.source, &compiled.bundle.provenance);
    ContextCompiled {
        run_session_id: provenance.run_session_id.clone(),
        bundle_artifact_id: compiled.artifact.to_hex(),
        compiler_id: compiled.bundle.compiler.id.clone(),
        compiler_strategy: compiled.bundle.compiler.strategy.clone(),
        from_seq: source.from_seq,
        from_message_id: source.from_message_id.clone(),
        actor_id: provenance.actor_id.clone(),
        origin: provenance.origin.clone(),
    }
    .into()
}
