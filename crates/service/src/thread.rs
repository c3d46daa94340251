//! Threads: making them, posting to them, and what is said of one as a whole.

use enjamb_core::frame::{Body, ContinuityBody, MessageAppended, MessagePinned, RunSpawned, ThreadArchived};
use enjamb_core::frame::{ThreadCreated, ThreadTagged};
use enjamb_core::order::MarkKey;
use enjamb_core::thread::workspace_thread_id;
use enjamb_core::{StreamId, StreamKind};
use enjamb_ledger::{Batch, Ledger, LedgerError, NewFrame, StreamSummary};

use crate::request::id_of;
use crate::timeline::in_stream;
use crate::{Actor, Result, Store};

/// A thread as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadView {
    pub id: String,
    pub workspace: Option<String>,
    pub title: Option<String>,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub frames: u64,
    pub messages: u64,
    pub archived: bool,
    pub tags: Vec<String>,
    pub origin: Option<ThreadOrigin>,
}

/// Where a thread came from, when it was not begun anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadOrigin {
    /// `branch` or `handoff`.
    pub kind: &'static str,
    pub thread: String,
    pub seq: u64,
    pub message: Option<String>,
    /// What was handed over.
    pub summary_artifact: Option<String>,
    pub summary_markdown: Option<String>,
}

/// A message to post.
#[derive(Clone, Debug, Default)]
pub struct Post {
    pub content: String,
    /// Also says that a run is started for it.
    pub run: Option<RunId>,
    pub idempotency_key: Option<String>,
}

/// Which session runs.
#[derive(Clone, Debug)]
pub enum RunId {
    New,
    Given(String),
}

/// What became of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub message: String,
    pub seq: u64,
    pub run: Option<String>,
    pub replayed: bool,
}

