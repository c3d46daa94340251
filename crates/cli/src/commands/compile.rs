//! `enjamb compile`

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::CommitId;
use enjamb_core::compile::{ActorRoles, Strategy};
use enjamb_core::conversation::Role;
use enjamb_service::ThreadError;
use enjamb_service::{Audit, Budget, Compile as Request, Compiled, ContextCandidate, ServiceError, Store};
use serde_json::{Value, json};

use super::Context;
use super::compact::{Target, target};
use crate::failure::{Exit, Failure, Result};
use crate::text::count;
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb compile 5d1c90ab\n  enjamb compile 5d1c90ab --budget 8000 --explain\n  \
    enjamb compile ctx-3f2a --budget 8000\n  enjamb compile --audit art-3f2a91\n\nStrategies: auto, recent_messages_v1, summaries_recent_messages_v1, \
    hierarchical_summaries_recent_messages_v1, lineage_recent_messages_v1, token_budget_v1, \
    retrieval_recent_messages_v1, actor_roles_recent_messages_v1.")]
pub struct Compile {
    /// A thread, or a commit at the end of a chain
    #[arg(required_unless_present = "audit", conflicts_with = "audit")]
    source: Option<String>,
    /// The message that it is for [default: that of the run, or the last]
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// The run that starts from it [default: one that waits for its context, or a new one]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// How it is chosen what is in [default: auto]
    #[arg(long, value_name = "ID")]
    strategy: Option<String>,
    /// As much as fits so many tokens
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    /// How tokens are counted: o200k_base or bytes
    #[arg(long, value_name = "METHOD", default_value = "o200k_base")]
    counted_by: String,
    /// In which role an actor speaks, such as bob=assistant
    #[arg(long = "role", value_name = "ACTOR=ROLE")]
    roles: Vec<String>,
    /// A file to refer to, as it is now
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// An artifact to refer to
    #[arg(long = "artifact", value_name = "ARTIFACT")]
    artifacts: Vec<String>,
    /// Fail where a summary cannot be read
    #[arg(long)]
    strict: bool,
    /// Show what is in and what is out, with tokens and the rule that decided
    #[arg(long)]
    explain: bool,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
    /// Compile a bundle again from what was recorded, and compare
    #[arg(long, value_name = "BUNDLE")]
    audit: Option<String>,
}

impl Compile {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        if let Some(bundle) = &self.audit {
            return audit(context, &store.audit(&store.resolve_artifact(bundle)?)?);
        }
        let thread = match target(&store, self.source.as_deref().unwrap_or_default())? {
            Target::Thread(thread) => thread,
            Target::Chain(tip) => return self.chain(context, &store, &tip),
        };
        let request = self.request(&store)?;
        let compiled = store.compile(&thread, &request, &context.actor())?;
        report(context, &compiled, self.explain)
    }

    fn chain(&self, context: &mut Context<'_>, store: &Store, tip: &CommitId) -> Result<Exit> {
        let (budget, run) = (self.budget()?, self.run.clone());
        let is_plain = self.strategy.as_deref().is_none_or(|strategy| strategy == "auto")
            && (self.message.is_none() && self.roles.is_empty() && self.files.is_empty() && self.artifacts.is_empty());
        if !is_plain {
            return Err(Failure::usage(
                "a chain is compiled whole or within a --budget; the other options are for threads",
            ));
        }
        let compiled = store.compile_chain(tip, budget, run, self.dry_run, &context.actor())?;
        let artifact = compiled.artifact.to_string();
        if context.ui.is_json() {
            let bundle = &compiled.bundle;
            let mut value = json!({
                "bundle": artifact, "bytes": compiled.bytes.len(), "items": bundle.items.len(),
                "commit": tip.to_string(), "generation": bundle.source.from_seq, "strategy": bundle.compiler.strategy,
                "run": bundle.provenance.run_session_id, "decided_seq": compiled.decided_seq,
            });
            if self.explain {
                value["candidates"] = compiled.candidates.iter().map(candidate_json).collect();
            }
            context.ui.json("compile_chain", value)?;
            return Ok(Exit::Done);
        }
        if self.explain {
            context.ui.table(&candidate_table(&compiled.candidates))?;
        }
        context.ui.answer(artifact)?;
        Ok(Exit::Done)
    }

    fn budget(&self) -> Result<Option<Budget>> {
        let counting = Budget::counting(&self.counted_by).ok_or_else(|| ServiceError::Invalid {
            what: "counting",
            text: self.counted_by.clone(),
            expected: "o200k_base or bytes",
        })?;
        Ok(self.budget.map(|tokens| Budget { tokens, counting }))
    }

    fn request(&self, store: &Store) -> Result<Request> {
        let budget = self.budget()?;
        let roles = self.roles.iter().map(|text| actor_role(text)).collect::<Result<ActorRoles>>()?;
        let files = self.files.iter().map(|path| read(path)).collect::<Result<_>>()?;
        let artifacts = self.artifacts.iter().map(|text| store.resolve_artifact(text));
        Ok(Request {
            message: self.message.clone(),
            run: self.run.clone(),
            strategy: self.strategy(!roles.is_empty())?,
            budget,
            roles,
            files,
            artifacts: artifacts.collect::<std::result::Result<_, _>>()?,
            strict: self.strict,
            explain: self.explain,
            dry_run: self.dry_run,
        })
    }

    /// The strategy that was named, or that follows from what else was given.
    fn strategy(&self, has_roles: bool) -> Result<Option<Strategy>> {
        match self.strategy.as_deref() {
            Some("auto") | None if self.budget.is_some() => Ok(Some(Strategy::TokenBudget)),
            Some("auto") | None if has_roles => Ok(Some(Strategy::ActorRoles)),
            Some("auto") | None => Ok(None),
            Some(id) => {
                let unknown = || ServiceError::Thread(ThreadError::UnknownStrategy(id.to_owned()));
                Ok(Some(Strategy::from_id(id).ok_or_else(unknown)?))
            }
        }
    }
}

