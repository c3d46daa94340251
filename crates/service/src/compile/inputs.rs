//! What a compile rests on: gathered from the store, or read back from what was recorded.

use std::collections::HashSet;

use enjamb_core::compile::{ActorRoles, CUMULATIVE, Checkpoint, Choice, Choosing, Strategy, Summary, choose};
use enjamb_core::conversation::Role;
use enjamb_core::frame::{CheckpointRef, SelectionDecided};
use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::LedgerError;
use serde_json::{Value, json};

use super::{Budget, Compile};
use crate::timeline::{CheckpointAt, MessageAt};
use crate::{Result, ServiceError, Store, ThreadError};

/// Everything that the items of a bundle follow from, besides what the log says up to the cut.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) thread: StreamId,
    pub(super) anchor: MessageAt,
    pub(super) from_seq: u64,
    pub(super) choice: Choice,
    pub(super) budget: Option<Budget>,
    pub(super) roles: ActorRoles,
    /// Pinned messages; only a budget could leave them out.
    pub(super) pins: Vec<String>,
    pub(super) files: Vec<(String, ArtifactId)>,
    pub(super) artifacts: Vec<ArtifactId>,
    /// What was found that is like the message answered.
    pub(super) retrieved: Option<ArtifactId>,
    /// Bytes of the above that may not be stored yet.
    pub(super) fresh: Vec<Vec<u8>>,
}

const BUDGET_TOKENS: &str = "token_budget_v1_max_tokens";
const BUDGET_METHOD: &str = "token_budget_v1_method";

impl Inputs {
    /// The bounds of the strategy, as the decision records them.
    pub(super) fn limits(&self) -> Value {
        let mut limits = Choice::limits();
        if let Some(budget) = &self.budget {
            limits[BUDGET_TOKENS] = budget.tokens.into();
            limits[BUDGET_METHOD] = budget.method().into();
        }
        limits
    }

    /// Why it was chosen, with every input that is not to be found in the log up to the cut.
    pub(super) fn reason(&self) -> Value {
        let mut reason = self.choice.reason.clone();
        if !self.pins.is_empty() {
            reason["pinned"] = json!(self.pins);
        }
        if !self.files.is_empty() {
            let file = |(path, id): &(String, ArtifactId)| json!({"path": path, "digest": id.to_hex()});
            reason["files"] = self.files.iter().map(file).collect();
        }
        if !self.artifacts.is_empty() {
            reason["artifacts"] = self.artifacts.iter().map(|id| id.to_hex()).collect();
        }
        if let Some(results) = &self.retrieved {
            reason["retrieved"] = results.to_hex().into();
        }
        if !self.roles.is_empty() {
            let roles = self.roles.iter().map(|(actor, role)| (actor.clone(), role.as_str().into()));
            reason["actor_roles"] = Value::Object(roles.collect());
        }
        reason
    }

    /// The inputs that a decision recorded.
    pub(super) fn recorded(
        thread: &StreamId,
        anchor: MessageAt,
        from_seq: u64,
        decision: &SelectionDecided,
    ) -> Option<Self> {
        let parsed = |json: &str| serde_json::from_str::<Value>(json).ok();
        let reason = decision.reason.as_ref().and_then(|reason| parsed(reason.get())).unwrap_or(Value::Null);
        let limits = parsed(decision.limits.get())?;
        let list = |key: &str| reason[key].as_array().cloned().unwrap_or_default();
        let id = |value: &Value| value.as_str().and_then(|hex| hex.parse::<ArtifactId>().ok());
        let budget = limits[BUDGET_TOKENS].as_u64().zip(limits[BUDGET_METHOD].as_str().and_then(Budget::counting));
        let roles = reason["actor_roles"].as_object().cloned().unwrap_or_default();
        let role = |(actor, role): (String, Value)| Some((actor, Role::from_name(role.as_str()?)?));
        Some(Self {
            thread: thread.clone(),
            anchor,
            from_seq,
            choice: Choice {
                strategy: Strategy::from_id(&decision.compiler_strategy)?,
                checkpoints: decision.compaction_checkpoints.iter().map(checkpoint_of).collect(),
                resets: decision.resets.clone(),
                reason: reason.clone(),
            },
            budget: budget.map(|(tokens, counting)| Budget { tokens, counting }),
            roles: roles.into_iter().filter_map(role).collect(),
            pins: list("pinned").iter().filter_map(|pin| pin.as_str().map(str::to_owned)).collect(),
            files: list("files")
                .iter()
                .filter_map(|file| Some((file["path"].as_str()?.to_owned(), id(&file["digest"])?)))
                .collect(),
            artifacts: list("artifacts").iter().filter_map(id).collect(),
            retrieved: id(&reason["retrieved"]),
            fresh: Vec::new(),
        })
    }
}

