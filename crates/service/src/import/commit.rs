//! A piece of a file as a commit: what it holds, counted, and where it comes from.

use std::collections::BTreeMap;

use enjamb_core::chain::CommitKind;
use enjamb_core::conversation::{Conversation, Usage, attribute};
use enjamb_core::frame::{CommitType, ContextCommitted, Json, Trigger};
use enjamb_core::redact::mask;
use enjamb_core::{ArtifactId, CommitId, Timestamp};
use enjamb_formats::{TokenCounting, TokenMethod, Tokens};
use enjamb_ledger::StoredCommit;
use serde_json::json;

use super::Started;

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
pub(super) struct Delta<'c> {
    pub artifact: ArtifactId,
    pub from: u64,
    pub bytes: u64,
    pub kind: CommitKind,
    pub trigger: &'static str,
    /// `None` where the bytes were not understood.
    pub conversation: Option<&'c Conversation>,
}

const FACTS: [&str; 4] = [attribute::CWD, attribute::GIT_BRANCH, attribute::REPOSITORY, attribute::VERSION];
const PARENT_SESSION: &str = attribute::PARENT_SESSION;

impl Origin {
    /// Learns from entries what holds for them and for those that follow.
    pub(super) fn learn(&mut self, conversation: &Conversation) {
        for entry in &conversation.entries {
            for name in FACTS {
                if let Some(value) = entry.attribute(name) {
                    // The URL of a repository may hold the key to it.
                    self.facts.insert(name, mask(value).into_owned());
                }
            }
            if let Some(model) = &entry.model {
                self.facts.insert("model", model.clone());
            }
            self.learn_session(entry.attribute(attribute::SESSION_ID));
            if let Some(parent) = entry.attribute(PARENT_SESSION) {
                self.facts.insert(PARENT_SESSION, parent.to_owned());
            }
        }
        if let Some((_, last)) = conversation.time_span() {
            self.at = Some(last);
        }
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
        for name in FACTS.into_iter().chain(["model", PARENT_SESSION]) {
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
            summary: delta.conversation.and_then(Conversation::first_prompt).and_then(|prompt| brief(&prompt)),
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
        if let Some(usage) = delta.conversation.and_then(usage) {
            value["usage"] = json!({
                "input": usage.input_tokens, "output": usage.output_tokens,
                "cache_read": usage.cache_read_tokens, "cache_write": usage.cache_write_tokens,
            });
        }
        if let Some(cost) = delta.conversation.and_then(cost) {
            value["cost"] = cost.into();
        }
        value.into()
    }
}

/// Messages and tokens. Import measures by bytes what no provider counted: a tokenizer reads a tenth as fast as a disk.
fn counted(delta: &Delta<'_>) -> (u64, u64, TokenMethod) {
    match delta.conversation {
        Some(conversation) => {
            let tokens = Tokens::of(conversation, TokenCounting::Cheap);
            let copied = |entry: &&_| enjamb_core::conversation::Entry::attribute(entry, attribute::COPIED).is_none();
            (conversation.messages().filter(copied).count() as u64, tokens.count, tokens.method)
        }
        None => (0, (delta.bytes * 10).div_ceil(28), TokenMethod::Bytes),
    }
}

/// What the provider counted for all replies of a piece.
fn usage(conversation: &Conversation) -> Option<Usage> {
    conversation.entries.iter().filter_map(|entry| entry.usage).reduce(|a, b| Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
        cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
        provisional: a.provisional || b.provisional,
    })
}

/// What all replies of a piece cost, where their runtime says so.
fn cost(conversation: &Conversation) -> Option<f64> {
    let told = conversation.entries.iter().filter_map(|entry| entry.attribute(attribute::COST)?.parse::<f64>().ok());
    told.reduce(|a, b| a + b).filter(|cost| cost.is_finite())
}

/// The first line of what was asked, if it is not too long. A secret in it is stored in the bytes alone.
fn brief(prompt: &str) -> Option<String> {
    const CHARS_MAX: usize = 100;
    let prompt = mask(prompt);
    let line = prompt.trim().lines().next()?;
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if line.chars().nth(CHARS_MAX).is_some() {
        text.push('…');
    }
    Some(text).filter(|text| !text.is_empty())
}
