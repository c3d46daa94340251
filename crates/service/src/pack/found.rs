//! Packs that are stored: one by its hash, or all that there are.

use enjamb_core::frame::{ArtifactBody, Body, RawFrame};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::pack::{Pack, session_uuid};
use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Ledger, LedgerError};

use super::{PackRecord, Packed, unknown};
use crate::{Result, ServiceError, Store};

impl Store {
    /// The pack whose hash begins so.
    pub fn packed(&self, text: &str) -> Result<Packed> {
        let hash = self.pack_hash(text)?;
        self.known_pack(&hash)?.ok_or_else(|| unknown(text))
    }

    /// Up to `limit` records, of one session or of all, newest first; and where the next page begins, if there may be one.
    /// `before` is that of the page before.
    pub fn packs(
        &self,
        session: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<PackRecord>, Option<u64>)> {
        let stream = StreamId::packs();
        let session = session.map(session_uuid);
        let mut end = self.ledger.stream(&stream)?.map_or(0, |summary| summary.next_seq);
        end = end.min(before.unwrap_or(end));
        let mut records = Vec::new();
        while end > 0 {
            let from = end.saturating_sub(limits::PAGE_ROWS_MAX as u64);
            let frames = self.ledger.frames(&stream, from, (end - from) as usize)?;
            for frame in frames.into_iter().rev() {
                if records.len() == limit {
                    return Ok((records, Some(frame.seq + 1)));
                }
                let record = read_record(frame.json)?;
                records.extend(record.filter(|record| session.as_ref().is_none_or(|id| *id == record.session)));
            }
            end = from;
        }
        Ok((records, None))
    }

    fn pack_hash(&self, text: &str) -> Result<String> {
        let wanted = text.to_ascii_lowercase();
        let is_hash = (limits::ID_PREFIX_DIGITS_MIN..=64).contains(&wanted.len())
            && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash {
            let expected = "4 to 64 hex digits";
            return Err(ServiceError::Invalid { what: "pack hash", text: text.to_owned(), expected });
        }
        if wanted.len() == 64 {
            return Ok(wanted);
        }
        let marks = self.ledger.marks(&Scope::Store, &MarkKey::Pack(String::new()))?;
        let mut found = marks.into_iter().map(|(hash, _)| hash).filter(|hash| hash.starts_with(&wanted));
        match (found.next(), found.next()) {
            (None, _) => Err(unknown(text)),
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => {
                let candidates = [one, other].into_iter().chain(found).take(limits::CANDIDATES_MAX).collect();
                Err(ServiceError::Ambiguous { prefix: text.to_owned(), candidates })
            }
        }
    }

    pub(super) fn known_pack(&self, hash: &str) -> Result<Option<Packed>> {
        let Some(seq) = self.ledger.mark(&Scope::Store, &MarkKey::Pack(hash.to_owned()))? else { return Ok(None) };
        let damaged = || LedgerError::corrupt(format!("pack {hash}"), "its record is not where the index says");
        let seq = seq.parse().map_err(|_| damaged())?;
        let frame = self.ledger.frames(&StreamId::packs(), seq, 1)?.pop().ok_or_else(damaged)?;
        let record = read_record(frame.json)?.filter(|record| record.hash == hash).ok_or_else(damaged)?;
        let pack = Pack::parse(&self.get_small(&record.artifact)?)?;
        Ok(Some(Packed { record, pack, known: true, warnings: Vec::new() }))
    }
}

fn read_record(json: Vec<u8>) -> Result<Option<PackRecord>> {
    let frame = RawFrame::parse(json)?.decode()?;
    let Body::Artifact(ArtifactBody::ArtifactPacked(packed)) = frame.body else { return Ok(None) };
    let artifact = packed.artifact_id.parse();
    let artifact =
        artifact.map_err(|_| LedgerError::corrupt(format!("pack {}", packed.pack_hash), "it names no artifact"))?;
    Ok(Some(PackRecord {
        hash: packed.pack_hash,
        artifact,
        recorded_ms: frame.timestamp_ms,
        session: packed.pack_session_id,
        title: packed.title,
        messages: packed.message_count,
        sources: packed.sources_count,
        from: packed.packed_from,
        redaction: packed.redaction.map(|json| json.get().to_owned()),
    }))
}
