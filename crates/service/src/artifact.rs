//! Putting bytes in and getting them out.

use std::io::Read;
use std::ops::Range;

use enjamb_core::order::Rule;
use enjamb_core::{ArtifactId, IdKind, IdPrefix, limits};
use enjamb_ledger::segment::{SegmentOptions, SegmentWriteError, SegmentWriter};
use enjamb_ledger::{ArtifactSummary, Batch, Ledger, LedgerError, NewArtifact, SegmentRecord, Sink};

use crate::error::UNNAMED;
use crate::{Actor, Policy, Result, ServiceError, Store};

const READ_BYTES: usize = 256 << 10;

/// What a put may ask for besides keeping the bytes.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// The id that the bytes must have.
    pub expected: Option<ArtifactId>,
    /// After how long they may be collected; `None` keeps them for good. Never shortens the stay of what is here already.
    pub ttl_ms: Option<u64>,
    pub by: Actor,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub id: ArtifactId,
    pub len: u64,
    /// The bytes were here already.
    pub known: bool,
}

/// An artifact with what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactView {
    pub id: ArtifactId,
    pub len: u64,
    pub policy: Policy,
    pub tags: Vec<String>,
}

impl Store {
    /// Stores all that `source` gives, in bounded memory, and returns when it is on disk.
    pub fn put(&self, source: &mut dyn Read, options: &PutOptions) -> Result<Stored> {
        let mut head = Vec::new();
        let read = source.take(limits::ARTIFACT_INLINE_BYTES_MAX as u64 + 1).read_to_end(&mut head);
        read.map_err(input_error)?;
        if head.len() > limits::ARTIFACT_INLINE_BYTES_MAX {
            return self.put_large(head, source, options);
        }
        let len = head.len() as u64;
        let artifact = NewArtifact::from_bytes(head);
        let id = artifact.id;
        expect_id(options, id)?;
        let known = self.is_kept(&id, options)?;
        if !known {
            self.ledger.append(Batch { artifacts: vec![artifact], ..Batch::default() })?;
            self.stay(&id, options, known)?;
        }
        Ok(Stored { id, len, known })
    }

