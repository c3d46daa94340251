//! Reading an answer: bytes as they come, frames to append, and what the answer came to.

use super::event::{KeptEvent, deltas, keep};
use super::{Answer, Dialect, SseEvent, SseReader, chat, messages, responses};
use crate::frame::Body;

/// Reads one answer.
#[derive(Debug)]
pub struct AnswerReader {
    dialect: Dialect,
    sse: SseReader,
    events: Vec<SseEvent>,
    answer: Answer,
    blocks: messages::Blocks,
    is_done: bool,
}

/// What came of some bytes.
#[derive(Debug, Default)]
pub struct Kept {
    /// In the order in which they are to be appended.
    pub frames: Vec<Body>,
    /// Bytes that the frames name.
    pub artifacts: Vec<Vec<u8>>,
    /// What the model said.
    pub text: String,
}

impl AnswerReader {
    pub fn new(dialect: Dialect) -> Self {
        let (sse, blocks) = (SseReader::default(), messages::Blocks::default());
        Self { dialect, sse, events: Vec::new(), answer: Answer::default(), blocks, is_done: false }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Kept {
        self.sse.push(bytes, &mut self.events);
        self.take_events()
    }

    /// No more bytes come.
    pub fn finish(&mut self) -> Kept {
        self.sse.finish(&mut self.events);
        self.take_events()
    }

    /// Whether the answer said that it is over; what comes after that adds nothing.
    pub fn is_over(&self) -> bool {
        self.is_done || self.answer.stop.is_some()
    }

    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    pub fn into_answer(self) -> Answer {
        self.answer
    }

    fn take_events(&mut self) -> Kept {
        let mut kept = Kept::default();
        let events = std::mem::take(&mut self.events);
        for event in &events {
            self.take_event(event, &mut kept);
        }
        // The buffer is kept: more events come.
        self.events = events;
        self.events.clear();
        kept
    }

    fn take_event(&mut self, event: &SseEvent, kept: &mut Kept) {
        let (KeptEvent { event: mut frame, artifact }, is_object) = keep(self.dialect, event);
        self.is_done |= frame.status == crate::frame::ProviderStatus::Done;
        let said = match is_object {
            true => self.interpret(&event.data),
            false => Ok(None),
        };
        let said = said.unwrap_or_else(|error| {
            frame.errors.push(error.to_string());
            None
        });
        kept.frames.push(frame.into());
        kept.artifacts.extend(artifact);
        if let Some(text) = said {
            kept.frames.extend(deltas(&text));
            kept.text.push_str(&text);
            self.answer.text.push_str(&text);
        }
    }

    /// What an event says to whoever reads the answer.
    fn interpret(&mut self, data: &str) -> serde_json::Result<Option<String>> {
        match self.dialect {
            Dialect::Responses => responses::take(&mut self.answer, data),
            Dialect::Chat => chat::take(&mut self.answer, data),
            Dialect::Messages => messages::take(&mut self.answer, &mut self.blocks, data),
        }
    }
}