impl Store {
    /// The thread of a workspace, made if there is none. Whoever asks at the same time is given the same one.
    pub fn ensure_thread(&self, workspace: &str, title: Option<String>) -> Result<(StreamId, bool)> {
        let own = StreamId::new(StreamKind::Continuity, workspace_thread_id(workspace))?;
        if self.ledger.stream(&own)?.is_some() {
            return Ok((own, false));
        }
        if let Some(stream) = self.first_thread_in(workspace)? {
            return Ok((stream, false));
        }
        let mut frame = self.frame_of(&own, &created(workspace, title))?;
        frame.expected_seq = Some(0);
        match self.ledger.append(Batch { frames: vec![frame], ..Batch::default() }) {
            Ok(_) => Ok((own, true)),
            Err(LedgerError::SeqConflict { .. }) => Ok((own, false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Of threads that were begun in a workspace, and not branched off, the one begun first.
    fn first_thread_in(&self, workspace: &str) -> Result<Option<StreamId>> {
        let mut own = Vec::new();
        for summary in self.all_threads()? {
            let view = self.thread_view(&summary)?;
            if view.workspace.as_deref() == Some(workspace) && view.origin.is_none() && !view.archived {
                own.push((summary.first_ms, summary.stream));
            }
        }
        own.sort();
        Ok(own.into_iter().next().map(|(_, stream)| stream))
    }

    /// A new thread.
    pub fn create_thread(&self, workspace: &str, title: Option<String>) -> Result<StreamId> {
        let stream = StreamId::new(StreamKind::Continuity, self.env.new_id())?;
        self.append_bodies(&stream, &[created(workspace, title)], Vec::new())?;
        Ok(stream)
    }

    /// All threads, in the order in which they were begun.
    pub fn threads(&self) -> Result<Vec<ThreadView>> {
        let mut views =
            self.all_threads()?.iter().map(|summary| self.thread_view(summary)).collect::<Result<Vec<_>>>()?;
        views.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        Ok(views)
    }

    pub fn thread(&self, thread: &StreamId) -> Result<ThreadView> {
        self.thread_view(&self.thread_summary(thread)?)
    }

    fn thread_view(&self, summary: &StreamSummary) -> Result<ThreadView> {
        let stream = &summary.stream;
        let (workspace, title) = match self.frame_at(stream, 0)?.body {
            Body::Continuity(ContinuityBody::ThreadCreated(created)) => (Some(created.workspace), created.title),
            _ => (None, None),
        };
        let tags = self.ledger.marks(&in_stream(stream), &MarkKey::ThreadTag(String::new()))?;
        Ok(ThreadView {
            id: stream.id.clone(),
            workspace,
            title,
            created_ms: summary.first_ms,
            updated_ms: summary.last_ms,
            frames: summary.next_seq,
            messages: summary.messages,
            archived: self.ledger.mark(&in_stream(stream), &MarkKey::Archived)?.is_some(),
            tags: tags.into_iter().map(|(name, _)| name).collect(),
            origin: self.thread_origin(stream, summary.next_seq)?,
        })
    }

    /// Where a thread came from: its second frame says so.
    pub(crate) fn thread_origin(&self, stream: &StreamId, frames: u64) -> Result<Option<ThreadOrigin>> {
        if frames < 2 {
            return Ok(None);
        }
        Ok(match self.frame_at(stream, 1)?.body {
            Body::Continuity(ContinuityBody::Branched(branch)) => Some(ThreadOrigin {
                kind: "branch",
                thread: branch.parent_thread_id,
                seq: branch.parent_seq,
                message: branch.parent_message_id,
                summary_artifact: None,
                summary_markdown: None,
            }),
            Body::Continuity(ContinuityBody::HandoffCreated(handoff)) => Some(ThreadOrigin {
                kind: "handoff",
                thread: handoff.from_thread_id,
                seq: handoff.from_seq,
                message: handoff.from_message_id,
                summary_artifact: handoff.summary_artifact_id,
                summary_markdown: handoff.summary_markdown,
            }),
            _ => None,
        })
    }

    /// Posts a message, and says that a run starts if asked to, in one batch.
    pub fn post(&self, thread: &StreamId, post: Post, by: &Actor) -> Result<Posted> {
        self.thread_summary(thread)?;
        let (actor_id, origin) = (by.actor_id.clone(), by.origin.clone());
        let body = MessageAppended { actor_id, origin, content: post.content };
        let key = post.idempotency_key;
        let id = |what| self.id_of_post(thread, key.as_deref(), what);
        let message = NewFrame { id: id("message"), ..self.frame_of(thread, &body.into())? };
        let mut posted = Posted { message: message.id.clone(), seq: 0, run: None, replayed: false };
        let mut frames = vec![message];
        if let Some(run) = post.run {
            let run = match run {
                RunId::New => id("run"),
                RunId::Given(run) => run,
            };
            frames.push(self.frame_of(thread, &run_spawned(&run, &posted.message, by))?);
            posted.run = Some(run);
        }
        let appended = self.ledger.append(Batch { frames, idempotency_key: key, ..Batch::default() })?;
        posted.seq = appended.frames[0].seq;
        if appended.replayed {
            self.recall_post(thread, &mut posted)?;
        }
        Ok(posted)
    }

    /// A fresh id; for a post that may be sent again the same each time, since its frames name one another.
    pub(crate) fn id_of_post(&self, thread: &StreamId, key: Option<&str>, what: &str) -> String {
        let Some(key) = key else { return self.env.new_id() };
        id_of(&format!("{}\n{key}\n{what}", thread.id))
    }

    /// A post that was made before: its ids are those that were stored then.
    fn recall_post(&self, thread: &StreamId, posted: &mut Posted) -> Result<()> {
        posted.replayed = true;
        posted.message = self.frame_at(thread, posted.seq)?.id;
        if posted.run.is_some()
            && let ContinuityBody::RunSpawned(run) = self.said_at(thread, posted.seq + 1)?
        {
            posted.run = Some(run.run_session_id);
        }
        Ok(())
    }

    /// Puts a thread away, or takes it out again.
    pub fn archive_thread(&self, thread: &StreamId, archived: bool, by: &Actor) -> Result<ThreadView> {
        self.thread_summary(thread)?;
        let body = ThreadArchived { archived, actor_id: by.actor_id.clone(), origin: by.origin.clone() };
        self.append_bodies(thread, &[body.into()], Vec::new())?;
        self.thread(thread)
    }

    pub fn tag_thread(
        &self,
        thread: &StreamId,
        add: Vec<String>,
        remove: Vec<String>,
        by: &Actor,
    ) -> Result<ThreadView> {
        self.thread_summary(thread)?;
        let body = ThreadTagged { add, remove, actor_id: by.actor_id.clone(), origin: by.origin.clone() };
        self.append_bodies(thread, &[body.into()], Vec::new())?;
        self.thread(thread)
    }

    /// Pins a message, so that contexts with a budget hold it whatever else they hold; or lets it go.
    pub fn pin_message(&self, thread: &StreamId, message: &str, pinned: bool, by: &Actor) -> Result<()> {
        self.thread_summary(thread)?;
        self.message_seq(thread, message)?;
        let (message_id, actor_id, origin) = (message.to_owned(), by.actor_id.clone(), by.origin.clone());
        let body = MessagePinned { message_id, pinned, actor_id, origin };
        self.append_bodies(thread, &[body.into()], Vec::new()).map(drop)
    }

    /// The ids of a thread's pinned messages.
    pub fn pinned_messages(&self, thread: &StreamId) -> Result<Vec<String>> {
        self.thread_summary(thread)?;
        let marks = self.ledger.marks(&in_stream(thread), &MarkKey::Pinned(String::new()))?;
        Ok(marks.into_iter().map(|(message, _)| message).collect())
    }
}

pub(crate) fn created(workspace: &str, title: Option<String>) -> Body {
    ThreadCreated { workspace: workspace.to_owned(), title }.into()
}

pub(crate) fn run_spawned(run: &str, message: &str, by: &Actor) -> Body {
    RunSpawned {
        run_session_id: run.to_owned(),
        message_id: message.to_owned(),
        actor_id: Some(by.actor_id.clone()),
        origin: Some(by.origin.clone()),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    #[test]
    fn all_who_ask_for_a_workspaces_thread_at_once_get_the_same() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let given: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| store.ensure_thread("/w", None).unwrap())).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(given.iter().all(|(thread, _)| *thread == given[0].0), "{given:?}");
        assert_eq!(given.iter().filter(|(_, made)| *made).count(), 1);
        assert_eq!(store.threads().unwrap().len(), 1);
    }

    #[test]
    fn a_branch_is_not_the_thread_of_its_workspace() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let first = store.create_thread("/w", None).unwrap();
        let head = enjamb_core::thread::Selector::Head;
        store.branch_thread(&first, &head, None, &Actor::default()).unwrap();
        assert_eq!(store.ensure_thread("/w", None).unwrap(), (first.clone(), false));
        store.archive_thread(&first, true, &Actor::default()).unwrap();
        let (own, made) = store.ensure_thread("/w", None).unwrap();
        assert!(made && own != first, "what was put away is not gone on with");
    }
}
