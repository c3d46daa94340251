//! Compiling a chain of commits of any runtime.

use enjamb_core::compile::{
    BUNDLE_SCHEMA, Bundle, COMPILER_ID, ChainStrategy, Compiler, EntryItems, Provenance, Shown, Source, entry_items,
    fit, say,
};
use enjamb_core::frame::{Body, ChainCompiled, ChainSelectionDecided, ContextBody};
use enjamb_core::order::MarkKey;
use enjamb_core::{ArtifactId, CommitId, Json};
use enjamb_formats::TokenCounting;
use enjamb_ledger::{Batch, NewArtifact};
use serde_json::{Value, json};

use super::{Audit, Budget, ContextCandidate};
use crate::compact::ChainSaid;
use crate::render::{SHOWN_BYTES_MAX, shown_bytes};
use crate::{Actor, Result, Store, ThreadError};

/// The member of a decision's reason that lists pins.
const PINNED: &str = "pinned";

/// A compiled chain.
#[derive(Clone, Debug)]
pub struct CompiledChain {
    pub bundle: Bundle,
    pub bytes: Vec<u8>,
    pub artifact: ArtifactId,
    pub candidates: Vec<ContextCandidate>,
    /// Entries that claim to be the system's or the developer's, and are given as the user's.
    pub downgraded: usize,
    /// The seq of the decision in the stream of the commit's principal; `None` when nothing was written.
    pub decided_seq: Option<u64>,
}

/// What a bundle of a chain follows from, besides the chain.
struct ChainInputs {
    strategy: ChainStrategy,
    /// Commits pinned when it was decided. Tags change, so that an audit asks the decision.
    pins: Option<Vec<CommitId>>,
    provenance: Provenance,
}

/// A bundle, and what goes with it.
struct ChainBundle {
    compiled: CompiledChain,
    kept_outside: Vec<Vec<u8>>,
    pins: Vec<CommitId>,
}

