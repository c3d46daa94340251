//! Context packs: made from a chain or a thread, taken in from a file, and found again by their hash.
//!
//! A pack is stored with the frame that records it. Its hash is recorded once, so packing what is packed already gives
//! the first record back.

mod facts;
mod found;

use enjamb_core::chain::Stop;
use enjamb_core::frame::{ArtifactPacked, Body, Json};
use enjamb_core::order::Rule;
use enjamb_core::pack::{Algorithm, Gathered, Pack, Repo, Session, gather, session_uuid, time_text, title_of};
use enjamb_core::redact::{RULE_SET, Redacted};
use enjamb_core::{ArtifactId, CommitId, StreamId, StreamKind, limits};
use enjamb_ledger::{LedgerError, NewArtifact};
use serde_json::json;

use crate::{Actor, PutOptions, Result, ServiceError, Store};

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct PackRequest {
    pub from: PackFrom,
    /// The session's title; by default its own, or the beginning of what was first asked.
    pub title: Option<String>,
    /// The repository that files are said to be of; by default the directory that the agent worked in.
    pub repo: Option<Repo>,
    /// Replace secrets before hashing.
    pub redact: bool,
}

#[derive(Clone, Debug)]
pub enum PackFrom {
    Chain { tip: CommitId, stop: Stop },
    Thread(StreamId),
}

/// A pack that is stored.
#[derive(Clone, Debug)]
pub struct Packed {
    pub record: PackRecord,
    pub pack: Pack,
    /// It was there already; this is the first one.
    pub known: bool,
    pub warnings: Vec<PackWarning>,
}

/// What is recorded of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackRecord {
    pub hash: String,
    pub artifact: ArtifactId,
    pub recorded_ms: u64,
    pub session: String,
    pub title: Option<String>,
    pub messages: u64,
    pub sources: u64,
    pub from: Option<String>,
    /// The secrets that were replaced, as JSON, if any were looked for.
    pub redaction: Option<String>,
}

/// What is to be said of a pack and would change its hash if it were said in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackWarning {
    pub code: &'static str,
    pub count: u64,
    pub what: &'static str,
}

/// How a pack is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    Json,
    Markdown,
    Yaml,
}

/// A pack with what its record will say.
struct Draft {
    pack: Pack,
    json: Vec<u8>,
    from: Option<String>,
    sources_dropped: u64,
    redacted: Option<Redacted>,
    warnings: Vec<PackWarning>,
}

impl Store {
    /// What a person means to pack: a revision, or a thread by the name of its stream.
    pub fn pack_from(&self, text: &str, stop: Stop) -> Result<PackFrom> {
        match text.parse::<StreamId>() {
            Ok(stream) if stream.kind == StreamKind::Continuity => {
                self.stream(&stream)?;
                Ok(PackFrom::Thread(stream))
            }
            _ => Ok(PackFrom::Chain { tip: self.revision(text)?, stop }),
        }
    }

    /// Packs sessions, all of them or none.
    pub fn pack(&self, requests: &[PackRequest], by: &Actor) -> Result<Vec<Packed>> {
        let drafts = requests.iter().map(|request| self.draft(request)).collect::<Result<Vec<_>>>()?;
        self.record_packs(drafts, by)
    }

    /// Takes in a pack that someone else made, if it is what it says.
    pub fn unpack(&self, json: &[u8], by: &Actor) -> Result<Packed> {
        let pack = Pack::parse(json)?;
        pack.check()?;
        let json = pack.to_json()?;
        let draft = Draft { pack, json, from: None, sources_dropped: 0, redacted: None, warnings: Vec::new() };
        Ok(self.record_packs(vec![draft], by)?.remove(0))
    }

    fn draft(&self, request: &PackRequest) -> Result<Draft> {
        let (conversation, facts) = match &request.from {
            PackFrom::Chain { tip, stop } => self.chain_facts(tip, *stop)?,
            PackFrom::Thread(stream) => self.thread_facts(stream)?,
        };
        let gathered = gather(&conversation, request.repo.as_ref(), facts.at);
        let warnings = warnings(&gathered);
        let (first, last) = gathered.span.unwrap_or((facts.at, facts.at));
        let asked = gathered.prompt.as_deref().and_then(title_of);
        let session = Session {
            id: session_uuid(&facts.name),
            title: request.title.clone().or(facts.title).or(asked),
            created_at: time_text(first),
            updated_at: time_text(last),
        };
        let mut pack = Pack::new(self.env.now(), session, gathered.messages);
        let redacted = request.redact.then(|| pack.redact());
        let json = pack.to_json()?;
        let from = Some(facts.from);
        Ok(Draft { pack, json, from, sources_dropped: gathered.sources_dropped, redacted, warnings })
    }

