//! `frames-v1`: frames of streams, one a line, read as the conversation that they record.
//!
//! A thread's messages are the user's side; a run's text is the assistant's, put together from its pieces; a tool's
//! output is its result. Every other frame is kept as it is.

use std::collections::HashMap;

use enjamb_core::conversation::{Block, Conversation, Entry, Raw, Role, ToolCall, ToolResult, Verbatim, attribute};
use enjamb_core::frame::{
    ContinuityBody, MessageAppended, OutputTextDelta, SessionBody, ToolEnded, ToolFailed, ToolStarted, ToolStderr,
    ToolStdout,
};
use enjamb_core::limits::FRAME_BYTES_MAX;
use enjamb_core::{Body, Frame, Json, RawFrame, StreamId, StreamKind, Timestamp};

use crate::adapt::{EmptyText, Images, Own, Palette, Results, Thoughts};
use crate::anthropic::{raw_json, verbatim};
use crate::derived::derived_uuid;
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json;
use crate::position::Position;

pub(crate) const ID: &str = "frames-v1";

pub(crate) struct Frames;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::None,
    images: Images::Nowhere,
    system: false,
    compaction: false,
    server_calls: false,
    compacted: false,
    off_line: false,
    empty_text: EmptyText::OnlySpace,
    results: Results::OneText,
    ..Palette::WIDE
};

impl Format for Frames {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        let mut reader = Reader::default();
        for item in items {
            reader.line(item.at, item.json());
        }
        reader.reading
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE.encode(conversation, |entries| {
            let mut writer = FrameWriter::default();
            entries.iter().for_each(|entry| writer.entry(entry));
            json::write_lines(&writer.frames)
        })
    }
}

#[derive(Default)]
struct Reader {
    reading: Reading,
    /// The entry that the next piece of a run's text goes to, by session.
    speaking: HashMap<String, usize>,
    /// What each tool has put out so far.
    outputs: HashMap<String, String>,
}

impl Reader {
    fn line(&mut self, at: Position, text: &str) {
        let frame = RawFrame::parse(text).and_then(|raw| raw.decode());
        let Ok(frame) = frame else {
            self.reading.count_unknown("line");
            return self.reading.push(at, Entry::record(verbatim(ID, "line", text, false)));
        };
        let before = self.reading.conversation.entries.len();
        let is_said = self.frame(at, &frame);
        if !is_said {
            let kind = frame.body.type_name();
            if matches!(frame.body, Body::Unknown { .. }) {
                self.reading.count_unknown(kind);
            }
            self.reading.push(at, Entry::record(verbatim(ID, kind, text, false)));
        }
        let time = i64::try_from(frame.timestamp_ms).ok().map(Timestamp::from_millis);
        for entry in &mut self.reading.conversation.entries[before..] {
            entry.at = time;
        }
    }

    /// Takes what a frame adds to the conversation; false when it adds nothing.
    fn frame(&mut self, at: Position, frame: &Frame) -> bool {
        let speaking = self.speaking.remove(&frame.stream.id);
        match &frame.body {
            Body::Continuity(ContinuityBody::MessageAppended(MessageAppended { actor_id, origin, content })) => {
                let mut entry = Entry::new(Role::User, vec![Block::Text(content.clone())]);
                entry.id = Some(frame.id.clone());
                entry.synthetic = origin == SYNTHETIC;
                entry.set_attribute(attribute::ACTOR, Some(actor_id));
                self.reading.push(at, entry);
            }
            Body::Session(SessionBody::OutputTextDelta(OutputTextDelta { delta })) => {
                self.speak(at, frame, speaking, delta);
            }
            Body::Session(body) => return self.tool(at, body),
            Body::Continuity(_)
            | Body::Task(_)
            | Body::Artifact(_)
            | Body::Context(_)
            | Body::Source(_)
            | Body::Unknown { .. } => {
                return false;
            }
        }
        true
    }

