//! Materializing: a chain of deltas as one conversation, in the format that is wanted.
//!
//! Four ways, the best that is possible: the deltas joined as they are; each record mapped through the neutral
//! conversation; a written account; or the stored bytes themselves.

use std::io;

use enjamb_core::chain::{self, Stop};
use enjamb_core::conversation::Conversation;
use enjamb_core::{ArtifactId, CommitId, limits};
use enjamb_formats::{Format, FidelityLedger, Framing, Joiner, JoinError, Tier, Weight, narrative};
use enjamb_ledger::{LedgerError, StoredCommit};

use crate::{Result, ServiceError, Store};

/// What to materialize, and how.
#[derive(Clone, Debug)]
pub struct Materialize {
    /// `None` is no context at all, which materializes to nothing.
    pub tip: Option<CommitId>,
    pub stop: Stop,
    /// The format wanted; `None` for the one that the chain is in.
    pub format: Option<String>,
}

/// What was materialized.
#[derive(Clone, Debug)]
pub struct Materialized {
    pub tier: Tier,
    pub format: String,
    pub commits: u64,
    pub bytes: u64,
    pub messages: u64,
    pub tokens: u64,
    /// What became of each block, when anything was translated.
    pub ledger: Option<FidelityLedger>,
}

/// A delta that contributes, and what it is in.
struct Part {
    commit: StoredCommit,
    artifact: ArtifactId,
}

type Out<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

impl Store {
    /// Writes the conversation that a chain holds.
    pub fn materialize(&self, request: &Materialize, out: &mut Out<'_>) -> Result<Materialized> {
        let parts = self.parts(request)?;
        let mut bytes = 0;
        let mut counted = |part: &[u8]| {
            bytes += part.len() as u64;
            out(part)
        };
        let mut done = self.write_parts(request, &parts, &mut counted)?;
        done.bytes = bytes;
        done.commits = parts.len() as u64;
        done.messages = parts.iter().map(|part| part.commit.commit.message_count).sum();
        done.tokens = parts.iter().map(|part| part.commit.commit.token_count).sum();
        Ok(done)
    }

    /// The deltas that contribute, from the stop to the tip.
    fn parts(&self, request: &Materialize) -> Result<Vec<Part>> {
        let Some(tip) = &request.tip else { return Ok(Vec::new()) };
        let mut links = self.links(tip, &request.stop, limits::CHAIN_COMMITS_MAX)?;
        if let Stop::At(stop) = request.stop
            && links.last().is_none_or(|last| last.id != stop)
        {
            return Err(ServiceError::NotAnAncestor { stop, tip: *tip });
        }
        links.reverse();
        let kinds: Vec<_> = links.iter().map(|link| link.kind).collect();
        let used = chain::contributes(&request.stop, &kinds);
        let used = links.into_iter().zip(used).filter(|(_, used)| *used);
        used.map(|(link, _)| self.part(&link.id)).collect()
    }

    fn part(&self, id: &CommitId) -> Result<Part> {
        let commit = self.show(id)?;
        let artifact = commit.commit.artifact_ref.parse();
        let artifact = artifact.map_err(|_| LedgerError::corrupt(format!("commit {id}"), "it names no artifact"))?;
        Ok(Part { commit, artifact })
    }

    fn write_parts(&self, request: &Materialize, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let stored = parts.first().map(|part| part.commit.commit.format.clone());
        let wanted = request.format.clone().or_else(|| stored.clone()).unwrap_or_else(|| "generic-v1".into());
        let one_format = parts.iter().all(|part| part.commit.commit.format == wanted);
        let known: Option<Vec<_>> = parts.iter().map(|part| enjamb_formats::by_id(&part.commit.commit.format)).collect();
        match (enjamb_formats::by_id(&wanted), known) {
            (Some(format), _) if one_format => self.join(format, parts, out),
            (Some(format), Some(_)) => self.translate(format, parts, out),
            (None, Some(_)) if wanted == NARRATIVE => self.narrate(parts, out),
            _ => self.raw(&wanted, parts, out),
        }
    }

    /// Joins deltas of one format: two passes where the format's head counts what follows, one where it does not.
    fn join(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let mut total = Weight::default();
        if format.framing() != Framing::JsonLines {
            for part in parts {
                total += format.weigh(&self.get_small(&part.artifact)?).map_err(ServiceError::from)?;
            }
        }
        let mut joiner = Joiner::begin(format, total, out).map_err(joining)?;
        for part in parts {
            joiner.push(&self.get_small(&part.artifact)?, out).map_err(joining)?;
        }
        joiner.finish(out).map_err(joining)?;
        Ok(materialized(Tier::Native, format.id(), None))
    }

    fn conversation(&self, parts: &[Part]) -> Result<Conversation> {
        let mut whole = Conversation::default();
        for part in parts {
            let format = &part.commit.commit.format;
            let known = enjamb_formats::by_id(format).ok_or_else(|| ServiceError::UnknownFormat(format.clone()))?;
            whole.entries.extend(known.decode(&self.get_small(&part.artifact)?).map_err(ServiceError::from)?.entries);
        }
        Ok(whole)
    }

    fn translate(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let encoded = format.encode(&self.conversation(parts)?);
        out(&encoded.bytes).map_err(LedgerError::Output)?;
        Ok(materialized(Tier::Mapped, format.id(), Some(encoded.fidelity())))
    }

    fn narrate(&self, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let text = narrative::render(&self.conversation(parts)?);
        out(text.as_bytes()).map_err(LedgerError::Output)?;
        Ok(materialized(Tier::Rendered, NARRATIVE, None))
    }

    fn raw(&self, wanted: &str, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        for part in parts {
            self.get(&part.artifact, None, &mut |bytes| out(bytes))?;
        }
        Ok(materialized(Tier::Raw, wanted, None))
    }
}

/// The name under which a written account is asked for.
pub const NARRATIVE: &str = "narrative-v1";

fn materialized(tier: Tier, format: &str, ledger: Option<FidelityLedger>) -> Materialized {
    Materialized { tier, format: format.to_owned(), commits: 0, bytes: 0, messages: 0, tokens: 0, ledger }
}

fn joining(error: JoinError) -> ServiceError {
    match error {
        JoinError::Format(error) => error.into(),
        JoinError::Write(error) => LedgerError::Output(error).into(),
    }
}
