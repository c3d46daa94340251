//! What a tool writes: frames for the beginning, an artifact for what is long, a bound for all.

use enjamb_core::ArtifactId;
use enjamb_core::frame::{Body, ToolStderr, ToolStdout};
use serde_json::{Value, json};

use super::ToolLimits;
use crate::turn::scrub::Scrubber;

/// Bytes of one line that one frame holds.
const CHUNK_BYTES_MAX: usize = 8 << 10;
/// Bytes that a model is shown of the beginning, and of the end.
const SHOWN_BYTES: (usize, usize) = (12 << 10, 4 << 10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Stdout,
    Stderr,
}

impl Channel {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One of a tool's outputs, as it comes.
pub(super) struct Output {
    tool_id: String,
    channel: Channel,
    limits: ToolLimits,
    scrubber: Scrubber,
    kept: Vec<u8>,
    total: u64,
    /// How far lines have been told, and whether all are.
    told: usize,
}

impl Output {
    pub fn new(tool_id: &str, channel: Channel, limits: ToolLimits, scrubber: Scrubber) -> Self {
        Self { tool_id: tool_id.into(), channel, limits, scrubber, kept: Vec::new(), total: 0, told: 0 }
    }

    /// Takes some bytes; returns frames for the lines that are whole.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Body> {
        let bytes = self.scrubber.push(bytes).into_owned();
        self.take(&bytes);
        self.lines(false)
    }

    /// Nothing more comes.
    pub fn finish(&mut self) -> Vec<Body> {
        let rest = self.scrubber.finish();
        self.take(&rest);
        self.lines(true)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.limits.output_bytes_max.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn lines(&mut self, is_last: bool) -> Vec<Body> {
        let mut frames = Vec::new();
        let end = self.kept.len().min(self.limits.preview_bytes_max);
        while self.told < end {
            let rest = &self.kept[self.told..end];
            let line = rest.iter().position(|byte| *byte == b'\n');
            let is_cut = line.is_none() && (is_last || rest.len() >= CHUNK_BYTES_MAX || end < self.kept.len());
            let (taken, skipped) = match line {
                Some(at) if at <= CHUNK_BYTES_MAX => (at, at + 1),
                _ if is_cut || rest.len() > CHUNK_BYTES_MAX => {
                    let most = rest.len().min(CHUNK_BYTES_MAX);
                    (most, most)
                }
                _ => break,
            };
            frames.push(self.frame(String::from_utf8_lossy(&rest[..taken]).trim_end_matches('\r').to_owned()));
            self.told += skipped;
        }
        frames
    }

    fn frame(&self, chunk: String) -> Body {
        let tool_id = self.tool_id.clone();
        match self.channel {
            Channel::Stdout => ToolStdout { tool_id, chunk }.into(),
            Channel::Stderr => ToolStderr { tool_id, chunk }.into(),
        }
    }

    /// What is too long for frames: how `tool_ended` names it, and its bytes.
    pub fn artifact(&self) -> Option<((&'static str, Value), Vec<u8>)> {
        if self.kept.len() <= self.limits.preview_bytes_max {
            return None;
        }
        let id = ArtifactId::of(&self.kept).to_hex();
        let truncated = self.total > self.kept.len() as u64;
        let named = json!({
            "artifact_id": id, "bytes_total": self.total, "bytes_stored": self.kept.len(), "truncated": truncated,
        });
        Some(((self.channel.name(), named), self.kept.clone()))
    }

    /// What a model is shown: all of it, or its beginning and its end.
    pub fn shown(&self) -> String {
        let (head, tail) = SHOWN_BYTES;
        if self.kept.len() <= head + tail {
            return String::from_utf8_lossy(&self.kept).into_owned();
        }
        let begin = String::from_utf8_lossy(&self.kept[..head]);
        let end = String::from_utf8_lossy(&self.kept[self.kept.len() - tail..]);
        format!("{begin}\n[… {} bytes left out …]\n{end}", self.total - (head + tail) as u64)
    }
}

#[cfg(test)]
mod tests {
    use enjamb_core::frame::SessionBody;

    use super::*;

    fn chunks(frames: Vec<Body>) -> Vec<String> {
        let chunk = |body| match body {
            Body::Session(SessionBody::ToolStdout(out)) => out.chunk,
            other => panic!("{other:?}"),
        };
        frames.into_iter().map(chunk).collect()
    }

    #[test]
    fn lines_are_frames_and_what_is_long_is_an_artifact() {
        let limits = ToolLimits { preview_bytes_max: 10, output_bytes_max: 20, ..ToolLimits::default() };
        let mut output = Output::new("t", Channel::Stdout, limits, Scrubber::new(Some("sk-secret")));
        assert_eq!(chunks(output.push(b"one\r\ntw")), ["one"]);
        assert_eq!(chunks(output.push(b"o\n")), ["two"]);
        assert_eq!(output.artifact(), None);
        assert_eq!(chunks(output.push(b"three sk-sec")), ["t"], "the preview ends");
        assert!(chunks(output.push(b"ret and more than is kept")).is_empty());
        assert!(chunks(output.finish()).is_empty());
        let ((name, told), bytes) = output.artifact().unwrap();
        assert_eq!((name, bytes.as_slice()), ("stdout", &b"one\r\ntwo\nthree [key]"[..]));
        assert_eq!((&told["truncated"], &told["bytes_stored"]), (&json!(true), &json!(20)));
    }

    #[test]
    fn the_last_line_needs_no_end_and_long_ones_are_cut() {
        let mut output = Output::new("t", Channel::Stdout, ToolLimits::default(), Scrubber::default());
        let long = "x".repeat(CHUNK_BYTES_MAX + 5);
        assert_eq!(chunks(output.push(long.as_bytes())).len(), 1);
        assert_eq!(chunks(output.finish()), ["xxxxx"]);
    }
}
