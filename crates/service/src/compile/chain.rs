//! Compiling a chain of commits of any runtime.

use enjamb_core::ArtifactId;
use enjamb_core::CommitId;
use enjamb_core::compile::{
    BUNDLE_SCHEMA, Bundle, COMPILER_ID, ChainStrategy, Compiler, EntryItems, Provenance, Shown, Source, entry_items,
    fit, say,
};
use enjamb_formats::TokenCounting;
use enjamb_ledger::{Batch, Ledger, NewArtifact};

use super::{Audit, Budget, ContextCandidate};
use crate::render::{SHOWN_BYTES_MAX, shown_bytes};
use crate::{Actor, Result, Store, ThreadError};

/// A compiled chain.
#[derive(Clone, Debug)]
pub struct CompiledChain {
    pub bundle: Bundle,
    pub bytes: Vec<u8>,
    pub artifact: ArtifactId,
    pub candidates: Vec<ContextCandidate>,
}

impl Store {
    /// Compiles what a chain holds into a bundle, and stores it unless it is a dry run. There is no thread, so nothing
    /// is recorded: the bundle itself names the commit and everything that was asked for.
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
        let provenance = Provenance {
            run_session_id: run.unwrap_or_else(|| tip.to_string()),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let (compiled, kept_outside) = self.chain_bundle(tip, &strategy, provenance)?;
        if !dry_run {
            let all = kept_outside.into_iter().chain([compiled.bytes.clone()]);
            let artifacts = all.map(|bytes| self.artifact_of(bytes)).collect::<Result<Vec<NewArtifact>>>()?;
            self.ledger.append(Batch { artifacts, ..Batch::default() })?;
        }
        Ok(compiled)
    }

    fn chain_bundle(
        &self,
        tip: &CommitId,
        strategy: &ChainStrategy,
        provenance: Provenance,
    ) -> Result<(CompiledChain, Vec<Vec<u8>>)> {
        let generation = self.show(tip)?.link.generation;
        let entries = self.chain_entries(tip)?;
        let (told, candidates) = match strategy {
            ChainStrategy::Messages => whole(entry_items(&entries, usize::MAX)),
            ChainStrategy::TokenBudget { tokens, method } => {
                let unknown = || ThreadError::UnknownStrategy(strategy.to_string());
                let counting = Budget::counting(method).ok_or_else(unknown)?;
                within(&Budget { tokens: *tokens, counting }, entry_items(&entries, SHOWN_BYTES_MAX))?
            }
        };
        let (mut items, mut kept_outside) = (Vec::new(), Vec::new());
        for told in told {
            items.extend(told.items);
            kept_outside.extend(told.kept_outside);
        }
        let bundle = Bundle {
            schema: BUNDLE_SCHEMA.into(),
            compiler: Compiler { id: COMPILER_ID.into(), strategy: strategy.to_string() },
            source: Source { thread_id: tip.to_string(), from_seq: generation, from_message_id: None },
            provenance,
            items,
        };
        let bytes = bundle.to_bytes();
        let artifact = ArtifactId::of(&bytes);
        Ok((CompiledChain { bundle, bytes, artifact, candidates }, kept_outside))
    }

    pub(super) fn audit_chain(&self, artifact: &ArtifactId, bundle: &Bundle, tip: &CommitId) -> Result<Audit> {
        let strategy = bundle.compiler.strategy.parse();
        let strategy = strategy.map_err(|()| ThreadError::UnknownStrategy(bundle.compiler.strategy.clone()))?;
        let (again, _) = self.chain_bundle(tip, &strategy, bundle.provenance.clone())?;
        let differences = super::audit::differences(bundle, &again.bundle);
        Ok(Audit { bundle: *artifact, recompiled: again.artifact, differences, other_choice: None })
    }
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
