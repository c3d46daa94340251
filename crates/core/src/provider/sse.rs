//! Server-sent events, from bytes that are cut anywhere. Nothing is left out but comments and fields that say nothing of
//! an event: what is broken comes with what is wrong with it.

use std::mem::take;

/// Bytes of one event. What is longer comes in pieces.
const EVENT_BYTES_MAX: usize = 32 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    pub name: Option<String>,
    pub data: String,
    pub fault: Option<SseFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseFault {
    /// Bytes that are no text were replaced.
    NotText,
    /// The stream ended within the event.
    Unfinished,
    /// The event is longer than any may be: this is a piece of it.
    TooLong,
}

impl SseFault {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotText => "the event is not UTF-8: what is no text was replaced",
            Self::Unfinished => "the stream ended within the event",
            Self::TooLong => "the event is too long and comes in pieces",
        }
    }
}

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub struct SseReader {
    line: Vec<u8>,
    /// The last byte was CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Something other than a byte order mark has come.
    begun: bool,
    event: SseEvent,
    has_field: bool,
    has_data: bool,
}

impl SseReader {
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) {
        while !bytes.is_empty() {
            if take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let room = EVENT_BYTES_MAX - self.line.len();
            let end = bytes.iter().take(room).position(|byte| matches!(byte, b'\n' | b'\r'));
            let taken = end.unwrap_or(bytes.len().min(room));
            self.line.extend_from_slice(&bytes[..taken]);
            match end {
                Some(at) => {
                    self.after_cr = bytes[at] == b'\r';
                    bytes = &bytes[at + 1..];
                    self.end_line(out);
                }
                None => {
                    bytes = &bytes[taken..];
                    if self.line.len() == EVENT_BYTES_MAX {
                        self.end_line(out);
                        self.end_event(Some(SseFault::TooLong), out);
                        // What follows is the rest of the same field.
                        self.line.extend_from_slice(b"data:");
                    }
                }
            }
        }
    }

    /// The stream is over: what has begun and not ended is handed out as that.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) {
        if !self.line.is_empty() {
            self.end_line(out);
        }
        self.end_event(Some(SseFault::Unfinished), out);
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let line = take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.begun, true);
        let text = if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        if text.is_empty() {
            self.end_event(None, out);
        } else {
            self.take_field(text, out);
        }
        // The buffer is kept: the next line needs one too.
        self.line = line;
        self.line.clear();
    }

    fn take_field(&mut self, line: &[u8], out: &mut Vec<SseEvent>) {
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.take_data(value, out),
            b"event" => {
                let name = self.text(value);
                self.event.name = Some(name);
                self.has_field = true;
            }
            // A comment, `id`, `retry`, and what the specification says to pass over.
            _ => {}
        }
    }

    fn take_data(&mut self, value: &[u8], out: &mut Vec<SseEvent>) {
        if self.event.data.len() + value.len() > EVENT_BYTES_MAX && !self.event.data.is_empty() {
            self.end_event(Some(SseFault::TooLong), out);
        }
        let value = self.text(value);
        if self.has_data {
            self.event.data.push('\n');
            self.event.data.push_str(&value);
        } else {
            self.event.data = value;
        }
        (self.has_field, self.has_data) = (true, true);
    }

    fn text(&mut self, bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.event.fault = Some(SseFault::NotText);
                String::from_utf8_lossy(bytes).into_owned()
            }
        }
    }

    fn end_event(&mut self, fault: Option<SseFault>, out: &mut Vec<SseEvent>) {
        self.has_data = false;
        if take(&mut self.has_field) {
            let mut event = take(&mut self.event);
            event.fault = fault.or(event.fault);
            out.push(event);
        }
    }
}
