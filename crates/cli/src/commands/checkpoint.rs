//! `enjamb checkpoint`

use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use enjamb_core::chain::CommitKind;
use enjamb_core::{CommitId, Timestamp};
use enjamb_server::view;
use enjamb_service::{Content, Reach, ServiceError, Snapshot, Store};
use serde_json::json;

use super::Context;
use super::remote::Remote;
use crate::failure::{Exit, Failure, Result};
use crate::text::{count, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb checkpoint turn.jsonl --format claude-code-v1 --principal agent/reviewer\n  \
    enjamb checkpoint more.jsonl --format claude-code-v1 --parent @\n  \
    enjamb checkpoint summary.jsonl --type compaction --parent @ --before rest.jsonl --format claude-code-v1\n  \
    enjamb checkpoint --snapshot @\n\n\
    The format looks at the delta: bytes that it cannot read are refused, messages and tokens are counted."
)]
pub struct Checkpoint {
    /// The delta: a file, or - for stdin
    delta: Option<PathBuf>,
    /// Or an artifact that holds it: an id, the beginning of one, or a tag
    #[arg(long, conflicts_with = "delta", value_name = "ID")]
    artifact: Option<String>,
    /// Or everything that this chain holds, as a place to begin; it belongs to whoever the commit does
    #[arg(long, value_name = "REV", conflicts_with_all = FOR_A_DELTA)]
    snapshot: Option<String>,
    /// How far back a snapshot reaches: to the nearest compaction, or to the root
    #[arg(long, value_enum, conflicts_with = "format", default_value_t = SnapshotStop::Compaction, value_name = "STOP")]
    stop: SnapshotStop,
    /// What it is in, such as claude-code-v1
    #[arg(long, required_unless_present = "snapshot")]
    format: Option<String>,
    /// The commit that it follows
    #[arg(long, value_name = "REV")]
    parent: Option<String>,
    /// What the bytes are
    #[arg(long = "type", value_enum, default_value_t = Kind::Delta)]
    kind: Kind,
    /// With a compaction: what it replaces and is not committed yet, stored in the same batch
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Who knows this
    #[arg(long, env = "ENJAMB_PRINCIPAL", default_value = "user")]
    principal: String,
    /// What made it happen: turn_boundary, tool_call, compaction, session_end or explicit
    #[arg(long, default_value = "explicit")]
    trigger: String,
    /// What kind of agent
    #[arg(long)]
    template: Option<String>,
    /// Where it ran
    #[arg(long)]
    machine: Option<String>,
    /// The session that it is of
    #[arg(long)]
    session: Option<String>,
    /// The ticket that is worked on
    #[arg(long)]
    ticket: Option<String>,
    /// The thread that it is part of
    #[arg(long)]
    thread: Option<String>,
    /// What it is about, in a line
    #[arg(long, short = 'm')]
    summary: Option<String>,
    /// When it was made (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

/// What a snapshot has from the commit that it is made of.
const FOR_A_DELTA: [&str; 11] =
    ["delta", "artifact", "format", "parent", "kind", "before", "template", "machine", "session", "ticket", "thread"];

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SnapshotStop {
    Compaction,
    Root,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Delta,
    Compaction,
    Snapshot,
}

impl Checkpoint {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(remote) = context.remote()? {
            return self.run_remote(context, &remote);
        }
        let store = context.open_or_create()?;
        if let Some(revision) = &self.snapshot {
            let made = store.snapshot(&self.snapshot_of(store.revision(revision)?))?;
            return report(context, &[view::Made::from(&made)]);
        }
        let content = self.content(&store)?;
        let request = self.request(&store, content)?;
        let made = match &self.before {
            None => vec![store.checkpoint(request)?],
            Some(path) if self.kind == Kind::Compaction => {
                let before = enjamb_service::Checkpoint {
                    kind: CommitKind::Delta,
                    content: Content::Bytes(read(path)?),
                    trigger: "compaction".into(),
                    summary: None,
                    ..request.clone()
                };
                store.checkpoint_compaction(before, request)?.to_vec()
            }
            Some(_) => return Err(Failure::usage("--before goes with --type compaction")),
        };
        report(context, &made.iter().map(view::Made::from).collect::<Vec<_>>())
    }