impl Store {
    pub(super) fn inputs(
        &self,
        thread: &StreamId,
        anchor: &MessageAt,
        from_seq: u64,
        request: &Compile,
    ) -> Result<Inputs> {
        for id in &request.artifacts {
            self.artifact(id)?;
        }
        let is_bounded = request.strategy == Some(Strategy::TokenBudget);
        let choice = self.choice(thread, from_seq, None, request.strategy, request.strict)?;
        let mut fresh: Vec<_> = request.files.iter().map(|(_, bytes)| bytes.clone()).collect();
        let mut retrieved = None;
        if request.strategy == Some(Strategy::Retrieval) {
            let results = self.retrieve(thread, anchor, from_seq, &choice)?.to_bytes();
            retrieved = Some(ArtifactId::of(&results));
            fresh.push(results);
        }
        Ok(Inputs {
            thread: thread.clone(),
            anchor: anchor.clone(),
            from_seq,
            choice,
            budget: request.budget.filter(|_| is_bounded),
            roles: request.roles.clone(),
            pins: if is_bounded { self.pinned_messages(thread)? } else { Vec::new() },
            files: request.files.iter().map(|(path, bytes)| (path.clone(), ArtifactId::of(bytes))).collect(),
            artifacts: request.artifacts.clone(),
            retrieved,
            fresh,
        })
    }

    /// Chooses checkpoints among those whose frames come before `as_of`.
    pub(super) fn choice(
        &self,
        thread: &StreamId,
        from_seq: u64,
        as_of: Option<u64>,
        wished: Option<Strategy>,
        strict: bool,
    ) -> Result<Choice> {
        let mut chooser = Chooser { store: self, thread, as_of, strict, unavailable: Vec::new(), seen: HashSet::new() };
        choose(&mut chooser, from_seq, wished)
    }

    /// The summary that an artifact holds.
    pub(crate) fn summary_artifact(&self, id: &str) -> Result<Summary> {
        let not = |detail: String| ThreadError::NotASummary {
            artifact: id.to_owned(),
            expected: "compaction summary",
            detail,
        };
        let artifact: ArtifactId = id.parse().map_err(|_| not("it is not an artifact's id".into()))?;
        Ok(Summary::parse(&self.get_document(&artifact)?).map_err(not)?)
    }
}

fn checkpoint_of(checkpoint: &CheckpointRef) -> Checkpoint {
    Checkpoint {
        checkpoint_id: checkpoint.checkpoint_id.clone(),
        summary_kind: checkpoint.summary_kind.clone(),
        summary_artifact_id: checkpoint.summary_artifact_id.clone(),
        to_seq: checkpoint.to_seq,
    }
}

/// Looks checkpoints up as a choice asks for them.
struct Chooser<'s> {
    store: &'s Store,
    thread: &'s StreamId,
    as_of: Option<u64>,
    strict: bool,
    unavailable: Vec<Checkpoint>,
    seen: HashSet<u64>,
}

impl Chooser<'_> {
    /// The first checkpoint, going back from `upto`, that fits.
    fn first(
        &mut self,
        upto: u64,
        fits: &mut dyn FnMut(&mut Self, &CheckpointAt) -> Result<bool>,
    ) -> Result<Option<Checkpoint>> {
        let mut found = Ok(None);
        let (store, thread) = (self.store, self.thread);
        store.checkpoints_back(thread, upto, &mut |at| {
            if self.as_of.is_some_and(|as_of| at.seq >= as_of) {
                return true;
            }
            match fits(self, &at) {
                Ok(false) => return true,
                Ok(true) => found = Ok(Some(seen(&at))),
                Err(error) => found = Err(error),
            }
            false
        })?;
        found
    }

    fn is_readable(&mut self, at: &CheckpointAt) -> Result<bool> {
        match self.store.summary_artifact(&at.checkpoint.summary_artifact_id) {
            Ok(_) => Ok(true),
            Err(error) if self.strict => Err(error),
            // A disk that fails is no reason to leave a summary out; that it is gone, or is something else, is.
            Err(error) if is_absent(&error) => {
                if self.seen.insert(at.seq) {
                    self.unavailable.push(seen(at));
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether what was looked for is not there, or is something else.
pub(super) fn is_absent(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Thread(ThreadError::NotASummary { .. })
            | ServiceError::Ledger(LedgerError::NoArtifact(_))
            | ServiceError::Unknown { .. }
            | ServiceError::Id(_)
    )
}

fn seen(at: &CheckpointAt) -> Checkpoint {
    Checkpoint {
        checkpoint_id: at.checkpoint.checkpoint_id.clone(),
        summary_kind: at.checkpoint.summary_kind.clone(),
        summary_artifact_id: at.checkpoint.summary_artifact_id.clone(),
        to_seq: at.checkpoint.to_seq,
    }
}

impl Choosing for Chooser<'_> {
    type Error = ServiceError;

    fn cumulative(&mut self, upto: u64) -> Result<Option<Checkpoint>> {
        self.first(upto, &mut |chooser, at| Ok(at.checkpoint.summary_kind == CUMULATIVE && chooser.is_readable(at)?))
    }

    fn any(&mut self, upto: u64) -> Result<Option<Checkpoint>> {
        self.first(upto, &mut |_, _| Ok(true))
    }

    fn unavailable(&mut self) -> Vec<Checkpoint> {
        std::mem::take(&mut self.unavailable)
    }
}
