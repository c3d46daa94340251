//! A model's provider on the loopback, which says what a test wants it to, and misbehaves when it is told to.

mod serve;
mod speech;

pub use serve::{Asked, LoopbackProvider};
pub use speech::Speech;

use std::time::Duration;

/// What happens after one request.
#[derive(Clone, Debug)]
pub struct Script {
    /// The last byte of the request is not read, so that hanging up resets the connection.
    pub leaves_body: bool,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes that are sent at once.
    Bytes(Vec<u8>),
    Pause(Duration),
    /// The connection is closed within the answer.
    HangUp,
}

impl Script {
    /// A stream of events.
    pub fn events(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream", bytes)
    }

    /// Something else than a stream.
    pub fn refusal(status: u16, body: &str) -> Self {
        Self::new(status, "application/json", body)
    }

    fn new(status: u16, mime: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), mime.to_owned())];
        Self { leaves_body: false, status, headers, steps: vec![Step::Bytes(bytes.into())] }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Every byte by itself.
    #[must_use]
    pub fn byte_by_byte(mut self) -> Self {
        let split = |step: Step| match step {
            Step::Bytes(bytes) => bytes.into_iter().map(|byte| Step::Bytes(vec![byte])).collect(),
            other => vec![other],
        };
        self.steps = self.steps.into_iter().flat_map(split).collect();
        self
    }

    /// Stops after so many bytes: hangs up, or says nothing more for a while.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize, then: Step) -> Self {
        let whole: Vec<u8> = self
            .steps
            .into_iter()
            .flat_map(|step| if let Step::Bytes(bytes) = step { bytes } else { Vec::new() })
            .collect();
        let rest = whole[bytes.min(whole.len())..].to_vec();
        self.steps = vec![Step::Bytes(whole[..bytes.min(whole.len())].to_vec()), then, Step::Bytes(rest)];
        self
    }

    /// Hanging up resets the connection instead of closing it.
    #[must_use]
    pub fn resetting(mut self) -> Self {
        self.leaves_body = true;
        self
    }
}