    fn speak(&mut self, at: Position, frame: &Frame, speaking: Option<usize>, delta: &str) {
        let entries = &mut self.reading.conversation.entries;
        let index = speaking.unwrap_or(entries.len());
        match entries.get_mut(index).and_then(|entry| entry.blocks.first_mut()) {
            Some(Block::Text(text)) => text.push_str(delta),
            Some(_) | None => self.reading.push(at, Entry::new(Role::Assistant, vec![Block::Text(delta.to_owned())])),
        }
        self.speaking.insert(frame.stream.id.clone(), index);
    }

    fn tool(&mut self, at: Position, body: &SessionBody) -> bool {
        match body {
            SessionBody::ToolStarted(ToolStarted { tool_id, name, args, .. }) => {
                let (id, input) = (tool_id.clone(), json::json(args.get()));
                let call = ToolCall { id, name: name.clone(), input, server: false };
                self.reading.push(at, Entry::new(Role::Assistant, vec![Block::ToolCall(call)]));
            }
            SessionBody::ToolStdout(ToolStdout { tool_id, chunk })
            | SessionBody::ToolStderr(ToolStderr { tool_id, chunk }) => {
                self.outputs.entry(tool_id.clone()).or_default().push_str(chunk);
            }
            SessionBody::ToolEnded(ToolEnded { tool_id, exit_code, .. }) => {
                self.result(at, tool_id, "", *exit_code != 0);
            }
            SessionBody::ToolFailed(ToolFailed { tool_id, error }) => self.result(at, tool_id, error, true),
            SessionBody::SessionStarted(_)
            | SessionBody::OutputTextDelta(_)
            | SessionBody::SessionEnded(_)
            | SessionBody::ProviderEvent(_)
            | SessionBody::RequestDumped(_)
            | SessionBody::RequestStarted(_)
            | SessionBody::ResponseHeaders(_)
            | SessionBody::ResponseFirstByte(_)
            | SessionBody::CheckpointCreated(_)
            | SessionBody::CheckpointRewound(_)
            | SessionBody::CheckpointFailed(_)
            | SessionBody::SkillCatalogUpdated(_)
            | SessionBody::SkillLoaded(_)
            | SessionBody::SkillInvoked(_)
            | SessionBody::SkillWarning(_) => return false,
        }
        true
    }

    fn result(&mut self, at: Position, tool_id: &str, last: &str, is_error: bool) {
        let output = self.outputs.remove(tool_id).unwrap_or_default() + last;
        let content = if output.is_empty() { Vec::new() } else { vec![Block::Text(output)] };
        let result = ToolResult { call_id: tool_id.to_owned(), content, is_error };
        self.reading.push(at, Entry::new(Role::Tool, vec![Block::ToolResult(result)]));
    }
}

/// The origin of messages that nobody typed.
const SYNTHETIC: &str = "harness";

#[derive(Default)]
struct FrameWriter {
    frames: Vec<Json>,
    seqs: HashMap<StreamKind, u64>,
    time_ms: u64,
}

impl FrameWriter {
    fn entry(&mut self, entry: &Entry) {
        self.time_ms = entry.at.map_or(self.time_ms + 1, Timestamp::as_millis);
        for block in &entry.blocks {
            self.block(entry, block);
        }
    }

    fn block(&mut self, entry: &Entry, block: &Block) {
        match block {
            Block::Text(text) if entry.role == Role::Assistant => {
                for delta in pieces(text) {
                    self.session(SessionBody::OutputTextDelta(OutputTextDelta { delta }));
                }
            }
            Block::ToolCall(ToolCall { id, name, input, .. }) => {
                let (tool_id, name, args) = (id.clone(), name.clone(), input.clone());
                self.session(SessionBody::ToolStarted(ToolStarted { tool_id, name, args, timeout_ms: None }));
            }
            Block::ToolResult(result) => self.result(result),
            Block::Verbatim(verbatim @ Verbatim { content: Raw::Json(_), .. }) => self.frames.push(raw_json(verbatim)),
            Block::Text(_) | Block::Reasoning(_) | Block::Image(_) | Block::Compaction { .. } | Block::Verbatim(_) => {
                pieces(&crate::narrative::brief(block)).for_each(|content| self.message(entry, content));
            }
        }
    }