fn actor_role(text: &str) -> Result<(String, Role)> {
    let parsed = text.rsplit_once('=').and_then(|(actor, role)| Some((actor.to_owned(), Role::from_name(role)?)));
    let parsed = parsed.filter(|(actor, role)| !actor.is_empty() && *role != Role::Tool);
    parsed.ok_or_else(|| {
        Failure::from(ServiceError::Invalid {
            what: "role",
            text: text.to_owned(),
            expected: "ACTOR=user, =assistant, =system or =developer",
        })
    })
}

fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let read = super::file::open(path)?.read_to_end(&mut bytes);
    read.map_err(|source| ServiceError::File { path: path.to_owned(), source })?;
    Ok((path.to_string_lossy().into_owned(), bytes))
}

fn report(context: &mut Context<'_>, compiled: &Compiled, explain: bool) -> Result<Exit> {
    let artifact = compiled.artifact.to_string();
    if context.ui.is_json() {
        let mut value = compiled_json(compiled);
        if explain {
            value["candidates"] = compiled.candidates.iter().map(candidate_json).collect();
        }
        context.ui.json("compile", value)?;
        return Ok(Exit::Done);
    }
    if explain {
        context.ui.table(&candidate_table(&compiled.candidates))?;
    }
    for reset in &compiled.choice.resets {
        context.ui.note(&format!("{} {}: {}", reset.input, reset.action, reset.reason));
    }
    context.ui.answer(artifact)?;
    Ok(Exit::Done)
}

fn compiled_json(compiled: &Compiled) -> Value {
    let Compiled { bundle, choice, .. } = compiled;
    json!({
        "bundle": compiled.artifact.to_string(), "bytes": compiled.bytes.len(), "items": bundle.items.len(),
        "thread_id": bundle.source.thread_id, "from_seq": bundle.source.from_seq,
        "from_message_id": bundle.source.from_message_id, "run": bundle.provenance.run_session_id,
        "strategy": bundle.compiler.strategy, "limits": compiled.limits, "reason": choice.reason,
        "resets": choice.resets.iter().map(|reset| json!({"input": reset.input, "action": reset.action, "reason": reset.reason})).collect::<Vec<_>>(),
        "decided_seq": compiled.decided_seq,
    })
}

fn candidate_json(candidate: &ContextCandidate) -> Value {
    json!({
        "included": candidate.included, "tokens": candidate.tokens, "rule": candidate.rule,
        "source": candidate.source, "reason": candidate.reason,
    })
}

fn candidate_table(candidates: &[ContextCandidate]) -> Table {
    let mut table = Table::new(&["", "tokens", "rule", "source", "reason"]);
    for candidate in candidates {
        table.row([
            if candidate.included { "in" } else { "out" }.into(),
            Cell::new(count(candidate.tokens), candidate.tokens),
            candidate.rule.into(),
            candidate.source.clone().into(),
            candidate.reason.clone().into(),
        ]);
    }
    table
}

fn audit(context: &mut Context<'_>, audit: &Audit) -> Result<Exit> {
    let same = audit.differences.is_empty();
    if context.ui.is_json() {
        context.ui.json(
            "compile_audit",
            json!({
                "bundle": audit.bundle.to_string(), "recompiled": audit.recompiled.to_string(), "same": same,
                "differences": audit.differences, "other_choice": audit.other_choice,
            }),
        )?;
    } else if same {
        context.ui.good(&format!("{} compiles to the same bytes", audit.bundle))?;
    } else {
        context.ui.bad(&format!("{} now compiles to {}", audit.bundle, audit.recompiled))?;
        for difference in &audit.differences {
            context.ui.answer(format!("  {difference} differs"))?;
        }
    }
    if let Some(other) = &audit.other_choice {
        context.ui.note(&format!("from the frames before it, another choice would follow: {other}"));
    }
    Ok(if same { Exit::Done } else { Exit::No })
}
