//! Which deltas of a chain travel, and what becomes of them on the way.

use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::conversation::{Block, Conversation, Entry, Role};
use enjamb_core::frame::{Json, SourcePart, SourceRead};
use enjamb_core::{CommitId, Timestamp, limits};
use enjamb_formats::session::{self, Identity, Memory, Session, Stretch};
use enjamb_formats::{FidelityLedger, Format, Tier};
use enjamb_ledger::{Ledger, Part};

use super::{LeftBehind, Resume, ResumeError, Resumed, last_cwd};
use crate::import::{path_text, stream_of};
use crate::{Actor, Materialize, Result, ServiceError, Store, commits};

/// Bytes of a chain in unknown formats that are told as they are, from the end.
const RAW_BYTES_MAX: usize = 256 << 10;
/// A format in which any text can be said.
const PLAIN: &str = "anthropic-messages-v1";

/// What travels.
pub(super) struct Gathered {
    tip: CommitId,
    stretches: Vec<(String, Vec<u8>)>,
    is_cut: bool,
    head: Vec<u8>,
    pub left: LeftBehind,
    pub commits: u64,
    pub tokens: u64,
}

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
            Some(first) => self.joined(std::slice::from_ref(first))?,
            None => Vec::new(),
        };
        Ok(Gathered {
            tip: request.tip,
            commits: parts.len() as u64,
            tokens: parts.iter().map(|part| part.tokens).sum(),
            stretches: self.stretches(&parts)?,
            is_cut,
            head,
            left,
        })
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

    /// Deltas of one format that follow each other, joined.
    fn stretches(&self, parts: &[Part]) -> Result<Vec<(String, Vec<u8>)>> {
        let same = parts.chunk_by(|one, next| one.format == next.format);
        same.map(|parts| Ok((parts[0].format.to_string(), self.joined(parts)?))).collect()
    }

    fn joined(&self, parts: &[Part]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut take = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        match enjamb_formats::by_id(&parts[0].format) {
            Some(format) => drop(self.join(format, parts, &mut take)?),
            None => self.ledger.read_parts(parts, &mut |_, part| take(part))?,
        }
        Ok(bytes)
    }

    /// Lets the store know whose the file is and what it holds: what is added to it follows from the tip.
    pub(super) fn tell_planted(&self, resumed: &Resumed, bytes: Vec<u8>, by: &Actor) -> Result<()> {
        let path = path_text(&resumed.path);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let artifact = self.artifact_of(bytes)?;
        let part = SourcePart {
            commit_id: resumed.tip.to_string(),
            artifact_id: artifact.id.to_hex(),
            bytes: resumed.bytes,
            extra: Default::default(),
        };
        let modified = std::fs::metadata(&resumed.path).and_then(|meta| meta.modified()).ok();
        let modified = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let read = SourceRead {
            path: path.clone(),
            runtime: resumed.runtime.as_str().to_owned(),
            format: resumed.runtime.format().to_owned(),
            machine: None,
            agent_session_id: Some(resumed.session.clone()),
            from: 0,
            to: resumed.bytes,
            lines,
            parts: vec![part],
            tail_artifact_id: None,
            size: resumed.bytes,
            modified_us: modified.map(|since| Timestamp::from_micros(since.as_micros() as i64).as_micros()),
            records: Json::from(serde_json::json!({})),
            problems: 0,
            // They were counted where what was resumed was read.
            secrets: None,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        self.append_bodies(&stream_of(&path), &[read.into()], vec![artifact]).map(drop)
    }
}

impl Gathered {
    pub(super) fn cwd(&self) -> Option<String> {
        let told = self.stretches.iter().rev().find_map(|(format, bytes)| {
            let conversation = enjamb_formats::by_id(format)?.decode(bytes).ok()?;
            last_cwd(&conversation)
        });
        told.filter(|dir| dir.starts_with('/'))
    }

    /// How faithful the session is: formats that are not known are told as they are.
    pub(super) fn tier(&self, ledger: &FidelityLedger) -> Tier {
        if self.is_known() { ledger.tier() } else { Tier::Raw }
    }

    fn is_known(&self) -> bool {
        self.stretches.iter().all(|(format, _)| enjamb_formats::by_id(format).is_some())
    }

    pub(super) fn compose(&self, target: &'static dyn Format, identity: &Identity) -> Result<Session> {
        let told;
        let mut stretches = Vec::with_capacity(self.stretches.len());
        if self.is_known() {
            for (format, bytes) in &self.stretches {
                let format = enjamb_formats::by_id(format);
                stretches.extend(format.map(|format| Stretch { format, bytes: bytes.as_slice() }));
            }
        } else {
            let plain = enjamb_formats::by_id(PLAIN).ok_or_else(|| ServiceError::UnknownFormat(PLAIN.into()))?;
            told = plain.encode(&self.as_they_are()).bytes;
            stretches.push(Stretch { format: plain, bytes: &told });
        }
        let memory = Memory { stretches: &stretches, is_cut: self.is_cut, head: &self.head };
        let composed = session::compose(target, &memory, identity)?;
        composed.filter(|session| !session.said.is_empty()).ok_or_else(|| ResumeError::Empty { tip: self.tip }.into())
    }

    /// The stored bytes in a message: a model may make something of them.
    fn as_they_are(&self) -> Conversation {
        let formats: Vec<&str> = self.stretches.iter().map(|(format, _)| format.as_str()).collect();
        let whole: Vec<u8> = self.stretches.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        let from = whole.len().saturating_sub(RAW_BYTES_MAX);
        let text = format!(
            "What an earlier session recorded, as it was stored ({}, {} of {} bytes):\n\n{}",
            formats.join(", "),
            whole.len() - from,
            whole.len(),
            String::from_utf8_lossy(&whole[from..])
        );
        Conversation { entries: vec![Entry::new(Role::User, vec![Block::Text(text)])] }
    }
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