    /// Whether bytes are here, and will be for as long as is asked.
    fn is_kept(&self, id: &ArtifactId, options: &PutOptions) -> Result<bool> {
        if self.ledger.artifact(id)?.is_none() {
            return Ok(false);
        }
        match self.stay(id, options, true) {
            // It was being collected, and went before we could say that it is needed.
            Err(ServiceError::Ledger(LedgerError::Refused(refusal))) if refusal.rule == Rule::ArtifactGone => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Sets how long bytes stay. Whoever put them before was promised what they asked for, so it never gets shorter.
    fn stay(&self, id: &ArtifactId, options: &PutOptions, known: bool) -> Result<()> {
        let until = |ttl_ms: u64| self.env.now().as_millis().saturating_add(ttl_ms);
        let word = match (options.ttl_ms, self.policy(id)?.expires_ms()) {
            (None, None) => return Ok(()),
            (None, Some(_)) => "default",
            (Some(_), None) if known => return Ok(()),
            (Some(ttl_ms), Some(expires_ms)) if known && expires_ms >= until(ttl_ms) => return Ok(()),
            (Some(_), _) => "ephemeral",
        };
        self.write_policy(id, word, options.ttl_ms, &options.by)
    }

    /// Large bytes go to a segment of their own first; the record that names it comes after the sync.
    fn put_large(&self, head: Vec<u8>, source: &mut dyn Read, options: &PutOptions) -> Result<Stored> {
        let segments = self.ledger.segments();
        let _lease = segments.lease()?;
        let mut new = segments.create()?;
        let written = write_segment(&mut new, head, source);
        let (record, stored) = match written.and_then(|record| self.accept(record, options)) {
            Ok(accepted) => accepted,
            Err(error) => {
                segments.discard(new);
                return Err(error);
            }
        };
        if stored.known {
            segments.discard(new);
            return Ok(stored);
        }
        segments.publish(new, &record.segment)?;
        self.ledger.append(Batch { segments: vec![record], ..Batch::default() })?;
        self.stay(&stored.id, options, stored.known)?;
        Ok(stored)
    }

    fn accept(&self, record: SegmentRecord, options: &PutOptions) -> Result<(SegmentRecord, Stored)> {
        let (id, len) = record.artifacts[0];
        expect_id(options, id)?;
        let known = self.is_kept(&id, options)?;
        Ok((record, Stored { id, len, known }))
    }

    /// Streams an artifact, or a range of it. Each byte is checked before it is handed out.
    pub fn get(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()> {
        Ok(self.ledger.read(id, range, sink)?)
    }

    /// The whole of an artifact that is known to be small.
    pub(crate) fn get_small(&self, id: &ArtifactId) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.get(id, None, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// The whole of an artifact that is said to be a bundle or a summary: what is larger than any of these is none.
    pub(crate) fn get_document(&self, id: &ArtifactId) -> Result<Vec<u8>> {
        let len = self.ledger.artifact(id)?.ok_or(LedgerError::NoArtifact(*id))?.len;
        if len > limits::DOCUMENT_BYTES_MAX {
            let (what, limit) = ("a bundle or a summary", limits::DOCUMENT_BYTES_MAX);
            return Err(LedgerError::TooLarge { what, size: Some(len), limit, unit: "bytes" }.into());
        }
        self.get_small(id)
    }

    pub fn artifact(&self, id: &ArtifactId) -> Result<ArtifactView> {
        let found = self.ledger.artifact(id)?;
        let found = found.ok_or_else(|| ServiceError::Unknown { what: "artifact", name: id.to_string() })?;
        Ok(self.views(vec![found])?.remove(0))
    }

    /// Up to `limit` artifacts whose ids begin with `prefix`, in the order of their ids.
    pub fn artifacts(&self, prefix: Option<&IdPrefix>, limit: usize) -> Result<Vec<ArtifactView>> {
        self.artifacts_after(prefix, None, limit)
    }

    /// As [`Store::artifacts`], going on after one.
    pub fn artifacts_after(
        &self,
        prefix: Option<&IdPrefix>,
        after: Option<&ArtifactId>,
        limit: usize,
    ) -> Result<Vec<ArtifactView>> {
        let (low, high) = prefix.map_or_else(|| (vec![0; 32], vec![0xff; 32]), IdPrefix::bounds);
        let from = after.map_or(low.clone(), |id| low.max(id.digest().as_bytes().to_vec()));
        // The one that is gone on after may be found again.
        let mut found = self.ledger.artifacts(&from, &high, limit.saturating_add(usize::from(after.is_some())))?;
        found.retain(|artifact| Some(&artifact.id) != after);
        found.truncate(limit);
        self.views(found)
    }

    fn views(&self, found: Vec<ArtifactSummary>) -> Result<Vec<ArtifactView>> {
        let tags = self.tags()?;
        found
            .into_iter()
            .map(|artifact| {
                let names = tags.iter().filter(|tag| tag.artifact == artifact.id).map(|tag| tag.name.clone());
                Ok(ArtifactView {
                    id: artifact.id,
                    len: artifact.len,
                    policy: self.policy(&artifact.id)?,
                    tags: names.collect(),
                })
            })
            .collect()
    }

    /// The artifact that a person means: by id, by the beginning of one, or by a tag.
    pub fn resolve_artifact(&self, text: &str) -> Result<ArtifactId> {
        if let Some(id) = self.tagged(text)? {
            return Ok(id);
        }
        let prefix = match IdPrefix::parse(text, IdKind::Artifact) {
            Err(_) if !text.starts_with(IdKind::Artifact.prefix()) => {
                return Err(ServiceError::Unknown { what: UNNAMED, name: text.to_owned() });
            }
            prefix => prefix?,
        };
        let (low, high) = prefix.bounds();
        let found = self.ledger.artifacts(&low, &high, limits::CANDIDATES_MAX + 1)?;
        match found.as_slice() {
            [] => Err(ServiceError::Unknown { what: "artifact", name: prefix.to_string() }),
            [one] => Ok(one.id),
            many => {
                let candidates = many.iter().map(|artifact| format!("{}  {} bytes", artifact.id, artifact.len));
                Err(ServiceError::Ambiguous { prefix: prefix.to_string(), candidates: candidates.collect() })
            }
        }
    }
}

fn write_segment(new: &mut enjamb_ledger::NewSegment, head: Vec<u8>, source: &mut dyn Read) -> Result<SegmentRecord> {
    let ledger = |error: SegmentWriteError| ServiceError::Ledger(error.into());
    let mut writer = SegmentWriter::new(new.writer(), SegmentOptions::RANGES, |_: &_| None).map_err(ledger)?;
    let mut artifact = writer.artifact();
    artifact.write(&head).map_err(ledger)?;
    drop(head);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match source.read(&mut buffer).map_err(input_error)? {
            0 => break,
            read => artifact.write(&buffer[..read]).map_err(ledger)?,
        }
    }
    let (id, len) = artifact.finish().map_err(ledger)?;
    let (_, summary, _) = writer.finish().map_err(ledger)?;
    Ok(SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts: vec![(id, len)] })
}

fn expect_id(options: &PutOptions, found: ArtifactId) -> Result<()> {
    match options.expected {
        Some(expected) if expected != found => Err(ServiceError::DigestMismatch { expected, found }),
        _ => Ok(()),
    }
}

fn input_error(source: std::io::Error) -> ServiceError {
    ServiceError::File { path: "the input".into(), source }
}