    fn run_remote(self, context: &mut Context<'_>, remote: &Remote) -> Result<Exit> {
        let at = self.at.map(|at| at.to_string());
        if let Some(revision) = &self.snapshot {
            let stop = if self.stop == SnapshotStop::Root { "root" } else { "compaction" };
            let asked = json!({"context": revision, "stop": stop, "summary": self.summary, "created_at": at});
            return report(context, &[remote.0.call("snapshot", asked)?]);
        }
        if self.before.is_some() && self.kind != Kind::Compaction {
            return Err(Failure::usage("--before goes with --type compaction"));
        }
        // The delta goes ahead as an artifact: it may be of any size, and of bytes that are no text.
        let artifact = match &self.artifact {
            Some(artifact) => artifact.clone(),
            None => {
                let bytes = read(self.delta.as_ref().unwrap_or(&PathBuf::from("-")))?;
                remote.put(&mut bytes.as_slice(), None, None)?.id.to_string()
            }
        };
        let before = self.before.as_ref().map(read).transpose()?.map(|bytes| STANDARD.encode(bytes));
        let kind = match self.kind {
            Kind::Delta => CommitKind::Delta,
            Kind::Compaction => CommitKind::Compaction,
            Kind::Snapshot => CommitKind::Snapshot,
        };
        let asked = json!({
            "artifact": artifact, "before_base64": before, "format": self.format, "principal": self.principal,
            "parent": self.parent, "type": kind.as_str(), "checkpoint": self.trigger, "template": self.template,
            "machine": self.machine, "session_id": self.session, "ticket_id": self.ticket, "thread_id": self.thread,
            "summary": self.summary, "created_at": at,
        });
        let made: view::MadeAll = remote.0.call("checkpoint", asked)?;
        report(context, &made.commits)
    }

    fn snapshot_of(&self, of: CommitId) -> Snapshot {
        let reach = match self.stop {
            SnapshotStop::Compaction => Reach::Compaction,
            SnapshotStop::Root => Reach::Root,
        };
        Snapshot { of, reach, summary: self.summary.clone(), created_at: self.at }
    }

    fn content(&self, store: &Store) -> Result<Content> {
        match (&self.delta, &self.artifact) {
            (_, Some(text)) => Ok(Content::Stored(store.resolve_artifact(text)?)),
            (Some(path), None) => Ok(Content::Bytes(read(path)?)),
            (None, None) => Ok(Content::Bytes(read(&PathBuf::from("-"))?)),
        }
    }

    fn request(&self, store: &Store, content: Content) -> Result<enjamb_service::Checkpoint> {
        Ok(enjamb_service::Checkpoint {
            parent: self.parent.as_deref().map(|text| store.revision(text)).transpose()?,
            kind: match self.kind {
                Kind::Delta => CommitKind::Delta,
                Kind::Compaction => CommitKind::Compaction,
                Kind::Snapshot => CommitKind::Snapshot,
            },
            content,
            format: self.format.clone().unwrap_or_default(),
            principal: self.principal.clone(),
            trigger: self.trigger.clone(),
            template: self.template.clone(),
            machine: self.machine.clone(),
            session_id: self.session.clone(),
            ticket_id: self.ticket.clone(),
            thread_id: self.thread.clone(),
            summary: self.summary.clone(),
            attributes: None,
            created_at: self.at,
        })
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(path).map(|contents| bytes = contents),
    };
    read.map_err(|source| ServiceError::File { path: path.clone(), source })?;
    Ok(bytes)
}

fn report(context: &mut Context<'_>, made: &[view::Made]) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("checkpoint", json!({"commits": made}))?;
        return Ok(Exit::Done);
    }
    for commit in made {
        let (messages, tokens) = (plural(commit.messages, "message"), count(commit.tokens.value));
        let method = commit.tokens.method.as_deref().unwrap_or("?");
        context.ui.note(&format!("{messages}, {tokens} tokens by {method}"));
        context.ui.answer(&commit.id)?;
    }
    Ok(Exit::Done)
}
