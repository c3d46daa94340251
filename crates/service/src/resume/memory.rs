//! Which deltas of a chain travel, and what becomes of them on the way.

use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::conversation::{Block, Conversation, Entry, Role};
use enjamb_core::{CommitId, limits};
use enjamb_formats::session::{Extent, Identity, Look, Looked, Session};
use enjamb_formats::{FidelityLedger, Format, Tier};
use enjamb_ledger::{Ledger, Part};

use super::{LeftBehind, Resume, ResumeError};
use crate::materialize::{known_format, runs};
use crate::{Materialize, Result, ServiceError, Store, commits};

/// Bytes of a chain in unknown formats that are told as they are, from the end.
const RAW_BYTES_MAX: usize = 256 << 10;
/// A format in which any text can be said.
const PLAIN: &str = "anthropic-messages-v1";

/// What travels.
pub(super) struct Gathered {
    pub tip: CommitId,
    parts: Vec<Part>,
    /// What is told instead of the deltas, where one of their formats is not known.
    told: Option<Vec<u8>>,
    is_cut: bool,
    head: Vec<u8>,
    pub left: LeftBehind,
    pub commits: u64,
    pub tokens: u64,
}

/// Where the bytes of a stretch are.
enum Deltas<'g> {
    Stored(&'g [Part]),
    Told(&'g [u8]),
}

/// Where the bytes of a session go.
pub(super) type Out<'o> = dyn FnMut(&[u8]) -> Result<()> + 'o;

impl Store {
    pub(super) fn gather(&self, request: &Resume, target: &str) -> Result<Gathered> {
        let whole = self.whole(&request.tip)?;
        let mut parts = match (request.stop, request.budget_tokens) {
            (None, None) => whole.clone(),
            (stop, _) => {
                let stop = stop.unwrap_or(Stop::Compaction);
                self.contributing(&Materialize { tip: Some(request.tip), stop, format: None })?
            }
        };
        if let Some(budget) = request.budget_tokens {
            let taken = affordable(&parts, budget)?;
            parts.drain(..parts.len() - taken);
        }
        let left = left_behind(&whole, &parts);
        let is_cut = parts.iter().map(|part| part.link.id).ne(whole.iter().map(|part| part.link.id));
        let head = match whole.first().filter(|first| is_cut && *first.format == *target) {
            Some(first) => self.delta(first)?,
            None => Vec::new(),
        };
        Ok(Gathered {
            tip: request.tip,
            commits: parts.len() as u64,
            tokens: parts.iter().map(|part| part.tokens).sum(),
            told: self.told(&parts)?,
            parts,
            is_cut,
            head,
            left,
        })
    }

    fn delta(&self, part: &Part) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.each_delta(std::slice::from_ref(part), |_, delta| {
            bytes.extend_from_slice(delta);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// The stored bytes in a message, if a format is not known: a model may make something of them.
    fn told(&self, parts: &[Part]) -> Result<Option<Vec<u8>>> {
        if parts.iter().all(|part| enjamb_formats::by_id(&part.format).is_some()) {
            return Ok(None);
        }
        let (mut total, mut tail) = (0, Vec::new());
        self.ledger.read_parts(parts, &mut |_, bytes| {
            total += bytes.len();
            tail.extend_from_slice(bytes);
            tail.drain(..tail.len().saturating_sub(RAW_BYTES_MAX));
            Ok(())
        })?;
        let formats: Vec<&str> = runs(parts).map(|run| &*run[0].format).collect();
        let text = format!(
            "What an earlier session recorded, as it was stored ({}, {} of {total} bytes):\n\n{}",
            formats.join(", "),
            tail.len(),
            String::from_utf8_lossy(&tail)
        );
        let said = Conversation { entries: vec![Entry::new(Role::User, vec![Block::Text(text)])] };
        Ok(Some(plain()?.encode(&said).bytes))
    }

    /// The first pass: how everything that travels stands. `None` where no runtime loads the format.
    pub(super) fn look(&self, gathered: &Gathered, target: &'static dyn Format) -> Result<Option<Looked>> {
        let stretches = gathered.stretches()?;
        let extent = Extent { stretches: stretches.len(), is_cut: gathered.is_cut, head: gathered.head.clone() };
        let Some(mut look) = Look::new(target, extent) else { return Ok(None) };
        for (format, deltas) in &stretches {
            look.stretch(*format);
            self.each(deltas, |delta| Ok(look.push(delta)?))?;
        }
        Ok(Some(look.finish()))
    }

    /// The second pass: the session, piece by piece.
    pub(super) fn compose_session(
        &self,
        gathered: &Gathered,
        looked: &Looked,
        identity: &Identity,
        out: &mut Out<'_>,
    ) -> Result<Session> {
        let (mut composition, mut bytes) = (looked.compose(identity), Vec::new());
        for (_, deltas) in &gathered.stretches()? {
            let Some(mut passage) = composition.stretch(&mut bytes) else { break };
            self.each(deltas, |delta| {
                passage.push(delta, &mut bytes)?;
                flush(&mut bytes, out)
            })?;
            passage.finish(&mut bytes);
            flush(&mut bytes, out)?;
        }
        let session = composition.finish(&mut bytes);
        flush(&mut bytes, out)?;
        if session.said.is_empty() {
            return Err(ResumeError::Empty { tip: gathered.tip }.into());
        }
        Ok(session)
    }

    fn each(&self, deltas: &Deltas<'_>, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match deltas {
            Deltas::Stored(parts) => self.each_delta(parts, |_, delta| visit(delta)),
            Deltas::Told(bytes) => visit(bytes),
        }
    }

    /// The deltas as the runtime wrote them, with its own compactions in their places. A snapshot, or a compaction that
    /// no runtime made, holds all that is left of what came before it: there it begins.
    fn whole(&self, tip: &CommitId) -> Result<Vec<Part>> {
        let parts = self.ledger.parts(tip, &Stop::Root, limits::CHAIN_COMMITS_MAX)?;
        let mut taken = Vec::new();
        for part in parts.ok_or_else(|| commits::unknown(tip))? {
            let begins = match part.link.kind {
                CommitKind::Delta => false,
                CommitKind::Snapshot => true,
                CommitKind::Compaction => !self.was_read_from_file(&part.link.id)?,
            };
            taken.push(part);
            if begins {
                break;
            }
        }
        taken.reverse();
        Ok(taken)
    }

    fn was_read_from_file(&self, id: &CommitId) -> Result<bool> {
        let attributes = self.show(id)?.commit.attributes;
        let attributes = attributes.and_then(|json| serde_json::from_str::<serde_json::Value>(json.get()).ok());
        Ok(attributes.is_some_and(|attributes| attributes["source"].is_object()))
    }
}

impl Gathered {
    /// How faithful the session is: formats that are not known are told as they are.
    pub(super) fn tier(&self, ledger: &FidelityLedger) -> Tier {
        if self.told.is_some() { Tier::Raw } else { ledger.tier() }
    }

    /// Deltas of one format that follow each other.
    fn stretches(&self) -> Result<Vec<(&'static dyn Format, Deltas<'_>)>> {
        match &self.told {
            Some(told) => Ok(vec![(plain()?, Deltas::Told(told))]),
            None => runs(&self.parts).map(|run| Ok((known_format(run)?, Deltas::Stored(run)))).collect(),
        }
    }
}

fn plain() -> Result<&'static dyn Format> {
    enjamb_formats::by_id(PLAIN).ok_or_else(|| ServiceError::UnknownFormat(PLAIN.into()))
}

fn flush(bytes: &mut Vec<u8>, out: &mut Out<'_>) -> Result<()> {
    out(bytes)?;
    bytes.clear();
    Ok(())
}

/// How many parts at the end fit into a budget.
fn affordable(parts: &[Part], budget: u64) -> Result<usize> {
    let mut spent: u64 = 0;
    let taken = parts.iter().rev().take_while(|part| {
        spent = spent.saturating_add(part.tokens);
        spent <= budget
    });
    match (taken.count(), parts.last()) {
        (0, Some(last)) => Err(ResumeError::BudgetTooSmall { budget, needed: last.tokens }.into()),
        (taken, _) => Ok(taken),
    }
}

fn left_behind(whole: &[Part], taken: &[Part]) -> LeftBehind {
    let is_left = |part: &&Part| taken.iter().all(|other| other.link.id != part.link.id);
    let left: Vec<&Part> = whole.iter().filter(is_left).collect();
    LeftBehind { commits: left.len() as u64, tokens: left.iter().map(|part| part.tokens).sum() }
}