    /// Records packs in one batch. Someone else may record one of them first; then that record counts.
    fn record_packs(&self, drafts: Vec<Draft>, by: &Actor) -> Result<Vec<Packed>> {
        loop {
            let mut answers = Vec::with_capacity(drafts.len());
            let mut new: Vec<&Draft> = Vec::new();
            for draft in &drafts {
                let hash = &draft.pack.session_hash;
                answers.push(self.known_pack(hash)?);
                if answers.last().is_some_and(Option::is_none)
                    && new.iter().all(|other| other.pack.session_hash != *hash)
                {
                    new.push(draft);
                }
            }
            match self.append_packs(&new, by) {
                Err(ServiceError::Ledger(LedgerError::Refused(refusal))) if refusal.rule == Rule::DuplicatePack => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    return answers.into_iter().zip(&drafts).map(|(known, draft)| self.answer(known, draft)).collect();
                }
            }
        }
    }

    fn append_packs(&self, new: &[&Draft], by: &Actor) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let mut artifacts = Vec::with_capacity(new.len());
        let mut bodies = Vec::with_capacity(new.len());
        for draft in new {
            let artifact = self.pack_artifact(&draft.json)?;
            bodies.push(draft.body(&artifact.id, by));
            artifacts.push(artifact);
        }
        self.append_bodies(&StreamId::packs(), &bodies, artifacts).map(drop)
    }

    fn pack_artifact(&self, json: &[u8]) -> Result<NewArtifact> {
        if json.len() <= limits::ARTIFACT_INLINE_BYTES_MAX {
            return Ok(NewArtifact::from_bytes(json.to_vec()));
        }
        let stored = self.put(&mut &json[..], &PutOptions::default())?;
        Ok(NewArtifact { id: stored.id, bytes: None })
    }

    fn answer(&self, known: Option<Packed>, draft: &Draft) -> Result<Packed> {
        let warnings = draft.warnings.clone();
        match known {
            Some(packed) => Ok(Packed { warnings, ..packed }),
            None => {
                let hash = &draft.pack.session_hash;
                let packed = self.known_pack(hash)?.ok_or_else(|| unknown(hash))?;
                Ok(Packed { known: false, warnings, ..packed })
            }
        }
    }
}

impl Exported {
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "md",
            Self::Yaml => "yaml",
        }
    }

    pub fn write(self, pack: &Pack) -> String {
        match self {
            Self::Json => pack.tree().pretty() + "\n",
            Self::Markdown => pack.markdown(),
            Self::Yaml => pack.yaml(),
        }
    }
}

impl Draft {
    fn body(&self, artifact: &ArtifactId, by: &Actor) -> Body {
        let redaction = self.redacted.as_ref().map(|redacted| json!({"rules": RULE_SET, "found": redacted.found}));
        ArtifactPacked {
            pack_hash: self.pack.session_hash.clone(),
            artifact_id: artifact.to_hex(),
            pack_version: enjamb_core::pack::VERSION.to_owned(),
            pack_session_id: self.pack.session.id.clone(),
            title: self.pack.session.title.clone(),
            message_count: self.pack.message_count,
            sources_count: self.pack.sources_count,
            algorithm: Algorithm::Compat.id().to_owned(),
            sources_dropped: self.sources_dropped,
            packed_from: self.from.clone(),
            redaction: redaction.map(Json::from),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        }
        .into()
    }
}

fn warnings(gathered: &Gathered) -> Vec<PackWarning> {
    let warnings = [
        (
            "sources-dropped",
            gathered.sources_dropped,
            "sources that version 0.7.0 takes for others, so only one is listed",
        ),
        ("sources-homeless", gathered.sources_homeless, "sources that no answer rests on"),
        (
            "entries-left-out",
            gathered.left_out,
            "entries that are no messages: the harness's, other agents', abandoned",
        ),
    ];
    let told = warnings.into_iter().filter(|(_, count, _)| *count > 0);
    told.map(|(code, count, what)| PackWarning { code, count, what }).collect()
}

fn unknown(hash: &str) -> ServiceError {
    ServiceError::Unknown { what: "pack", name: hash.to_owned() }
}
