//! Taking one answer: every event to the log and the journal, the words to whoever watches, until it is over or given up.

use std::time::{Duration, Instant};

use enjamb_core::frame::{Body, ResponseFirstByte, ResponseHeaders};
use enjamb_core::provider::{Answer, AnswerReader, Kept, Stop, whole_body};

use super::ask::{Asked, Head, Piece, Silence};
use super::budget::{Allowance, Gauge};
use super::drive::Drive;
use super::scrub::Scrubber;
use super::{EndReason, Ending, TurnEvent};
use crate::Result;

/// How long an answer that is over may take to say that nothing follows.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Bytes of an answer that is no stream which are read.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Bytes of an answer that are taken before it is asked whether that was too much, however many came together.
const AT_ONCE_BYTES: usize = 1 << 10;

/// What came of a request.
pub(super) enum Came {
    Answer(Answer),
    /// Turned away: perhaps to come back.
    Away {
        ending: Ending,
        status: u16,
        retry_after: Option<Duration>,
        body: String,
    },
    /// As far as it came.
    Broken {
        answer: Answer,
        ending: Ending,
    },
}

impl Drive<'_, '_> {
    pub(super) fn receive(&mut self, asked: &Asked, index: u64, allowance: &Allowance) -> Result<Came> {
        let options = &self.means.provider.options;
        let until = Instant::now() + options.timeout;
        let head = match self.piece(asked, until) {
            Ok(Piece::Head(head)) => head,
            Ok(Piece::Unsent(detail)) => return Ok(self.unreached(&detail)),
            Ok(Piece::Failed(detail)) => return Ok(self.unanswered(&detail)),
            Ok(Piece::Bytes(_) | Piece::End) => return Ok(self.unanswered("there was no answer")),
            Err(silence) => return Ok(self.given_up(silence)),
        };
        self.recorder.push(vec![headers(index, &head)]);
        let is_stream = head.content_type.as_deref().is_none_or(|mime| mime.starts_with("text/event-stream"));
        if (200..300).contains(&head.status) && is_stream {
            return self.stream(asked, index, until, allowance);
        }
        self.turned_away(asked, head, until)
    }

    fn piece(&self, asked: &Asked, until: Instant) -> std::result::Result<Piece, Silence> {
        let left = until.saturating_duration_since(Instant::now());
        asked.next(left.min(self.means.provider.options.idle_timeout), self.means.cancel)
    }

