//! What a chain or a thread says, and what is known of it besides.

use enjamb_core::chain::Stop;
use enjamb_core::conversation::Conversation;
use enjamb_core::frame::{Body, ContinuityBody, RawFrame, SessionBody};
use enjamb_core::{CommitId, StreamId, StreamKind, Timestamp, limits};
use enjamb_ledger::Ledger;

use crate::{Result, Store};

/// What a session is called, and when it began as far as the store knows.
pub(super) struct Facts {
    pub name: String,
    pub title: Option<String>,
    pub at: Timestamp,
    pub from: String,
}

impl Store {
    pub(super) fn chain_facts(&self, tip: &CommitId, stop: Stop) -> Result<(Conversation, Facts)> {
        let conversation = self.read_chain(tip, stop)?;
        let commit = self.show(tip)?;
        let root = || -> Result<String> {
            let links = self.links(tip, &Stop::Root, usize::MAX)?;
            Ok(links.last().map_or_else(|| tip.to_string(), |link| link.id.to_string()))
        };
        let name = commit.commit.agent_session_id.clone().map_or_else(root, Ok)?;
        Ok((conversation, Facts { name, title: None, at: commit.link.created_at, from: tip.to_string() }))
    }

    /// A thread's messages, with what its runs said and did between them.
    pub(super) fn thread_facts(&self, stream: &StreamId) -> Result<(Conversation, Facts)> {
        let summary = self.stream(stream)?;
        let mut lines = Vec::new();
        let mut title = None;
        self.each_of(stream, &mut |json, body| {
            push_line(&mut lines, &json);
            match body {
                Body::Continuity(ContinuityBody::ThreadCreated(created)) => title = created.title,
                Body::Continuity(ContinuityBody::RunSpawned(run)) => {
                    let session = StreamId::new(StreamKind::Session, run.run_session_id)?;
                    self.each_of(&session, &mut |json, body| {
                        if is_speech(&body) {
                            push_line(&mut lines, &json);
                        }
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        let format = enjamb_formats::by_id("frames-v1").expect("the registry has it");
        let at = Timestamp::from_millis(i64::try_from(summary.first_ms).unwrap_or(0));
        let from = format!("{stream}@{}", summary.next_seq);
        Ok((format.decode(&lines)?, Facts { name: stream.id.clone(), title, at, from }))
    }

    fn each_of(&self, stream: &StreamId, visit: &mut dyn FnMut(Vec<u8>, Body) -> Result<()>) -> Result<()> {
        let mut from = 0;
        loop {
            let frames = self.ledger.frames(stream, from, limits::PAGE_ROWS_MAX)?;
            let Some(last) = frames.last() else { return Ok(()) };
            from = last.seq + 1;
            for frame in frames {
                let body = RawFrame::parse(frame.json.clone())?.decode()?.body;
                visit(frame.json, body)?;
            }
        }
    }
}

/// What a run said and did. Whatever else it recorded would only cut its text into pieces.
fn is_speech(body: &Body) -> bool {
    matches!(
        body,
        Body::Session(
            SessionBody::OutputTextDelta(_)
                | SessionBody::ToolStarted(_)
                | SessionBody::ToolStdout(_)
                | SessionBody::ToolStderr(_)
                | SessionBody::ToolEnded(_)
                | SessionBody::ToolFailed(_)
        )
    )
}

fn push_line(lines: &mut Vec<u8>, json: &[u8]) {
    // A line end in JSON can only stand between two tokens.
    lines.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    lines.push(b'\n');
}
