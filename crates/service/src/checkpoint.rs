//! Making commits: a delta and what it belongs to, stored together or not at all.

use enjamb_core::chain::CommitKind;
use enjamb_core::frame::{CommitType, ContextCommitted, Draft, Json, Trigger};
use enjamb_core::{ArtifactId, CommitId, StreamId, StreamKind, Timestamp};
use enjamb_formats::{Look, TokenMethod, Tokens};
use enjamb_ledger::{Batch, LedgerError, NewArtifact, NewFrame, StoredCommit};

use crate::{Result, ServiceError, Store};

/// A commit to make.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub parent: Option<CommitId>,
    pub kind: CommitKind,
    pub content: Content,
    pub format: String,
    pub principal: String,
    /// What made it happen: `turn_boundary`, `tool_call`, `compaction`, `session_end` or `explicit`.
    pub trigger: String,
    pub template: Option<String>,
    pub machine: Option<String>,
    pub session_id: Option<String>,
    pub ticket_id: Option<String>,
    pub thread_id: Option<String>,
    pub summary: Option<String>,
    /// Other facts, as a JSON object: git branch, working directory, model.
    pub attributes: Option<serde_json::Value>,
    /// When it was made; now, if not given. The same commit with the same time is the same commit.
    pub created_at: Option<Timestamp>,
}

impl Checkpoint {
    /// A delta that somebody asked to be kept, without a parent and with nothing else to say of it.
    pub fn new(content: Content, format: &str, principal: &str) -> Self {
        Self {
            parent: None,
            kind: CommitKind::Delta,
            content,
            format: format.to_owned(),
            principal: principal.to_owned(),
            trigger: "explicit".to_owned(),
            template: None,
            machine: None,
            session_id: None,
            ticket_id: None,
            thread_id: None,
            summary: None,
            attributes: None,
            created_at: None,
        }
    }

    /// What follows a commit: whose it is and where it belongs it has from that one.
    pub(crate) fn after(tip: &StoredCommit, kind: CommitKind, content: Content) -> Self {
        let commit = &tip.commit;
        Self {
            parent: Some(tip.link.id),
            kind,
            template: commit.template.clone(),
            machine: commit.machine.clone(),
            session_id: commit.agent_session_id.clone(),
            ticket_id: commit.ticket_id.clone(),
            thread_id: commit.thread_id.clone(),
            ..Self::new(content, &commit.format, &tip.stream.id)
        }
    }
}

/// The bytes of a delta, or where they are.
#[derive(Clone, Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    Stored(ArtifactId),
}

/// What became of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    pub id: CommitId,
    pub artifact: ArtifactId,
    pub messages: u64,
    pub tokens: u64,
    pub token_method: String,
    /// The very same commit was there already.
    pub known: bool,
}

/// A commit with its bytes, ready to be stored.
pub(crate) struct Ready {
    pub(crate) artifact: NewArtifact,
    pub(crate) frame: NewFrame,
    pub(crate) answer: Checkpointed,
}

impl Store {
    /// Stores a commit and returns when it is on disk.
    pub fn checkpoint(&self, request: Checkpoint) -> Result<Checkpointed> {
        let (artifact, counted) = self.take_content(&request)?;
        self.checkpoint_counted(request, artifact, counted)
    }

    /// As [`Store::checkpoint`], for content that is stored and was counted.
    pub(crate) fn checkpoint_counted(
        &self,
        request: Checkpoint,
        artifact: NewArtifact,
        counted: Counted,
    ) -> Result<Checkpointed> {
        let ready = self.ready_with(request, artifact, counted)?;
        self.commit(&[ready]).map(|mut answers| answers.remove(0))
    }

    /// Stores what a compaction replaces and the compaction itself in one batch: no reader sees one without the other.
    pub fn checkpoint_compaction(&self, before: Checkpoint, compaction: Checkpoint) -> Result<[Checkpointed; 2]> {
        let before = self.ready(before)?;
        let compaction = self.ready(Checkpoint { parent: Some(before.answer.id), ..compaction })?;
        let mut answers = self.commit(&[before, compaction])?.into_iter();
        match (answers.next(), answers.next()) {
            (Some(before), Some(compaction)) => Ok([before, compaction]),
            _ => Err(LedgerError::corrupt("a batch", "it was answered in part").into()),
        }
    }

    /// Stores commits that follow one another, the first after its own parent.
    pub(crate) fn checkpoint_line(&self, line: Vec<(Checkpoint, Option<Counted>)>) -> Result<Vec<Checkpointed>> {
        let mut answers: Vec<Checkpointed> = Vec::with_capacity(line.len());
        let mut batch: Vec<Ready> = Vec::new();
        for (mut request, counted) in line {
            let before = batch.last().map(|ready| ready.answer.id).or_else(|| answers.last().map(|answer| answer.id));
            request.parent = before.or(request.parent);
            batch.push(match (counted, &request.content) {
                (Some(counted), Content::Stored(id)) => {
                    let artifact = NewArtifact { id: *id, bytes: None };
                    self.ready_with(request, artifact, counted)?
                }
                _ => self.ready(request)?,
            });
            if batch.len() == LINE_BATCH_COMMITS {
                answers.extend(self.commit(&std::mem::take(&mut batch))?);
            }
        }
        if !batch.is_empty() {
            answers.extend(self.commit(&batch)?);
        }
        Ok(answers)
    }

