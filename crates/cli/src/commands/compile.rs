//! `enjamb compile`

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use enjamb_server::{Operations, view};
use enjamb_service::ServiceError;
use serde_json::{Map, Value, json};

use super::Context;
use super::show::as_json;
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
        let operations = context.operations()?;
        if let Some(bundle) = &self.audit {
            return audit(context, &operations.call("audit", json!({"bundle": bundle}))?);
        }
        let named: view::Named = operations.call("find", json!({"name": self.source}))?;
        let mut asked = self.asked(&named)?;
        if named.context.is_none() {
            asked["roles"] = self.roles()?;
            asked["files"] = self.files.iter().map(|path| attached(path)).collect::<Result<_>>()?;
        }
        report(context, &compiled(&operations, asked)?, self.explain)
    }

    fn asked(&self, named: &view::Named) -> Result<Value> {
        // What follows from a budget or from roles, when no strategy is named, is decided by the operation.
        let strategy = self.strategy.as_deref().filter(|strategy| *strategy != "auto");
        let is_plain = strategy.is_none()
            && (self.message.is_none() && self.roles.is_empty() && self.files.is_empty() && self.artifacts.is_empty());
        if named.context.is_some() && !is_plain {
            return Err(Failure::usage(
                "a chain is compiled whole or within a --budget; the other options are for threads",
            ));
        }
        Ok(json!({
            "thread": named.thread_id, "from": named.context, "message": self.message, "run": self.run,
            "strategy": strategy, "budget": self.budget, "counted_by": self.counted_by, "artifacts": self.artifacts,
            "strict": self.strict, "explain": self.explain, "dry_run": self.dry_run,
        }))
    }

    fn roles(&self) -> Result<Value> {
        let mut roles = Map::new();
        for text in &self.roles {
            let named = text.rsplit_once('=').filter(|(actor, _)| !actor.is_empty());
            let (actor, role) = named.ok_or_else(|| bad_role(text))?;
            roles.insert(actor.to_owned(), role.into());
        }
        Ok(Value::Object(roles))
    }
}

fn bad_role(text: &str) -> Failure {
    let (what, text, expected) = ("role", text.to_owned(), "ACTOR=user, =assistant, =system or =developer");
    ServiceError::Invalid { what, text, expected }.into()
}

/// A file as it is now.
fn attached(path: &Path) -> Result<Value> {
    let mut bytes = Vec::new();
    let read = super::file::open(path)?.read_to_end(&mut bytes);
    read.map_err(|source| ServiceError::File { path: path.to_owned(), source })?;
    Ok(json!({"path": path.to_string_lossy(), "content_base64": STANDARD.encode(bytes)}))
}

fn compiled(operations: &Operations, asked: Value) -> Result<view::CompiledContext> {
    Ok(operations.call("compile", asked)?)
}

fn report(context: &mut Context<'_>, compiled: &view::CompiledContext, explain: bool) -> Result<Exit> {
    if context.ui.is_json() {
        let of_chain = compiled.commit.is_some();
        let mut value = if of_chain { chain_json(compiled) } else { thread_json(compiled) };
        if explain {
            value["candidates"] = as_json(&compiled.candidates);
        }
        context.ui.json(if of_chain { "compile_chain" } else { "compile" }, value)?;
        return Ok(Exit::Done);
    }
    if explain {
        context.ui.table(&candidate_table(compiled.candidates.as_deref().unwrap_or_default()))?;
    }
    for reset in &compiled.resets {
        context.ui.note(&format!("{} {}: {}", reset.input, reset.action, reset.reason));
    }
    context.ui.answer(&compiled.bundle)?;
    Ok(Exit::Done)
}

fn thread_json(compiled: &view::CompiledContext) -> Value {
    json!({
        "bundle": compiled.bundle, "bytes": compiled.bytes, "items": compiled.items,
        "thread_id": compiled.thread_id, "from_seq": compiled.from_seq,
        "from_message_id": compiled.from_message_id, "run": compiled.run, "strategy": compiled.strategy,
        "limits": compiled.limits, "reason": compiled.reason, "resets": compiled.resets,
        "decided_seq": compiled.decided_seq,
    })
}

fn chain_json(compiled: &view::CompiledContext) -> Value {
    json!({
        "bundle": compiled.bundle, "bytes": compiled.bytes, "items": compiled.items, "commit": compiled.commit,
        "generation": compiled.from_seq, "strategy": compiled.strategy, "run": compiled.run,
        "decided_seq": compiled.decided_seq,
    })
}

fn candidate_table(candidates: &[view::Candidate]) -> Table {
    let mut table = Table::new(&["", "tokens", "rule", "source", "reason"]);
    for candidate in candidates {
        table.row([
            if candidate.included { "in" } else { "out" }.into(),
            Cell::new(count(candidate.tokens), candidate.tokens),
            candidate.rule.as_str().into(),
            candidate.source.clone().into(),
            candidate.reason.clone().into(),
        ]);
    }
    table
}

fn audit(context: &mut Context<'_>, audit: &view::AuditReport) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("compile_audit", as_json(audit))?;
    } else if audit.same {
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
    Ok(if audit.same { Exit::Done } else { Exit::No })
}
