//! A session read as its runtime will read it: once for how it stands, and once again for what it says.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Standing};

use super::{Said, is_document};
use crate::format::Format;
use crate::outline::Detail;
use crate::position::FormatError;
use crate::problem::Problem;
use crate::translate::{Replay, Survey, Surveyed};
use crate::window::Windows;

/// Takes the bytes of a session while they are written.
pub struct ReadBack {
    target: &'static dyn Format,
    windows: Windows,
    survey: Survey<'static>,
}

/// A session as its runtime would find it.
pub struct Written {
    target: &'static dyn Format,
    surveyed: Surveyed<'static>,
}

/// What of a session the model would have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub turns: u64,
    pub messages: u64,
    pub calls: u64,
    /// Calls that have their results.
    pub answered: u64,
    pub images: u64,
}

/// Looks for what was said in the bytes of a session.
pub struct Comparison<'w> {
    target: &'static dyn Format,
    windows: Windows,
    replay: Replay<'w, 'static>,
    wanted: &'w [Said],
}

impl ReadBack {
    pub fn new(target: &'static dyn Format) -> Self {
        Self { target, windows: windows(target), survey: Survey::in_detail(target, Detail::Skeleton) }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let survey = &mut self.survey;
        self.windows.push(bytes, |window| survey.push(window))
    }

    pub fn finish(self) -> Result<Written, FormatError> {
        let Self { target, windows, mut survey } = self;
        windows.finish(|window| survey.push(&lines(target, window)))?;
        Ok(Written { target, surveyed: survey.finish() })
    }
}

impl Written {
    /// What the runtime or its provider may object to.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.target.check(&self.surveyed.reading);
        problems.extend(self.surveyed.reading.findings.iter().cloned());
        problems
    }

    pub fn held(&self) -> Held {
        let entries = &self.surveyed.reading.conversation.entries;
        let current = || entries.iter().filter(|entry| entry.standing == Standing::Context);
        let results: HashSet<&str> =
            current().flat_map(|entry| entry.tool_results()).map(|result| result.call_id.as_str()).collect();
        let calls = || current().flat_map(|entry| entry.tool_calls()).filter(|call| !call.server);
        let is_image = |block: &&Block| matches!(block, Block::Image(_));
        Held {
            turns: current().filter(|entry| entry.is_prompt()).count() as u64,
            messages: current().filter(|entry| entry.is_message()).count() as u64,
            calls: calls().count() as u64,
            answered: calls().filter(|call| results.contains(call.id.as_str())).count() as u64,
            images: current().flat_map(|entry| &entry.blocks).filter(is_image).count() as u64,
        }
    }

    /// Begins to look for `wanted` in the same bytes.
    pub fn compare<'w>(&'w self, wanted: &'w [Said]) -> Comparison<'w> {
        Comparison { target: self.target, windows: windows(self.target), replay: self.surveyed.replay(), wanted }
    }
}

impl<'w> Comparison<'w> {
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let Self { windows, replay, wanted, .. } = self;
        windows.push(bytes, |window| replay.push(window, |entry| found(wanted, Said::in_entry(&entry))))
    }

    /// The first thing that is not said in its place, or nothing.
    pub fn finish(self) -> Result<Option<&'w Said>, FormatError> {
        let Self { target, windows, mut replay, mut wanted } = self;
        windows
            .finish(|window| replay.push(&lines(target, window), |entry| found(&mut wanted, Said::in_entry(&entry))))?;
        replay.finish(|entry| found(&mut wanted, Said::in_entry(&entry)));
        Ok(wanted.first())
    }
}

fn found(wanted: &mut &[Said], said: impl Iterator<Item = Said>) {
    for said in said {
        if wanted.first() == Some(&said) {
            *wanted = &wanted[1..];
        }
    }
}

fn windows(target: &dyn Format) -> Windows {
    if is_document(target) { Windows::whole() } else { Windows::of_lines() }
}

/// The lines that bytes amount to: a document is read as them.
fn lines(target: &dyn Format, bytes: &[u8]) -> Vec<u8> {
    match is_document(target).then(|| target.unroll(bytes)).flatten() {
        Some(lines) => lines.into_iter().flat_map(|line| (line.text + "\n").into_bytes()).collect(),
        None => bytes.to_owned(),
    }
}
