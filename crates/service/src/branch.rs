//! Going on from a thread in another: branches, handoffs and references. Nothing is copied; the cut is written down.

use enjamb_core::frame::{Body, Branched, HandoffCreated, ThreadReferenced};
use enjamb_core::thread::{EXTRACT_SCHEMA, Extract, ExtractedMessage, HandoffBundle, Selector};
use enjamb_core::{ArtifactId, Json, StreamId, StreamKind};
use enjamb_ledger::{Batch, NewArtifact};
use serde_json::json;

use crate::thread::created;
use crate::{Actor, Result, Store, ThreadError};

/// Where a thread was cut: the last frame that counts, and the message that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCut {
    pub seq: u64,
    pub message: Option<String>,
}

/// A thread that goes on from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadChild {
    pub thread: StreamId,
    pub parent: StreamId,
    pub cut: ThreadCut,
    /// What was handed over.
    pub summary: Option<ArtifactId>,
}

/// What a handoff hands over.
#[derive(Clone, Debug, Default)]
pub struct Handoff {
    pub markdown: Option<String>,
    pub artifact: Option<ArtifactId>,
}

/// A part of another thread, brought into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referenced {
    pub seq: u64,
    pub extract: ArtifactId,
    pub messages: u64,
}

impl Store {
    /// Where a selector cuts a thread. A message is cut after everything that its runs said of themselves.
    pub fn cut_thread(&self, thread: &StreamId, at: &Selector) -> Result<ThreadCut> {
        let head = self.thread_head(thread)?;
        let seq = match at {
            Selector::Head => head,
            Selector::Seq(seq) if *seq > head => {
                return Err(ThreadError::PastHead { thread: thread.id.clone(), seq: *seq, head }.into());
            }
            Selector::Seq(seq) => *seq,
            Selector::Message(message) => {
                let posted = self.message_seq(thread, message)?;
                let runs = self.runs_of(thread, message)?.into_iter().map(|(seq, _)| seq);
                let seq = runs.chain([posted]).max().unwrap_or(posted);
                return Ok(ThreadCut { seq, message: Some(message.clone()) });
            }
        };
        let last = self.messages_back(thread, None, seq, 1)?.pop();
        Ok(ThreadCut { seq, message: last.map(|message| message.id) })
    }

    /// A thread that shares its parent's history up to a cut.
    pub fn branch_thread(
        &self,
        parent: &StreamId,
        at: &Selector,
        title: Option<String>,
        by: &Actor,
    ) -> Result<ThreadChild> {
        let cut = self.cut_thread(parent, at)?;
        let body = Branched {
            parent_thread_id: parent.id.clone(),
            parent_seq: cut.seq,
            parent_message_id: cut.message.clone(),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let thread = self.begin_child(parent, title, body.into(), Vec::new())?;
        Ok(ThreadChild { thread, parent: parent.clone(), cut, summary: None })
    }

    /// A thread that begins with what another hands over to it.
    pub fn handoff_thread(
        &self,
        from: &StreamId,
        at: &Selector,
        title: Option<String>,
        handoff: Handoff,
        by: &Actor,
    ) -> Result<ThreadChild> {
        let cut = self.cut_thread(from, at)?;
        let (summary, artifacts) = self.handed_over(from, &cut, &handoff)?;
        let body = HandoffCreated {
            from_thread_id: from.id.clone(),
            from_seq: cut.seq,
            from_message_id: cut.message.clone(),
            summary_artifact_id: Some(summary.to_hex()),
            summary_markdown: handoff.markdown,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let thread = self.begin_child(from, title, body.into(), artifacts)?;
        Ok(ThreadChild { thread, parent: from.clone(), cut, summary: Some(summary) })
    }

    /// The bundle that a handoff names: the one given, or one made of the words given.
    fn handed_over(
        &self,
        from: &StreamId,
        cut: &ThreadCut,
        handoff: &Handoff,
    ) -> Result<(ArtifactId, Vec<NewArtifact>)> {
        match (&handoff.artifact, &handoff.markdown) {
            (Some(artifact), _) => {
                self.artifact(artifact)?;
                self.handoff_bundle(artifact)?;
                Ok((*artifact, Vec::new()))
            }
            (None, Some(markdown)) => {
                let bundle = HandoffBundle::of_words(markdown, &from.id, cut.seq, cut.message.clone());
                let artifact = self.artifact_of(bundle.to_bytes())?;
                Ok((artifact.id, vec![artifact]))
            }
            (None, None) => Err(ThreadError::NoSummary { what: "handoff" }.into()),
        }
    }

    pub(crate) fn handoff_bundle(&self, artifact: &ArtifactId) -> Result<HandoffBundle> {
        let bundle = HandoffBundle::parse(&self.get_document(artifact)?);
        Ok(bundle.map_err(|detail| ThreadError::NotASummary {
            artifact: artifact.to_string(),
            expected: "handoff bundle",
            detail,
        })?)
    }

    fn begin_child(
        &self,
        parent: &StreamId,
        title: Option<String>,
        relation: Body,
        artifacts: Vec<NewArtifact>,
    ) -> Result<StreamId> {
        let workspace = self.thread(parent)?.workspace.unwrap_or_default();
        let stream = StreamId::new(StreamKind::Continuity, self.env.new_id())?;
        self.append_bodies(&stream, &[created(&workspace, title), relation], artifacts)?;
        Ok(stream)
    }

    /// Brings the last messages of one thread, up to a cut, into another: extracted, stored and named there.
    pub fn reference_thread(
        &self,
        thread: &StreamId,
        other: &StreamId,
        at: &Selector,
        last: usize,
        by: &Actor,
    ) -> Result<Referenced> {
        self.thread_summary(thread)?;
        let extract = self.extract(other, at, last)?;
        let bytes = serde_json::to_vec(&extract).expect("texts and numbers are always written");
        let artifact = self.artifact_of(bytes)?;
        let id = artifact.id;
        let body = ThreadReferenced {
            from_thread_id: thread.id.clone(),
            to_thread_id: other.id.clone(),
            selector: Json::from(json!({"from_seq": extract.from_seq, "to_seq": extract.to_seq})),
            extracted_artifact_id: Some(id.to_hex()),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let frames = vec![self.frame_of(thread, &body.into())?];
        let appended = self.ledger.append(Batch { artifacts: vec![artifact], frames, ..Batch::default() })?;
        Ok(Referenced { seq: appended.frames[0].seq, extract: id, messages: extract.messages.len() as u64 })
    }

    fn extract(&self, thread: &StreamId, at: &Selector, last: usize) -> Result<Extract> {
        let cut = self.cut_thread(thread, at)?;
        let mut messages = Vec::new();
        for message in self.turns_back(thread, None, cut.seq, last)? {
            messages.push(ExtractedMessage {
                seq: message.seq,
                message_id: message.id,
                actor_id: message.actor_id,
                origin: message.origin,
                content: message.content,
                reply: message.reply,
            });
        }
        let Some(first) = messages.first() else { return Err(ThreadError::NoMessages(thread.id.clone()).into()) };
        Ok(Extract {
            schema: EXTRACT_SCHEMA.into(),
            thread_id: thread.id.clone(),
            from_seq: first.seq,
            to_seq: cut.seq,
            messages,
        })
    }
}
