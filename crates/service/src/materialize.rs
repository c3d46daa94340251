//! Materializing: a chain of deltas as one conversation, in the format that is wanted.
//!
//! Four ways, the best that is possible: the deltas joined as they are; each record mapped through the neutral
//! conversation; a written account; or the stored bytes themselves.

use std::io;

use enjamb_core::chain::{self, Stop};
use enjamb_core::conversation::Conversation;
use enjamb_core::{CommitId, limits};
use enjamb_formats::{FidelityLedger, Format, Framing, JoinError, Joiner, Tier, Weight, narrative};
use enjamb_ledger::{Ledger, LedgerError, Part, StoredCommit};

use crate::{Result, ServiceError, Store, commits};

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

type Out<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

impl Store {
    /// Writes the conversation that a chain holds.
    pub fn materialize(&self, request: &Materialize, out: &mut Out<'_>) -> Result<Materialized> {
        let parts = self.contributing(request)?;
        let mut bytes = 0;
        let mut counted = |part: &[u8]| {
            bytes += part.len() as u64;
            out(part)
        };
        let mut done = self.write_parts(request, &parts, &mut counted)?;
        done.bytes = bytes;
        done.commits = parts.len() as u64;
        done.messages = parts.iter().map(|part| part.messages).sum();
        done.tokens = parts.iter().map(|part| part.tokens).sum();
        Ok(done)
    }

    /// The deltas that contribute, from the stop to the tip.
    fn contributing(&self, request: &Materialize) -> Result<Vec<Part>> {
        let Some(tip) = &request.tip else { return Ok(Vec::new()) };
        let parts = self.ledger.parts(tip, &request.stop, limits::CHAIN_COMMITS_MAX)?;
        let mut parts = parts.ok_or_else(|| commits::unknown(tip))?;
        if let Stop::At(stop) = request.stop
            && parts.last().is_none_or(|last| last.link.id != stop)
        {
            return Err(ServiceError::NotAnAncestor { stop, tip: *tip });
        }
        parts.reverse();
        let kinds: Vec<_> = parts.iter().map(|part| part.link.kind).collect();
        let mut used = chain::contributes(&request.stop, &kinds).into_iter();
        parts.retain(|_| used.next().unwrap_or(true));
        Ok(parts)
    }

    fn write_parts(&self, request: &Materialize, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        let stored = parts.first().map(|part| part.format.to_string());
        let wanted = request.format.clone().or(stored).unwrap_or_else(|| "generic-v1".into());
        let one_format = parts.iter().all(|part| *part.format == *wanted);
        let all_known = parts.iter().all(|part| enjamb_formats::by_id(&part.format).is_some());
        match enjamb_formats::by_id(&wanted) {
            Some(format) if one_format => self.join(format, parts, out),
            Some(format) if all_known => self.translate(format, parts, out),
            None if all_known && wanted == NARRATIVE => self.narrate(parts, out),
            _ => self.raw(&wanted, parts, out),
        }
    }

    /// Joins deltas of one format.
    fn join(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<Materialized> {
        match format.framing() {
            Framing::JsonLines => self.join_lines(parts, out)?,
            Framing::JsonArray | Framing::CborArray => self.join_arrays(format, parts, out)?,
        }
        Ok(materialized(Tier::Native, format.id(), None))
    }

    /// Lines need nothing between them but newlines, so a delta is passed on as it is read, however long it is.
    fn join_lines(&self, parts: &[Part], out: &mut Out<'_>) -> Result<()> {
        let mut ends = LineEnds::default();
        self.ledger.read_parts(parts, &mut |at, bytes| {
            ends.before(at, out)?;
            ends.after(bytes);
            out(bytes)
        })?;
        ends.before(parts.len(), out).map_err(LedgerError::Output)?;
        Ok(())
    }

    /// Two passes: the head of an array counts what follows.
    fn join_arrays(&self, format: &dyn Format, parts: &[Part], out: &mut Out<'_>) -> Result<()> {
        let mut total = Weight::default();
        self.each_delta(parts, |_, delta| {
            total += format.weigh(delta)?;
            Ok(())
        })?;
        let mut joiner = Joiner::begin(format, total, out).map_err(joining)?;
        self.each_delta(parts, |_, delta| joiner.push(delta, out).map_err(joining))?;
        joiner.finish(out).map_err(joining)
    }

    /// Calls back with each delta as a whole.
    fn each_delta(&self, parts: &[Part], mut visit: impl FnMut(&Part, &[u8]) -> Result<()>) -> Result<()> {
        let mut delta = Vec::new();
        for part in parts {
            delta.clear();
            self.ledger.read_parts(std::slice::from_ref(part), &mut |_, bytes| {
                delta.extend_from_slice(bytes);
                Ok(())
            })?;
            visit(part, &delta)?;
        }
        Ok(())
    }

    /// What a chain says, in the neutral form. Deltas of one format are read as the one file that they are: only then does
    /// the format see which of them were abandoned or compacted.
    pub(crate) fn read_chain(&self, tip: &CommitId, stop: Stop) -> Result<Conversation> {
        let request = Materialize { tip: Some(*tip), stop, format: None };
        let parts = self.contributing(&request)?;
        let formats: Vec<&str> = parts.iter().map(|part| &*part.format).collect();
        if formats.windows(2).any(|pair| pair[0] != pair[1]) {
            return self.conversation(&parts);
        }
        let Some(format) = formats.first() else { return Ok(Conversation::default()) };
        let format = enjamb_formats::by_id(format).ok_or_else(|| ServiceError::UnknownFormat((*format).to_owned()))?;
        let mut whole = Vec::new();
        self.join(format, &parts, &mut |bytes| {
            whole.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(format.decode(&whole)?)
    }

    /// What each commit of a chain contributes, as its format reads it.
    pub(crate) fn chain_deltas(&self, tip: &CommitId, stop: Stop) -> Result<Vec<(StoredCommit, Conversation)>> {
        let parts = self.contributing(&Materialize { tip: Some(*tip), stop, format: None })?;
        let read = |part: &Part| Ok((self.show(&part.link.id)?, self.conversation(std::slice::from_ref(part))?));
        parts.iter().map(read).collect()
    }

    fn conversation(&self, parts: &[Part]) -> Result<Conversation> {
        let mut whole = Conversation::default();
        self.each_delta(parts, |part, delta| {
            let format = enjamb_formats::by_id(&part.format);
            let format = format.ok_or_else(|| ServiceError::UnknownFormat(part.format.to_string()))?;
            whole.entries.extend(format.decode(delta)?.entries);
            Ok(())
        })?;
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
        self.ledger.read_parts(parts, &mut |_, bytes| out(bytes))?;
        Ok(materialized(Tier::Raw, wanted, None))
    }
}

/// Sees to it that every delta of lines ends with a newline.
#[derive(Default)]
struct LineEnds {
    part: usize,
    lacks_newline: bool,
}

impl LineEnds {
    /// Ends the part before `part`, unless that is the one that goes on.
    fn before(&mut self, part: usize, out: &mut Out<'_>) -> io::Result<()> {
        if part != self.part {
            if std::mem::take(&mut self.lacks_newline) {
                out(b"\n")?;
            }
            self.part = part;
        }
        Ok(())
    }

    fn after(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.lacks_newline = *last != b'\n';
        }
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
