//! A piece of a file as a commit: what it holds, counted, and where it comes from.

use std::collections::BTreeMap;

use enjamb_core::chain::CommitKind;
use enjamb_core::frame::{CommitType, ContextCommitted, Json, Trigger};
use enjamb_core::{ArtifactId, CommitId, Timestamp};
use enjamb_formats::TokenMethod;
use enjamb_ledger::StoredCommit;
use serde_json::json;

use super::Started;
use super::told::{LEARNED, Naming, PARENT_SESSION, Told};

/// What all commits of a file share, as far as it is known so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub path: String,
    pub runtime: &'static str,
    pub format: &'static str,
    pub principal: String,
    pub machine: Option<String>,
    pub session: Option<String>,
    /// What whoever started the agent said of it, where somebody did.
    pub started: Option<Started>,
    /// What entries last said of where they were written.
    pub facts: BTreeMap<&'static str, String>,
    /// The time of what was last committed.
    pub at: Option<Timestamp>,
}

/// A commit to make of bytes that are known.
pub(super) struct Made {
    pub id: CommitId,
    pub body: ContextCommitted,
}

/// The bytes of a commit, and what they are.
pub(super) struct Delta<'t> {
    pub artifact: ArtifactId,
    pub from: u64,
    pub bytes: u64,
    pub kind: CommitKind,
    pub trigger: &'static str,
    /// `None` where the bytes were not understood.
    pub told: Option<&'t Told>,
}

impl Origin {
    /// Learns from a piece what holds for it and for those that follow.
    pub(super) fn learn(&mut self, told: &Told) {
        self.facts.extend(told.facts.iter().map(|(name, value)| (*name, value.clone())));
        for Naming { own, parent } in &told.sessions {
            self.learn_session(own.as_deref());
            if let Some(parent) = parent {
                self.facts.insert(PARENT_SESSION, parent.clone());
            }
        }
        self.at = told.last_at.or(self.at);
    }

    /// The first id is the file's own where its name gave none. Any other is that of the session which a subagent works
    /// for, or which was continued.
    fn learn_session(&mut self, told: Option<&str>) {
        match (told, &self.session) {
            (Some(told), None) => self.session = Some(told.to_owned()),
            (Some(told), Some(own)) if told != own => {
                self.facts.insert(PARENT_SESSION, told.to_owned());
            }
            _ => {}
        }
    }

    /// Recalls what was learned up to a commit that is stored.
    pub(super) fn recall(&mut self, last: &StoredCommit) {
        self.at = Some(last.link.created_at);
        // What follows in a session is of the same agent, whoever reads it.
        if self.started.is_none() && self.session.is_some() && last.commit.agent_session_id == self.session {
            let (template, ticket) = (last.commit.template.clone(), last.commit.ticket_id.clone());
            self.started = template.map(|template| Started { template, ticket, trigger: "explicit" });
        }
        let attributes = last.commit.attributes.as_ref().map(Json::get).unwrap_or_default();
        let Ok(attributes) = serde_json::from_str::<serde_json::Value>(attributes) else { return };
        for name in LEARNED {
            if let Some(value) = attributes[name].as_str() {
                self.facts.insert(name, value.to_owned());
            }
        }
    }

    pub(super) fn commit(&self, delta: &Delta<'_>, parent: Option<CommitId>, fallback: Timestamp) -> Made {
        let created_at = self.at.unwrap_or(fallback).to_string();
        let parent = parent.map(|id| id.to_string());
        let artifact_ref = delta.artifact.to_string();
        let started = self.started.as_ref();
        let template = started.map_or(self.runtime, |started| started.template.as_str());
        let trigger = started.map_or(delta.trigger, |started| match delta.trigger {
            "explicit" => started.trigger,
            told => told,
        });
        let id = CommitId::derive(parent.as_deref().unwrap_or_default(), &artifact_ref, &created_at, template);
        let commit_type = match (delta.kind, &parent) {
            // What stands for something that is not here begins a chain.
            (CommitKind::Compaction, None) | (CommitKind::Snapshot, _) => CommitType::Snapshot,
            (CommitKind::Compaction, Some(_)) => CommitType::Compaction,
            (CommitKind::Delta, _) => CommitType::Delta,
        };
        let (messages, tokens, method) = counted(delta);
        let body = ContextCommitted {
            commit_id: id.to_string(),
            version: 1,
            parent,
            commit_type,
            artifact_ref,
            format: self.format.to_owned(),
            template: Some(template.to_owned()),
            principal: Some(self.principal.clone()),
            machine: self.machine.clone(),
            agent_session_id: self.session.clone(),
            checkpoint: Trigger::from(trigger),
            ticket_id: started.and_then(|started| started.ticket.clone()),
            thread_id: None,
            summary: delta.told.and_then(|told| told.summary.clone()),
            message_count: messages,
            token_count: tokens,
            token_method: Some(method.as_str().to_owned()),
            created_at,
            attributes: Some(self.attributes(delta)),
        };
        Made { id, body }
    }

    fn attributes(&self, delta: &Delta<'_>) -> Json {
        let mut value = json!({
            "source": {"path": self.path, "from": delta.from, "to": delta.from + delta.bytes},
        });
        for (name, fact) in &self.facts {
            value[*name] = fact.as_str().into();
        }
        if let Some(usage) = delta.told.and_then(|told| told.usage) {
            value["usage"] = json!({
                "input": usage.input_tokens, "output": usage.output_tokens,
                "cache_read": usage.cache_read_tokens, "cache_write": usage.cache_write_tokens,
            });
        }
        if let Some(cost) = delta.told.and_then(|told| told.cost) {
            value["cost"] = cost.into();
        }
        value.into()
    }
}

/// Messages and tokens.
fn counted(delta: &Delta<'_>) -> (u64, u64, TokenMethod) {
    match delta.told {
        Some(told) => (told.messages, told.tokens.count, told.tokens.method),
        None => (0, (delta.bytes * 10).div_ceil(28), TokenMethod::Bytes),
    }
}