    fn message(&mut self, entry: &Entry, content: String) {
        let actor_id = entry.attribute(attribute::ACTOR).unwrap_or(entry.role.as_str()).to_owned();
        let origin = if entry.synthetic { SYNTHETIC } else { "translation" }.to_owned();
        let body = ContinuityBody::MessageAppended(MessageAppended { actor_id, origin, content });
        self.push(StreamKind::Continuity, Body::Continuity(body));
    }

    fn result(&mut self, result: &ToolResult) {
        let tool_id = result.call_id.clone();
        for chunk in pieces(&result.text()) {
            self.session(SessionBody::ToolStdout(ToolStdout { tool_id: tool_id.clone(), chunk }));
        }
        let exit_code = i32::from(result.is_error);
        self.session(SessionBody::ToolEnded(ToolEnded { tool_id, exit_code, duration_ms: 0, artifacts: None }));
    }

    fn session(&mut self, body: SessionBody) {
        self.push(StreamKind::Session, Body::Session(body));
    }

    fn push(&mut self, kind: StreamKind, body: Body) {
        let next = self.seqs.entry(kind.clone()).or_default();
        let seq = *next;
        *next += 1;
        let stream = StreamId { id: derived_uuid(&["stream", kind.as_str()]), kind };
        let id = derived_uuid(&[&stream.id, &seq.to_string()]);
        let frame = Frame { id, stream, timestamp_ms: self.time_ms, seq, body, extra: Vec::new() };
        let text = String::from_utf8(frame.to_json()).expect("a frame is text");
        self.frames.push(json::json(&text));
    }
}

/// Bytes of text that one frame takes, small enough that no escaping makes the frame too large.
const PIECE_BYTES_MAX: usize = FRAME_BYTES_MAX / 8;

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = crate::narrative::beginning(rest, PIECE_BYTES_MAX);
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &str, stream: &str, seq: u64, more: &str) -> String {
        format!(
            r#"{{"id":"f{seq}","session_id":"{stream}","stream_kind":"{kind}","stream_id":"{stream}","timestamp_ms":1{seq}000,"seq":{seq},{more}}}{}"#,
            "\n"
        )
    }

    #[test]
    fn frames_are_read_as_the_conversation_they_record() {
        let run = |seq, more| frame("session", "run", seq, more);
        let message = r#""type":"continuity_message_appended","actor_id":"alice","origin":"cli","content":"hi""#;
        let lines = [
            frame("continuity", "thread", 0, message),
            run(0, r#""type":"session_started","input":"hi""#),
            run(1, r#""type":"output_text_delta","delta":"he""#),
            run(2, r#""type":"output_text_delta","delta":"llo""#),
            run(3, r#""type":"tool_started","tool_id":"t","name":"ls","args":{},"timeout_ms":null"#),
            run(4, r#""type":"tool_stdout","tool_id":"t","chunk":"a.rs""#),
            run(5, r#""type":"tool_ended","tool_id":"t","exit_code":1,"duration_ms":3,"artifacts":null"#),
            run(6, r#""type":"hologram","x":1"#),
            "{\"no\":\"frame\"}\n".to_owned(),
        ];
        let bytes = lines.concat();
        let found = Frames.inspect(bytes.as_bytes()).unwrap();
        assert_eq!((found.messages, found.records), (4, 9));
        assert_eq!(found.unknown.keys().collect::<Vec<_>>(), ["hologram", "line"]);
        let conversation = Frames.decode(bytes.as_bytes()).unwrap();
        assert_eq!(conversation.last_assistant_text().as_deref(), Some("hello"));
        let results: Vec<&ToolResult> = conversation.entries.iter().flat_map(Entry::tool_results).collect();
        assert!(matches!(results.as_slice(), [result] if result.is_error && result.text() == "a.rs"), "{results:?}");
    }

    #[test]
    fn long_texts_are_told_in_pieces_that_frames_can_hold() {
        let text = "é\u{1}".repeat(FRAME_BYTES_MAX / 2);
        let entries = vec![Entry::new(Role::Assistant, vec![Block::Text(text.clone())])];
        let bytes = Frames.encode(&Conversation { entries }).bytes;
        assert_eq!(Frames.inspect(&bytes).unwrap().unknown.len(), 0);
        assert_eq!(Frames.decode(&bytes).unwrap().last_assistant_text(), Some(text));
    }
}
