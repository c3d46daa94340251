//! Order: which frame may come next.
//!
//! Each invariant of the event frames is kept here and nowhere else. A frame is judged by itself and by the marks of
//! those before it, which the caller looks up: [`admit`] says whether it may come, [`marks`] what it leaves behind.
//! That `seq` has no gaps is the ledger's to see to.

mod artifact;
mod checkpoint;
mod context;
mod continuity;
mod kept;
mod mark;
mod rule;
mod session;
mod source;
mod task;

#[cfg(test)]
mod history;
#[cfg(test)]
mod tests;

pub use checkpoint::CheckpointAt;
pub use kept::parse_tip;
pub use mark::{Mark, MarkKey, Scope, marks, marks_read};
pub use rule::{Refusal, Rule};

use crate::frame::{Body, Frame, FrameError, RawFrame};
use crate::{StreamId, StreamKind, limits};

/// Admits the next frame of its stream and returns the facts that it establishes, or says which rule it breaks.
///
/// `lookup` answers with the value last set for a key, where the empty value and none are the same; frames admitted
/// earlier in the same batch count as well.
pub fn admit(
    frame: &RawFrame,
    lookup: &mut dyn FnMut(&Scope, &MarkKey) -> Option<String>,
) -> Result<Vec<Mark>, Refusal> {
    admit_read(frame, frame.decode(), None, lookup)
}

/// As [`admit`], for a frame that was read already.
pub fn admit_read(
    frame: &RawFrame,
    read: Result<Frame, FrameError>,
    digest: Option<String>,
    lookup: &mut dyn FnMut(&Scope, &MarkKey) -> Option<String>,
) -> Result<Vec<Mark>, Refusal> {
    let mut case = Case { frame, lookup };
    session::check_open(&mut case)?;
    if frame.stream().kind == StreamKind::Branch {
        kept::check(&mut case)?;
    }
    let decoded = read.map_err(|error| case.refuse(Rule::MalformedPayload, error.to_string()))?;
    match &decoded.body {
        Body::Session(body) => session::check(&mut case, body)?,
        Body::Task(body) => task::check(&mut case, body)?,
        Body::Continuity(body) => continuity::check(&mut case, body)?,
        Body::Artifact(body) => artifact::check(&mut case, body)?,
        Body::Context(body) => context::check(&mut case, &decoded, body)?,
        Body::Source(body) => source::check(&mut case, body)?,
        Body::Unknown { .. } => {}
    }
    check_keys(&mut case, &decoded, digest)
}

/// A frame may be large, but what an index finds it by may not; and what has no name is not found.
fn check_keys(case: &mut Case<'_>, decoded: &Frame, digest: Option<String>) -> Result<Vec<Mark>, Refusal> {
    let mut marks = mark::marks_of(case.frame, decoded, digest);
    if case.frame.stream().kind == StreamKind::Branch {
        // A commit that is here stays what it is.
        marks.retain(|mark| !matches!(mark.key, MarkKey::Commit(_)) || case.known(&mark.scope, &mark.key).is_none());
    }
    let mut lengths = marks.iter().filter_map(|mark| mark.key.name()).map(str::len);
    match lengths.find(|bytes| !(1..=limits::NAME_BYTES_MAX).contains(bytes)) {
        Some(bytes) => {
            let detail = format!("an id has {bytes} bytes: expected 1 to {}", limits::NAME_BYTES_MAX);
            Err(case.refuse(Rule::BadName, detail))
        }
        None => Ok(marks),
    }
}

/// A frame under judgement, and what is known.
struct Case<'a> {
    frame: &'a RawFrame,
    lookup: &'a mut dyn FnMut(&Scope, &MarkKey) -> Option<String>,
}

impl Case<'_> {
    fn refuse(&self, rule: Rule, detail: String) -> Refusal {
        Refusal::of(self.frame, rule, detail)
    }

    /// Refuses unless `holds`.
    fn require(&self, holds: bool, rule: Rule, detail: impl FnOnce() -> String) -> Result<(), Refusal> {
        if holds { Ok(()) } else { Err(self.refuse(rule, detail())) }
    }

    /// What the frame's own stream has said.
    fn here(&mut self, key: MarkKey) -> Option<String> {
        self.known(&Scope::Stream(self.frame.stream().clone()), &key)
    }

    /// What the store has said.
    fn in_store(&mut self, key: MarkKey) -> Option<String> {
        self.known(&Scope::Store, &key)
    }

    /// What a session has said; of a session that is not here, nothing.
    fn in_session(&mut self, id: &str, key: MarkKey) -> Option<String> {
        let stream = StreamId::new(StreamKind::Session, id).ok()?;
        self.known(&Scope::Stream(stream), &key)
    }

    fn known(&mut self, scope: &Scope, key: &MarkKey) -> Option<String> {
        (self.lookup)(scope, key).filter(|value| !value.is_empty())
    }

    /// What a run's context is made of is decided before it is made.
    fn check_uncompiled(&mut self, run: &str) -> Result<(), Refusal> {
        let compiled = self.here(MarkKey::RunCompiled(run.to_owned()));
        self.require(compiled.is_none(), Rule::SelectionAfterCompiled, || {
            format!("the context of run {run} was compiled at seq {}", compiled.unwrap_or_default())
        })
    }

    /// A name that people give and see.
    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let fits = (1..=limits::NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        self.require(fits, Rule::BadName, || {
            let shown: String = name.chars().take(100).collect();
            format!("name is {shown:?}: expected 1 to {} bytes without control characters", limits::NAME_BYTES_MAX)
        })
    }
}