    fn commit(&self, ready: &[Ready]) -> Result<Vec<Checkpointed>> {
        let batch = Batch {
            artifacts: ready.iter().map(|one| one.artifact.clone()).collect(),
            frames: ready.iter().map(|one| one.frame.clone()).collect(),
            ..Batch::default()
        };
        match (self.ledger.append(batch), ready) {
            (Ok(_), _) => Ok(ready.iter().map(|one| one.answer.clone()).collect()),
            (Err(error), [one]) if error.is_duplicate_commit() => {
                Ok(vec![Checkpointed { known: true, ..one.answer.clone() }])
            }
            // One of them is there already, perhaps without the others.
            (Err(error), several) if error.is_duplicate_commit() => {
                let each = several.iter().map(|one| self.commit(std::slice::from_ref(one)));
                Ok(each.collect::<Result<Vec<_>>>()?.concat())
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    pub(crate) fn ready(&self, request: Checkpoint) -> Result<Ready> {
        let (artifact, counted) = self.take_content(&request)?;
        self.ready_with(request, artifact, counted)
    }

    fn ready_with(&self, request: Checkpoint, artifact: NewArtifact, counted: Counted) -> Result<Ready> {
        let now = self.env.now();
        let created_at = request.created_at.unwrap_or(now).to_string();
        let stream = StreamId::new(StreamKind::Context, &request.principal)?;
        let parent = request.parent.map(|parent| parent.to_string());
        let artifact_ref = artifact.id.to_string();
        let template = request.template.clone().unwrap_or_default();
        let id = CommitId::derive(parent.as_deref().unwrap_or_default(), &artifact_ref, &created_at, &template);
        let body = ContextCommitted {
            commit_id: id.to_string(),
            version: 1,
            parent,
            commit_type: commit_type(request.kind),
            artifact_ref,
            format: request.format,
            template: request.template,
            principal: Some(request.principal),
            machine: request.machine,
            agent_session_id: request.session_id,
            checkpoint: Trigger::from(request.trigger.as_str()),
            ticket_id: request.ticket_id,
            thread_id: request.thread_id,
            summary: request.summary,
            message_count: counted.messages,
            token_count: counted.tokens,
            token_method: Some(counted.method.clone()),
            created_at,
            attributes: request.attributes.map(Json::from),
        };
        let draft = Draft::of(&stream, &body.into())?;
        let frame =
            NewFrame { stream, draft, id: self.env.new_id(), timestamp_ms: now.as_millis(), expected_seq: None };
        let answer = Checkpointed {
            id,
            artifact: artifact.id,
            messages: counted.messages,
            tokens: counted.tokens,
            token_method: counted.method,
            known: false,
        };
        Ok(Ready { artifact, frame, answer })
    }

    /// The artifact of the delta, and what is in it: counted, not believed.
    fn take_content(&self, request: &Checkpoint) -> Result<(NewArtifact, Counted)> {
        match &request.content {
            Content::Bytes(bytes) => {
                let counted = count(&request.format, bytes)?;
                Ok((self.artifact_of(bytes.clone())?, counted))
            }
            Content::Stored(id) => {
                self.artifact(id)?;
                let counted = count(&request.format, &self.get_small(id)?)?;
                Ok((NewArtifact { id: *id, bytes: None }, counted))
            }
        }
    }
}

/// Commits of a line that are stored with one sync.
const LINE_BATCH_COMMITS: usize = 64;

/// What a delta holds.
pub(crate) struct Counted {
    pub messages: u64,
    pub tokens: u64,
    pub method: String,
}

/// Lets the format look at the bytes. A format that is not known is kept all the same: someone may know it later.
fn count(format: &str, bytes: &[u8]) -> Result<Counted> {
    let Some(known) = enjamb_formats::by_id(format) else {
        // Real transcripts have 2.8 bytes to a token.
        let tokens = (bytes.len() as u64 * 10).div_ceil(28);
        return Ok(Counted { messages: 0, tokens, method: TokenMethod::Bytes.as_str().to_owned() });
    };
    let inspection = known.inspect_with(bytes, Look::default()).map_err(ServiceError::from)?;
    let Tokens { count, method, .. } = inspection.tokens;
    Ok(Counted { messages: inspection.messages, tokens: count, method: method.as_str().to_owned() })
}

fn commit_type(kind: CommitKind) -> CommitType {
    match kind {
        CommitKind::Delta => CommitType::Delta,
        CommitKind::Compaction => CommitType::Compaction,
        CommitKind::Snapshot => CommitType::Snapshot,
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    #[test]
    fn one_process_knows_a_commit_that_it_has_just_made() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let request = Checkpoint {
            parent: None,
            kind: CommitKind::Delta,
            content: Content::Bytes(b"{}\n".to_vec()),
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
            created_at: Some(Timestamp::from_millis(1)),
        };
        let first = store.checkpoint(request.clone()).unwrap();
        let again = store.checkpoint(request.clone()).unwrap();
        assert_eq!((first.known, again.known, first.id), (false, true, again.id));
        let other = Checkpoint { summary: Some("other words".into()), ..request };
        assert_eq!(store.checkpoint(other).unwrap_err().code(), "commit-conflict");
    }
}
