//! Everything that can be asked of a ledger, so that two of them, or one at two times, can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use enjamb_core::chain::Stop;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, Timestamp};
use enjamb_ledger::{Ledger, Result, Span, StreamOrder, Walk};

use crate::make;

/// Answers are complete: nothing in a test's store is past this limit.
const ALL: usize = 1_000_000;

/// One question, with everything it takes to ask it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    Totals,
    /// Not the same in two engines: one may store bytes twice that another stores once.
    Position,
    /// The log from its beginning.
    Log,
    RecentStreams,
    NamedStreams(Option<String>),
    Stream(StreamId),
    Frames(StreamId),
    /// The frames after the first: their chain has to follow from one that is not among them.
    LaterFrames(StreamId),
    Artifacts,
    Artifact(ArtifactId),
    Bytes(ArtifactId),
    /// Not the beginning, not the end.
    Middle(ArtifactId),
    Marks(Scope, MarkKey),
    Mark(Scope, MarkKey),
    /// The messages of a thread, last first.
    Messages(StreamId),
    /// The first and the last message by their numbers.
    MessageNumbers(StreamId),
    /// Where a word comes in a thread.
    Word(StreamId, &'static str),
    /// The words that begin so, and where they come.
    Words(&'static str),
    Commits,
    Commit(CommitId),
    Children(CommitId),
    /// The chain of a commit, to its root or to where a conversation can begin.
    Chain(CommitId, bool),
    CommitAt(StreamId, Timestamp),
    /// Commits without a summary: all, or those after one.
    Unsummarised(Option<CommitId>),
    /// All commits in the order in which they were made.
    Timeline,
}

/// Every question that the ledger's own contents give rise to, and some about what it does not hold.
pub fn questions(ledger: &dyn Ledger) -> Result<Vec<Question>> {
    let mut all = vec![
        Question::Totals,
        Question::Position,
        Question::Log,
        Question::RecentStreams,
        Question::NamedStreams(None),
        Question::Artifacts,
        Question::Words(""),
        Question::Words("hel"),
    ];
    let streams = ledger.streams(None, StreamOrder::Name, ALL)?;
    let kinds: BTreeSet<_> = streams.iter().map(|summary| summary.stream.kind.as_str().to_owned()).collect();
    all.extend(kinds.into_iter().chain(["absent".to_owned()]).map(|kind| Question::NamedStreams(Some(kind))));
    for stream in streams.into_iter().map(|summary| summary.stream).chain([make::stream("session/absent")]) {
        all.extend(stream_marks().map(|key| Question::Marks(Scope::Stream(stream.clone()), key)));
        all.push(Question::Mark(Scope::Stream(stream.clone()), MarkKey::Ended));
        all.push(Question::Mark(Scope::Stream(stream.clone()), MarkKey::Message(0)));
        all.push(Question::Messages(stream.clone()));
        all.push(Question::MessageNumbers(stream.clone()));
        all.extend(["hello", "absent"].map(|word| Question::Word(stream.clone(), word)));
        all.push(Question::Stream(stream.clone()));
        all.push(Question::LaterFrames(stream.clone()));
        all.push(Question::Frames(stream));
    }
    let artifacts = ledger.artifacts(&[0; 32], &[0xff; 32], ALL)?;
    for id in artifacts.into_iter().map(|summary| summary.id).chain([ArtifactId::of(b"absent")]) {
        all.extend([Question::Artifact(id), Question::Bytes(id), Question::Middle(id)]);
        all.push(Question::Mark(Scope::Store, MarkKey::Condemned(id)));
    }
    all.extend(store_marks().map(|key| Question::Marks(Scope::Store, key)));
    all.extend(about_commits(ledger)?);
    Ok(all)
}

fn about_commits(ledger: &dyn Ledger) -> Result<Vec<Question>> {
    let mut all = vec![Question::Commits, Question::Unsummarised(None), Question::Timeline];
    for id in ledger.commits(&[0; 16], &[0xff; 16], ALL)?.into_iter().chain([CommitId::from_bytes([7; 16])]) {
        all.extend([
            Question::Commit(id),
            Question::Children(id),
            Question::Chain(id, true),
            Question::Chain(id, false),
            Question::Unsummarised(Some(id)),
        ]);
        all.push(Question::Mark(Scope::Store, MarkKey::Commit(id)));
    }
    for summary in ledger.streams(Some("context"), StreamOrder::Name, ALL)? {
        let instants = ["1999-12-31T23:59:59Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:03Z", "2030-01-01T00:00:00Z"];
        let instants = instants.map(|text| text.parse().expect("an instant"));
        all.extend(instants.map(|at| Question::CommitAt(summary.stream.clone(), at)));
    }
    Ok(all)
}

fn stream_marks() -> impl Iterator<Item = MarkKey> {
    let kinds = [
        MarkKey::MessageId,
        MarkKey::RunSpawned,
        MarkKey::RunEnded,
        MarkKey::JobSpawned,
        MarkKey::JobEnded,
        MarkKey::ToolStarted,
        MarkKey::ToolEnded,
        MarkKey::RunningTool,
        MarkKey::Cursor,
        MarkKey::ThreadTag,
        MarkKey::Pinned,
    ];
    let numbered = [MarkKey::Message(0), MarkKey::Compaction { to_seq: 0, seq: 0 }, MarkKey::Link(0)];
    kinds.into_iter().map(|kind| kind(String::new())).chain(numbered)
}

fn store_marks() -> impl Iterator<Item = MarkKey> {
    let any = ArtifactId::from_digest(Digest::ZERO);
    [
        MarkKey::Tag(String::new()),
        MarkKey::Ref(String::new()),
        MarkKey::Policy(any),
        MarkKey::Condemned(any),
        MarkKey::Dropped(any),
        MarkKey::Touched { path: String::new(), thread: String::new(), seq: 0 },
    ]
    .into_iter()
}

impl Question {
    /// The whole answer as text: equal texts are equal answers.
    pub fn ask(&self, ledger: &dyn Ledger) -> Result<String> {
        Ok(match self {
            Self::Totals => format!("{:?}", ledger.totals()?),
            Self::Position => ledger.position()?.to_string(),
            Self::Log => log(ledger)?,
            Self::RecentStreams => lines(ledger.streams(None, StreamOrder::Recent, ALL)?),
            Self::NamedStreams(kind) => lines(ledger.streams(kind.as_deref(), StreamOrder::Name, ALL)?),
            Self::Stream(stream) => format!("{:?}", ledger.stream(stream)?),
            Self::Frames(stream) => frames(ledger, stream, 0)?,
            Self::LaterFrames(stream) => frames(ledger, stream, 1)?,
            Self::Artifacts => lines(ledger.artifacts(&[0; 32], &[0xff; 32], ALL)?),
            Self::Artifact(id) => format!("{:?}", ledger.artifact(id)?),
            Self::Bytes(id) => bytes(ledger, id)?,
            Self::Middle(id) => middle(ledger, id)?,
            Self::Marks(scope, like) => lines(ledger.marks(scope, like)?),
            Self::Mark(scope, key) => format!("{:?}", ledger.mark(scope, key)?),
            Self::Messages(stream) => {
                let (from, to) = (MarkKey::Message(0), MarkKey::Message(u64::MAX));
                lines(ledger.marks_in(&Scope::Stream(stream.clone()), &from, &to, Walk::Back, ALL)?)
            }
            Self::MessageNumbers(stream) => {
                let count = ledger.stream(stream)?.map_or(0, |summary| summary.messages);
                format!("{:?} {:?}", ledger.message_numbered(stream, 1)?, ledger.message_numbered(stream, count)?)
            }
            Self::Word(stream, word) => lines(ledger.postings(stream, word, u64::MAX, ALL)?),
            Self::Words(prefix) => lines(ledger.words(prefix)?),
            Self::Commits => lines(ledger.commits(&[0; 16], &[0xff; 16], ALL)?),
            Self::Commit(id) => format!("{:?}", ledger.commit(id)?),
            Self::Children(id) => lines(ledger.children(id)?),
            Self::Chain(id, to_root) => {
                let stop = if *to_root { Stop::Root } else { Stop::Compaction };
                format!("{:?}", ledger.walk(id, &stop, ALL)?)
            }
            Self::CommitAt(stream, at) => format!("{:?}", ledger.commit_at(stream, *at)?),
            Self::Unsummarised(after) => lines(ledger.unsummarised(after.as_ref(), ALL)?),
            Self::Timeline => lines(ledger.timeline(&Span::default(), ALL)?),
        })
    }

    /// The answer, or the kind and the code of the error.
    fn answer(&self, ledger: &dyn Ledger) -> String {
        self.ask(ledger).unwrap_or_else(|error| format!("{:?} {}", error.kind(), error.code()))
    }
}

/// All that a ledger says of itself.
pub fn fingerprint(ledger: &dyn Ledger) -> BTreeMap<Question, String> {
    let asked = questions(ledger).unwrap_or_else(|error| panic!("the ledger cannot be listed: {error}"));
    asked.into_iter().map(|question| (question.clone(), question.answer(ledger))).collect()
}

/// Fails unless both say the same, and shows the first difference.
#[track_caller]
pub fn assert_same(before: &BTreeMap<Question, String>, after: &BTreeMap<Question, String>) {
    for (question, answer) in before {
        let other = after.get(question).map_or("is not asked any more", String::as_str);
        assert_eq!(answer, other, "{question:?}");
    }
    let asked_later = after.keys().find(|question| !before.contains_key(question));
    assert_eq!(asked_later, None, "asked only the second time");
}

fn lines<T: std::fmt::Debug>(items: Vec<T>) -> String {
    items.into_iter().fold(String::new(), |mut text, item| {
        writeln!(text, "{item:?}").expect("writing to a string");
        text
    })
}

fn log(ledger: &dyn Ledger) -> Result<String> {
    let mut text = String::new();
    ledger.each_frame(0, &mut |_, frame| {
        writeln!(text, "{} {} {:?}", frame.stream, frame.seq, frame.key).expect("writing to a string");
        Ok(true)
    })?;
    Ok(text)
}

fn frames(ledger: &dyn Ledger, stream: &StreamId, from_seq: u64) -> Result<String> {
    let mut text = String::new();
    for frame in ledger.frames(stream, from_seq, ALL)? {
        let json = String::from_utf8_lossy(&frame.json);
        writeln!(text, "{} {} {json}", frame.seq, frame.chain).expect("writing to a string");
    }
    Ok(text)
}

fn bytes(ledger: &dyn Ledger, id: &ArtifactId) -> Result<String> {
    let content = make::read(ledger, id)?;
    Ok(format!("{} {}", content.len(), Digest::of(&content)))
}

fn middle(ledger: &dyn Ledger, id: &ArtifactId) -> Result<String> {
    let len = ledger.artifact(id)?.map_or(0, |summary| summary.len);
    let mut content = Vec::new();
    ledger.read(id, Some(len / 3..len / 2), &mut |part| {
        content.extend_from_slice(part);
        Ok(())
    })?;
    Ok(format!("{} {}", content.len(), Digest::of(&content)))
}
