//! Materializing: a chain of deltas as one conversation, in the format that is wanted.
//!
//! Four ways, the best that is possible: the deltas joined as they are; each record mapped through the neutral
//! conversation; a written account; or the stored bytes themselves.

use std::io;

use enjamb_core::chain::{self, Stop};
use enjamb_core::conversation::Conversation;
use enjamb_core::{ArtifactId, CommitId, limits};
use enjamb_formats::{FidelityLedger, Format, Framing, JoinError, Joiner, Tier, Weight, narrative};
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
        let known: Option<Vec<_>> =
            parts.iter().map(|part| enjamb_formats::by_id(&part.commit.commit.format)).collect();
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

    /// What each commit of a chain contributes, as its format reads it.
    pub(crate) fn chain_deltas(&self, tip: &CommitId, stop: Stop) -> Result<Vec<(StoredCommit, Conversation)>> {
        let parts = self.parts(&Materialize { tip: Some(*tip), stop, format: None })?;
        let read = |part: Part| {
            let said = self.conversation(std::slice::from_ref(&part))?;
            Ok((part.commit, said))
        };
        parts.into_iter().map(read).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, Content, Env};
    use enjamb_core::Timestamp;
    use enjamb_core::chain::CommitKind;

    /// A commit of a random tree, as the test remembers it.
    struct Made {
        id: CommitId,
        parent: Option<usize>,
        kind: CommitKind,
        delta: String,
    }

    fn grow(store: &Store, commits: usize, seed: u64) -> Vec<Made> {
        let mut random = seed;
        let mut next = move || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize
        };
        let mut made: Vec<Made> = Vec::new();
        for at in 0..commits {
            let parent = (at > 0 && next() % 10 > 0).then(|| next() % at);
            let kind = match (parent, next() % 6) {
                (Some(_), 0) => CommitKind::Compaction,
                (_, 1) => CommitKind::Snapshot,
                _ => CommitKind::Delta,
            };
            let end = if next() % 4 == 0 { "" } else { "\n" };
            let delta = format!("{{\"role\":\"user\",\"content\":\"{at}\"}}{end}");
            let id = store.checkpoint(request(&delta, parent.map(|parent| made[parent].id), kind, at)).unwrap().id;
            made.push(Made { id, parent, kind, delta });
        }
        made
    }

    fn request(delta: &str, parent: Option<CommitId>, kind: CommitKind, at: usize) -> Checkpoint {
        Checkpoint {
            parent,
            kind,
            content: Content::Bytes(delta.as_bytes().to_vec()),
            format: "generic-v1".into(),
            principal: "p".into(),
            trigger: "explicit".into(),
            template: None,
            machine: None,
            session_id: None,
            ticket_id: None,
            thread_id: None,
            summary: None,
            attributes: None,
            created_at: Some(Timestamp::from_millis(at as i64)),
        }
    }

    /// The path to a commit, from the first one on.
    fn path(made: &[Made], tip: usize) -> Vec<&Made> {
        let mut path = vec![&made[tip]];
        while let Some(parent) = path[path.len() - 1].parent {
            path.push(&made[parent]);
        }
        path.reverse();
        path
    }

    fn joined<'m>(path: impl IntoIterator<Item = &'m Made>) -> String {
        path.into_iter().map(|made| format!("{}\n", made.delta.trim_end())).collect()
    }

    fn check(store: &Store, made: &[Made]) {
        let read = |tip: &Made, stop: Stop| {
            let mut text = Vec::new();
            let request = Materialize { tip: Some(tip.id), stop, format: None };
            let done = store.materialize(&request, &mut |part| text.write_all(part)).unwrap();
            assert_eq!(done.tier, Tier::Native);
            String::from_utf8(text).unwrap()
        };
        for tip in 0..made.len() {
            let path = path(made, tip);
            let whole =
                path.iter().enumerate().filter(|(at, made)| *at == 0 || !made.kind.begins()).map(|(_, made)| *made);
            assert_eq!(read(&made[tip], Stop::Root), joined(whole), "root of {tip}");
            let begin = path.iter().rposition(|made| made.kind.begins()).unwrap_or(0);
            assert_eq!(
                read(&made[tip], Stop::Compaction),
                joined(path[begin..].iter().copied()),
                "compaction of {tip}"
            );
        }
    }

    use std::io::Write;

    #[test]
    fn any_tip_of_any_tree_is_the_deltas_on_its_path() {
        for seed in 0..4 {
            let home = tempfile::tempdir().unwrap();
            let store = Store::create(home.path(), Env::system()).unwrap();
            let made = grow(&store, 60, seed);
            check(&store, &made);
            store.rebuild_index().unwrap();
            check(&store, &made);
        }
    }
}