impl Store {
    /// Compiles what a chain holds into a bundle and, unless it is a dry run, stores it with what was decided, in the
    /// stream of the commit's principal: what is said of a commit is said there.
    pub fn compile_chain(
        &self,
        tip: &CommitId,
        budget: Option<Budget>,
        run: Option<String>,
        dry_run: bool,
        by: &Actor,
    ) -> Result<CompiledChain> {
        let strategy = match &budget {
            Some(budget) => ChainStrategy::TokenBudget { tokens: budget.tokens, method: budget.method().into() },
            None => ChainStrategy::Messages,
        };
        let fresh = || if dry_run { "dry-run".to_owned() } else { self.env.new_id() };
        let provenance = Provenance {
            run_session_id: run.unwrap_or_else(fresh),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let made = self.chain_bundle(tip, &ChainInputs { strategy: strategy.clone(), pins: None, provenance })?;
        if dry_run {
            return Ok(made.compiled);
        }
        let decided_seq = Some(self.record_chain(tip, &strategy, &made)?);
        Ok(CompiledChain { decided_seq, ..made.compiled })
    }

    /// Stores a bundle, that it was decided on and that it was compiled. Returns the seq of the decision.
    fn record_chain(&self, tip: &CommitId, strategy: &ChainStrategy, made: &ChainBundle) -> Result<u64> {
        let stream = self.show(tip)?.stream;
        let all = made.kept_outside.iter().chain([&made.compiled.bytes]);
        let artifacts = all.map(|bytes| self.artifact_of(bytes.clone())).collect::<Result<Vec<NewArtifact>>>()?;
        let bodies = [decided(tip, strategy, made), contexted(tip, &made.compiled)];
        let frames = bodies.iter().map(|body| self.frame_of(&stream, body)).collect::<Result<Vec<_>>>()?;
        let appended = self.ledger.append(Batch { artifacts, frames, ..Batch::default() })?;
        Ok(appended.frames[0].seq)
    }

    fn chain_bundle(&self, tip: &CommitId, inputs: &ChainInputs) -> Result<ChainBundle> {
        let generation = self.show(tip)?.link.generation;
        let ChainSaid { entries, pins } = self.chain_said(tip, inputs.pins.as_deref())?;
        let strategy = &inputs.strategy;
        let (told, candidates) = match strategy {
            ChainStrategy::Messages => whole(entry_items(&entries, usize::MAX)),
            ChainStrategy::TokenBudget { tokens, method } => {
                let unknown = || ThreadError::UnknownStrategy(strategy.to_string());
                let counting = Budget::counting(method).ok_or_else(unknown)?;
                within(&Budget { tokens: *tokens, counting }, entry_items(&entries, SHOWN_BYTES_MAX))?
            }
        };
        let (mut items, mut kept_outside) = (Vec::new(), Vec::new());
        let downgraded = told.iter().filter(|told| told.downgraded).count();
        for told in told {
            items.extend(told.items);
            kept_outside.extend(told.kept_outside);
        }
        let bundle = Bundle {
            schema: BUNDLE_SCHEMA.into(),
            compiler: Compiler { id: COMPILER_ID.into(), strategy: strategy.to_string() },
            source: Source { thread_id: tip.to_string(), from_seq: generation, from_message_id: None },
            provenance: inputs.provenance.clone(),
            items,
        };
        let bytes = bundle.to_bytes();
        let artifact = ArtifactId::of(&bytes);
        let compiled = CompiledChain { bundle, bytes, artifact, candidates, downgraded, decided_seq: None };
        Ok(ChainBundle { compiled, kept_outside, pins })
    }

    pub(super) fn audit_chain(&self, artifact: &ArtifactId, bundle: &Bundle, tip: &CommitId) -> Result<Audit> {
        let decision = self.chain_decision(tip, &bundle.provenance.run_session_id)?;
        let strategy = decision.compiler_strategy.parse();
        let strategy = strategy.map_err(|()| ThreadError::UnknownStrategy(decision.compiler_strategy.clone()))?;
        let provenance = bundle.provenance.clone();
        let made = self.chain_bundle(tip, &ChainInputs { strategy, pins: Some(pinned(&decision)), provenance })?;
        let again = made.compiled;
        let differences = super::audit::differences(bundle, &again.bundle);
        Ok(Audit { bundle: *artifact, recompiled: again.artifact, differences, other_choice: None })
    }

    /// What was decided for a run from a chain.
    fn chain_decision(&self, tip: &CommitId, run: &str) -> Result<ChainSelectionDecided> {
        let stream = self.show(tip)?.stream;
        let unknown = || ThreadError::UnknownRun { thread: stream.to_string(), run: run.to_owned() };
        let seq = self.seq_of(&stream, &MarkKey::RunDecided(run.to_owned()))?.ok_or_else(unknown)?;
        match self.frame_at(&stream, seq)?.body {
            Body::Context(ContextBody::ChainSelectionDecided(decision)) => Ok(decision),
            _ => Err(unknown().into()),
        }
    }
}

fn decided(tip: &CommitId, strategy: &ChainStrategy, made: &ChainBundle) -> Body {
    let Bundle { compiler, provenance, .. } = &made.compiled.bundle;
    let (limits, pins) = match strategy {
        ChainStrategy::Messages => (json!({}), [].as_slice()),
        ChainStrategy::TokenBudget { tokens, method } => {
            let limits = json!({"chain_token_budget_v1_max_tokens": tokens, "chain_token_budget_v1_method": method});
            // Only a budget could leave them out.
            (limits, made.pins.as_slice())
        }
    };
    let mut reason = json!({"cause": "chain", "selected": compiler.strategy});
    if !pins.is_empty() {
        reason[PINNED] = pins.iter().map(|id| Value::from(id.to_string())).collect();
    }
    ChainSelectionDecided {
        run_session_id: provenance.run_session_id.clone(),
        commit_id: tip.to_string(),
        compiler_id: compiler.id.clone(),
        compiler_strategy: compiler.strategy.clone(),
        limits: Json::from(limits),
        reason: Some(Json::from(reason)),
        actor_id: provenance.actor_id.clone(),
        origin: provenance.origin.clone(),
    }
    .into()
}

/// The commits that were pinned when it was decided.
fn pinned(decision: &ChainSelectionDecided) -> Vec<CommitId> {
    let reason = decision.reason.as_ref().and_then(|reason| serde_json::from_str::<Value>(reason.get()).ok());
    let pins = reason.and_then(|mut reason| reason[PINNED].take().as_array().cloned()).unwrap_or_default();
    pins.iter().filter_map(|pin| pin.as_str()?.parse().ok()).collect()
}

fn contexted(tip: &CommitId, compiled: &CompiledChain) -> Body {
    let Bundle { compiler, source, provenance, .. } = &compiled.bundle;
    ChainCompiled {
        run_session_id: provenance.run_session_id.clone(),
        commit_id: tip.to_string(),
        bundle_artifact_id: compiled.artifact.to_hex(),
        compiler_id: compiler.id.clone(),
        compiler_strategy: compiler.strategy.clone(),
        from_seq: source.from_seq,
        actor_id: provenance.actor_id.clone(),
        origin: provenance.origin.clone(),
    }
    .into()
}

fn whole(told: Vec<EntryItems>) -> (Vec<EntryItems>, Vec<ContextCandidate>) {
    let count = |told: &EntryItems| weigh(told, TokenCounting::Exact);
    let candidates = told.iter().enumerate().map(|(at, told)| candidate(at, true, count(told), "chain_messages_v1"));
    let candidates = candidates.collect();
    (told, candidates)
}

/// Pins and the last entry have to be in; the rest from the end, for as long as it fits.
fn within(budget: &Budget, told: Vec<EntryItems>) -> Result<(Vec<EntryItems>, Vec<ContextCandidate>)> {
    let sizes: Vec<u64> = told.iter().map(|told| weigh(told, budget.counting)).collect();
    let last = told.len().saturating_sub(1);
    let is_required = |at: usize| told[at].pinned || at == last;
    let required = (0..told.len()).filter(|at| is_required(*at)).map(|at| sizes[at]).sum();
    let optional: Vec<usize> = (0..told.len()).rev().filter(|at| !is_required(*at)).collect();
    let optional_sizes: Vec<u64> = optional.iter().map(|at| sizes[*at]).collect();
    let fitted = fit(budget.tokens, required, &optional_sizes);
    let fitted = fitted.ok_or(ThreadError::BudgetTooSmall { budget: budget.tokens, needed: required })?;
    let taken = &optional[..fitted.taken];
    let is_in: Vec<bool> = (0..told.len()).map(|at| is_required(at) || taken.contains(&at)).collect();
    let rule = |at: usize| if told[at].pinned { "pinned" } else { "chain_token_budget_v1" };
    let candidates = (0..told.len()).map(|at| candidate(at, is_in[at], sizes[at], rule(at))).collect();
    let told = told.into_iter().zip(is_in).filter(|(_, is_in)| *is_in).map(|(told, _)| told).collect();
    Ok((told, candidates))
}

/// Tokens of what an entry comes to, as it is rendered.
fn weigh(told: &EntryItems, counting: TokenCounting) -> u64 {
    let mut outside = told.kept_outside.iter();
    let shown = told.items.iter().map(|item| match item {
        enjamb_core::compile::Item::ArtifactRef { .. } => {
            say(item, &outside.next().map_or(Shown::Nothing, |bytes| shown_bytes(bytes.clone())))
        }
        _ => say(item, &Shown::Nothing),
    });
    shown.map(|said| counting.count(&said.content)).sum()
}

fn candidate(at: usize, included: bool, tokens: u64, rule: &'static str) -> ContextCandidate {
    let reason = match (included, rule) {
        (true, "pinned") => "pins are always in",
        (true, _) => "fits",
        (false, _) => "does not fit the budget",
    };
    ContextCandidate { included, tokens, rule, source: format!("entry {at}"), reason: reason.into() }
}