    fn stream(&mut self, asked: &Asked, index: u64, until: Instant, allowance: &Allowance) -> Result<Came> {
        let mut reader = AnswerReader::new(self.means.provider.dialect());
        let (mut scrubber, mut gauge) = (self.means.provider.scrubber(), Gauge::new(allowance));
        let mut is_first = true;
        let broken = 'answer: loop {
            // Who has said everything is not waited for as long as who has not.
            let patience = if reader.is_over() { Instant::now() + AFTERWARDS } else { until };
            match self.piece(asked, patience.min(until)) {
                Ok(Piece::Bytes(bytes)) => {
                    if std::mem::take(&mut is_first) {
                        self.recorder.push(vec![ResponseFirstByte { request_index: index }.into()]);
                    }
                    for part in bytes.chunks(AT_ONCE_BYTES) {
                        self.take(&mut reader, &scrubber.push(part))?;
                        if gauge.is_over(&reader.answer().text) {
                            break 'answer Some(past_budget());
                        }
                    }
                }
                Ok(Piece::End) => break None,
                Ok(Piece::Failed(detail)) => break Some(Ending::new(EndReason::StreamCut, detail)),
                Ok(Piece::Head(_) | Piece::Unsent(_)) => {}
                Err(silence) => break Some(ending_of(silence)),
            }
        };
        self.take(&mut reader, &scrubber.finish())?;
        self.keep(reader.finish());
        Ok(self.came(reader, broken))
    }

    fn take(&mut self, reader: &mut AnswerReader, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.journal.bytes(bytes)?;
            self.keep(reader.push(bytes));
        }
        Ok(())
    }

    /// Words are shown first: they are in the journal, and the log follows.
    fn keep(&mut self, kept: Kept) {
        if !kept.text.is_empty() {
            (self.watch)(TurnEvent::Text(&kept.text));
        }
        self.recorder.keep(kept);
    }

    fn came(&self, reader: AnswerReader, broken: Option<Ending>) -> Came {
        let is_over = reader.is_over();
        let mut answer = reader.into_answer();
        if is_over {
            answer.stop.get_or_insert(Stop::Completed);
            return Came::Answer(answer);
        }
        let cut = || Ending::new(EndReason::StreamCut, "the answer broke off before it was over");
        let ending = broken.unwrap_or_else(cut);
        self.tell_fault(&ending);
        Came::Broken { answer, ending }
    }

    /// Reads what is said instead of an answer.
    fn turned_away(&mut self, asked: &Asked, head: Head, until: Instant) -> Result<Came> {
        let mut body = Vec::new();
        loop {
            match self.piece(asked, until) {
                Ok(Piece::Bytes(bytes)) => {
                    body.extend_from_slice(&bytes);
                    if body.len() > BODY_BYTES_MAX {
                        body.truncate(BODY_BYTES_MAX);
                        break;
                    }
                }
                Ok(Piece::End | Piece::Failed(_)) => break,
                Ok(Piece::Head(_) | Piece::Unsent(_)) => {}
                Err(silence) => return Ok(self.given_up(silence)),
            }
        }
        let body = scrubbed(self.means.provider.scrubber(), &body);
        let said = complaint(&body);
        let ending = match head.status {
            200..300 => {
                let mime = head.content_type.as_deref().unwrap_or_default();
                Ending::new(
                    EndReason::ProviderError,
                    format!("it answered with {mime:?} instead of a stream of events"),
                )
            }
            status => Ending::of_status(status, &said),
        };
        let (frame, artifact) = whole_body(self.means.provider.dialect(), &body, vec![ending.detail.clone()]);
        let artifacts = artifact.into_iter().collect();
        self.recorder.keep(Kept { frames: vec![frame], artifacts, text: String::new() });
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Came::Away { ending, status: head.status, retry_after: head.retry_after, body })
    }

    fn unreached(&self, detail: &str) -> Came {
        let ending = self.failed(detail);
        Came::Away { ending, status: 0, retry_after: None, body: String::new() }
    }

    /// Who was asked and did not answer may have worked, and is not asked again.
    fn unanswered(&self, detail: &str) -> Came {
        Came::Broken { answer: Answer::default(), ending: self.failed(detail) }
    }

    fn failed(&self, detail: &str) -> Ending {
        let provider = self.means.provider;
        let detail = format!("{}: {}", provider.shown(), provider.scrubber().text(detail));
        let ending = Ending::new(EndReason::ProviderError, detail);
        self.tell_fault(&ending);
        ending
    }

    fn given_up(&self, silence: Silence) -> Came {
        let ending = ending_of(silence);
        self.tell_fault(&ending);
        Came::Broken { answer: Answer::default(), ending }
    }
}

fn past_budget() -> Ending {
    Ending::new(EndReason::TokenBudget, "the answer went on past the budget, and was cut off")
}

pub(super) fn ending_of(silence: Silence) -> Ending {
    match silence {
        Silence::Cancelled => Ending::new(EndReason::Cancelled, "the run was called off"),
        Silence::Idle => Ending::new(EndReason::Timeout, "the provider said nothing for too long"),
    }
}

fn headers(index: u64, head: &Head) -> Body {
    ResponseHeaders {
        request_index: index,
        status: head.status,
        request_id: head.request_id.clone(),
        content_type: head.content_type.clone(),
    }
    .into()
}

fn scrubbed(mut scrubber: Scrubber, bytes: &[u8]) -> Vec<u8> {
    let mut out = scrubber.push(bytes).into_owned();
    out.extend(scrubber.finish());
    out
}

/// What a provider says of an error, wherever it puts it; at most a few lines.
fn complaint(body: &[u8]) -> String {
    const CHARS_MAX: usize = 300;
    crate::summarize::complaint(body).unwrap_or_default().chars().take(CHARS_MAX).collect()
}
