//! Marks: the facts that admitted frames leave behind, so that the next frame is judged without reading history.
//!
//! A frame's marks follow from the frame alone. Setting a mark twice keeps the later value, so folding a log in order,
//! from any point whose marks are kept, always gives the same marks.

use super::checkpoint::CheckpointAt;
use super::kept;
use crate::frame::{
    ArtifactBody, Body, ContextBody, ContinuityBody, Frame, FrameError, Policy, RawFrame, SessionBody, TaskBody,
    artifact_mentions,
};
use crate::{ArtifactId, CommitId, Digest, StreamId, StreamKind, limits};

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub scope: Scope,
    pub key: MarkKey,
    /// Never empty, except to say that the fact no longer holds.
    pub value: String,
}

/// Where a fact holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Stream(StreamId),
    Store,
}

/// What a fact is about. The scope and the value are given with each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKey {
    /// Stream: the seq at which a session ended.
    Ended,
    /// Stream: the id of the message at this seq.
    Message(u64),
    /// Stream: the seq of the message with this id.
    MessageId(String),
    /// Stream, as are all of runs and jobs: the seq at which it happened.
    RunSpawned(String),
    RunDecided(String),
    RunCompiled(String),
    RunEnded(String),
    JobSpawned(String),
    JobEnded(String),
    /// Stream: the seq at which a call of a tool started.
    ToolStarted(String),
    /// Stream: the seq at which it ended or failed.
    ToolEnded(String),
    /// Stream: the last call that a tool of this name was started for.
    RunningTool(String),
    /// Stream: the seq at which it happened.
    TaskSpawned,
    /// Stream: the last status.
    TaskEnded,
    /// Store: the hex of the artifact that a tag names; empty when removed.
    Tag(String),
    /// Store: `default`, `pin`, `replicate`, or `ephemeral:<ttl_ms>:<set at, ms>`.
    Policy(ArtifactId),
    /// Store: `1`; empty when something mentioned the artifact since.
    Condemned(ArtifactId),
    /// Store: `1`. That the bytes came again is for the ledger to know: of what it holds it says that it is not dropped.
    Dropped(ArtifactId),
    /// Store: the first 16 hex digits of the digest of the commit's payload.
    Commit(CommitId),
    /// Store: the id of the commit that a ref names; empty when removed.
    Ref(String),
    /// Store: the seq at which the context pack of this hash was recorded.
    Pack(String),
    /// Stream: `spawned` or `ended`, for each frame at which a run for a message did so.
    RunOf {
        message: String,
        seq: u64,
    },
    /// Stream: `1`, for each compaction checkpoint by where it cuts and where its frame is.
    Compaction {
        to_seq: u64,
        seq: u64,
    },
    /// Stream: the seq of the last frame about a provider's cursor, by the digest of provider, endpoint and model.
    Cursor(String),
    /// Stream: the seq of the last decision about scheduled compaction.
    ScheduleDecided,
    /// Stream: `1`; empty when the thread was taken out of the archive.
    Archived,
    /// Stream: `1`; empty when the thread has the tag no longer.
    ThreadTag(String),
    /// Stream: `1`; empty when the message is pinned no longer.
    Pinned(String),
    /// Stream: `1`, for each frame that links the thread to another.
    Link(u64),
    /// Store: `1`, for each frame of a thread at which a tool touched a path.
    Touched {
        path: String,
        thread: String,
        seq: u64,
    },
    /// Stream: where a branch ends, as [`super::parse_tip`] reads it.
    KeptTip,
    /// Store: the chain value that a branch begins after; `of` is the digest of the name of the stream it branches off.
    Branch {
        of: String,
        branch: String,
        from_seq: u64,
    },
    /// Store: where the workspace checkpoint with this id was made, as [`CheckpointAt`] writes it.
    Checkpoint(String),
}

impl MarkKey {
    /// The key as an index keeps it: one tag byte, then the text of what it is about. Tags are never reused.
    ///
    /// ```text
    /// 01 Ended          06 RunCompiled   0b ToolEnded     10 Policy (64 hex)
    /// 02 Message (*)    07 RunEnded      0c RunningTool   11 Condemned (64 hex)
    /// 03 MessageId      08 JobSpawned    0d TaskSpawned   12 Dropped (64 hex)
    /// 04 RunSpawned     09 JobEnded      0e TaskEnded     13 Commit (ctx-…)
    /// 05 RunDecided     0a ToolStarted   0f Tag           14 Ref
    /// 15 RunOf (u16 length, message, seq)  16 Compaction (to_seq, seq)  17 Cursor (64 hex)
    /// 18 ScheduleDecided  19 Archived  1a ThreadTag  1b Pinned  1c Pack (64 hex)  1d Link (*)
    /// 1e Touched (path, NUL, thread, NUL, seq)  1f Checkpoint  20 KeptTip  21 Branch (64 hex, NUL, branch, NUL, seq)
    /// (*) eight bytes, big-endian as all numbers, so that the messages of a stream are found in order
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag()];
        match self.subject() {
            Subject::Only => {}
            Subject::Seq(seq) => bytes.extend(seq.to_be_bytes()),
            Subject::Name(name) => bytes.extend(name.as_bytes()),
            Subject::Artifact(id) => bytes.extend(id.to_hex().into_bytes()),
            Subject::Commit(id) => bytes.extend(id.to_string().into_bytes()),
            Subject::Seqs(first, second) => bytes.extend([first.to_be_bytes(), second.to_be_bytes()].concat()),
            Subject::NameAt(name, seq) => {
                bytes.extend((name.len() as u16).to_be_bytes());
                bytes.extend(name.as_bytes());
                bytes.extend(seq.to_be_bytes());
            }
            Subject::Touch(path, thread, seq) => {
                bytes.extend([path.as_bytes(), b"\0", thread.as_bytes(), b"\0", &seq.to_be_bytes()].concat());
            }
        }
        bytes
    }

    /// Reads a key back from [`MarkKey::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        let name = || String::from_utf8(rest.to_vec()).ok();
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        let only = |key: Self| rest.is_empty().then_some(key);
        let artifact = || std::str::from_utf8(rest).ok().and_then(Digest::from_hex).map(ArtifactId::from_digest);
        match tag {
            0x01 => only(Self::Ended),
            0x02 => number(rest).map(Self::Message),
            0x03 => name().map(Self::MessageId),
            0x04 => name().map(Self::RunSpawned),
            0x05 => name().map(Self::RunDecided),
            0x06 => name().map(Self::RunCompiled),
            0x07 => name().map(Self::RunEnded),
            0x08 => name().map(Self::JobSpawned),
            0x09 => name().map(Self::JobEnded),
            0x0a => name().map(Self::ToolStarted),
            0x0b => name().map(Self::ToolEnded),
            0x0c => name().map(Self::RunningTool),
            0x0d => only(Self::TaskSpawned),
            0x0e => only(Self::TaskEnded),
            0x0f => name().map(Self::Tag),
            0x10 => artifact().map(Self::Policy),
            0x11 => artifact().map(Self::Condemned),
            0x12 => artifact().map(Self::Dropped),
            0x13 => name()?.parse().ok().map(Self::Commit),
            0x14 => name().map(Self::Ref),
            0x15 => {
                let (len, rest) = rest.split_first_chunk()?;
                let (message, seq) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
                Some(Self::RunOf { message: String::from_utf8(message.to_vec()).ok()?, seq: number(seq)? })
            }
            0x16 => {
                let (to_seq, seq) = rest.split_at_checked(8)?;
                Some(Self::Compaction { to_seq: number(to_seq)?, seq: number(seq)? })
            }
            0x17 => name().map(Self::Cursor),
            0x18 => only(Self::ScheduleDecided),
            0x19 => only(Self::Archived),
            0x1a => name().map(Self::ThreadTag),
            0x1b => name().map(Self::Pinned),
            0x1c => name().map(Self::Pack),
            0x1d => number(rest).map(Self::Link),
            0x1e => {
                let (names, seq) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
                let (path, thread) = std::str::from_utf8(names.strip_suffix(b"\0")?).ok()?.split_once('\0')?;
                Some(Self::Touched { path: path.to_owned(), thread: thread.to_owned(), seq: number(seq)? })
            }
            0x1f => name().map(Self::Checkpoint),
            0x20 => only(Self::KeptTip),
            0x21 => {
                let (names, from_seq) = rest.split_last_chunk::<8>()?;
                let names = std::str::from_utf8(names.strip_suffix(b"\0")?).ok()?;
                let (of, branch) = names.split_once('\0')?;
                let from_seq = u64::from_be_bytes(*from_seq);
                Some(Self::Branch { of: of.to_owned(), branch: branch.to_owned(), from_seq })
            }
            _ => None,
        }
    }

    /// What the fact is about, as text.
    pub fn about(&self) -> String {
        match self.subject() {
            Subject::Only => String::new(),
            Subject::Seq(seq) => seq.to_string(),
            Subject::Name(name) => name.to_owned(),
            Subject::Artifact(id) => id.to_hex(),
            Subject::Commit(id) => id.to_string(),
            Subject::Seqs(first, second) => format!("{first} {second}"),
            Subject::NameAt(name, seq) => format!("{name} {seq}"),
            Subject::Touch(path, thread, seq) => format!("{path} {thread} {seq}"),
        }
    }

    /// The name or the id in a key, where a frame's writer chose it.
    pub(super) fn name(&self) -> Option<&str> {
        match self.subject() {
            Subject::Name(name) | Subject::NameAt(name, _) | Subject::Touch(name, ..) => Some(name),
            Subject::Only | Subject::Seq(_) | Subject::Seqs(..) | Subject::Artifact(_) | Subject::Commit(_) => None,
        }
    }

    fn subject(&self) -> Subject<'_> {
        match self {
            Self::Ended
            | Self::TaskSpawned
            | Self::TaskEnded
            | Self::ScheduleDecided
            | Self::Archived
            | Self::KeptTip => Subject::Only,
            Self::Branch { of, branch, from_seq } => Subject::Touch(of, branch, *from_seq),
            Self::Message(seq) | Self::Link(seq) => Subject::Seq(*seq),
            Self::Touched { path, thread, seq } => Subject::Touch(path, thread, *seq),
            Self::RunOf { message, seq } => Subject::NameAt(message, *seq),
            Self::Compaction { to_seq, seq } => Subject::Seqs(*to_seq, *seq),
            Self::Policy(id) | Self::Condemned(id) | Self::Dropped(id) => Subject::Artifact(*id),
            Self::Commit(id) => Subject::Commit(*id),
            Self::MessageId(name)
            | Self::RunSpawned(name)
            | Self::RunDecided(name)
            | Self::RunCompiled(name)
            | Self::RunEnded(name)
            | Self::JobSpawned(name)
            | Self::JobEnded(name)
            | Self::ToolStarted(name)
            | Self::ToolEnded(name)
            | Self::RunningTool(name)
            | Self::Tag(name)
            | Self::Ref(name)
            | Self::Cursor(name)
            | Self::ThreadTag(name)
            | Self::Pinned(name)
            | Self::Pack(name)
            | Self::Checkpoint(name) => Subject::Name(name),
        }
    }

    const fn tag(&self) -> u8 {
        match self {
            Self::Ended => 0x01,
            Self::Message(_) => 0x02,
            Self::MessageId(_) => 0x03,
            Self::RunSpawned(_) => 0x04,
            Self::RunDecided(_) => 0x05,
            Self::RunCompiled(_) => 0x06,
            Self::RunEnded(_) => 0x07,
            Self::JobSpawned(_) => 0x08,
            Self::JobEnded(_) => 0x09,
            Self::ToolStarted(_) => 0x0a,
            Self::ToolEnded(_) => 0x0b,
            Self::RunningTool(_) => 0x0c,
            Self::TaskSpawned => 0x0d,
            Self::TaskEnded => 0x0e,
            Self::Tag(_) => 0x0f,
            Self::Policy(_) => 0x10,
            Self::Condemned(_) => 0x11,
            Self::Dropped(_) => 0x12,
            Self::Commit(_) => 0x13,
            Self::Ref(_) => 0x14,
            Self::RunOf { .. } => 0x15,
            Self::Compaction { .. } => 0x16,
            Self::Cursor(_) => 0x17,
            Self::ScheduleDecided => 0x18,
            Self::Archived => 0x19,
            Self::ThreadTag(_) => 0x1a,
            Self::Pinned(_) => 0x1b,
            Self::Pack(_) => 0x1c,
            Self::Link(_) => 0x1d,
            Self::Touched { .. } => 0x1e,
            Self::Checkpoint(_) => 0x1f,
            Self::KeptTip => 0x20,
            Self::Branch { .. } => 0x21,
        }
    }
}

/// Which one of its kind a key is about.
enum Subject<'a> {
    /// There is one in a scope.
    Only,
    Seq(u64),
    Name(&'a str),
    Artifact(ArtifactId),
    Commit(CommitId),
    Seqs(u64, u64),
    NameAt(&'a str, u64),
    Touch(&'a str, &'a str, u64),
}

/// The facts that a frame establishes.
pub fn marks(frame: &RawFrame) -> Vec<Mark> {
    marks_read(frame, &frame.decode())
}

/// As [`marks`], for a frame that was read already.
pub fn marks_read(frame: &RawFrame, read: &Result<Frame, FrameError>) -> Vec<Mark> {
    // What does not decode was never admitted; were it in a log all the same, it still mentions what it mentions.
    match read {
        Ok(decoded) => marks_of(frame, decoded, None),
        Err(_) => spared(frame),
    }
}

pub(super) fn marks_of(raw: &RawFrame, frame: &Frame, digest: Option<String>) -> Vec<Mark> {
    match &frame.body {
        Body::Session(body) => {
            [spared(raw), in_stream(frame, session(frame, body)), in_store(set_aside(frame, body))].concat()
        }
        Body::Task(body) => [spared(raw), in_stream(frame, task(frame, body))].concat(),
        Body::Continuity(body) => {
            [spared(raw), in_stream(frame, continuity(frame, body)), in_store(touched(frame, body))].concat()
        }
        Body::Artifact(body @ (ArtifactBody::ArtifactCondemned(_) | ArtifactBody::ArtifactDropped(_))) => {
            in_store(artifact(frame, body))
        }
        Body::Artifact(body) => [spared(raw), in_store(artifact(frame, body))].concat(),
        Body::Context(body) => {
            [spared(raw), in_store(context(frame, body, digest)), in_stream(frame, chain_run(frame, body))].concat()
        }
        Body::Unknown { .. } if raw.stream().kind == StreamKind::Branch => [spared(raw), kept::marks(raw)].concat(),
        Body::Source(_) | Body::Unknown { .. } => spared(raw),
    }
}

/// Whoever mentions an artifact needs it: it is no longer condemned.
fn spared(frame: &RawFrame) -> Vec<Mark> {
    let mentions = artifact_mentions(frame.bytes()).into_iter();
    in_store(mentions.map(|id| (MarkKey::Condemned(id), String::new())).collect())
}

fn in_stream(frame: &Frame, facts: Vec<(MarkKey, String)>) -> Vec<Mark> {
    facts.into_iter().map(|(key, value)| Mark { scope: Scope::Stream(frame.stream.clone()), key, value }).collect()
}

fn in_store(facts: Vec<(MarkKey, String)>) -> Vec<Mark> {
    facts.into_iter().map(|(key, value)| Mark { scope: Scope::Store, key, value }).collect()
}

fn session(frame: &Frame, body: &SessionBody) -> Vec<(MarkKey, String)> {
    let seq = || frame.seq.to_string();
    match body {
        SessionBody::SessionEnded(_) => vec![(MarkKey::Ended, seq())],
        SessionBody::ToolStarted(tool) => vec![
            (MarkKey::ToolStarted(tool.tool_id.clone()), seq()),
            (MarkKey::RunningTool(tool.name.clone()), tool.tool_id.clone()),
        ],
        SessionBody::ToolEnded(tool) => vec![(MarkKey::ToolEnded(tool.tool_id.clone()), seq())],
        SessionBody::ToolFailed(tool) => vec![(MarkKey::ToolEnded(tool.tool_id.clone()), seq())],
        SessionBody::SessionStarted(_)
        | SessionBody::OutputTextDelta(_)
        | SessionBody::ToolStdout(_)
        | SessionBody::ToolStderr(_)
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
        | SessionBody::SkillWarning(_) => Vec::new(),
    }
}

fn task(frame: &Frame, body: &TaskBody) -> Vec<(MarkKey, String)> {
    match body {
        TaskBody::TaskSpawned(_) => vec![(MarkKey::TaskSpawned, frame.seq.to_string())],
        TaskBody::TaskStatusChanged(changed) if changed.status.is_terminal() => {
            vec![(MarkKey::TaskEnded, changed.status.as_str().to_owned())]
        }
        TaskBody::TaskStatusChanged(_)
        | TaskBody::TaskCancelRequested(_)
        | TaskBody::TaskCancelled(_)
        | TaskBody::TaskOutputDelta(_)
        | TaskBody::TaskStdinWritten(_)
        | TaskBody::TaskResized(_)
        | TaskBody::TaskSignalled(_) => Vec::new(),
    }
}

fn continuity(frame: &Frame, body: &ContinuityBody) -> Vec<(MarkKey, String)> {
    let at_seq = |key| vec![(key, frame.seq.to_string())];
    let held = |holds: bool| if holds { "1".to_owned() } else { String::new() };
    match body {
        ContinuityBody::MessageAppended(_) => vec![
            (MarkKey::Message(frame.seq), frame.id.clone()),
            (MarkKey::MessageId(frame.id.clone()), frame.seq.to_string()),
        ],
        ContinuityBody::RunSpawned(run) => {
            [at_seq(MarkKey::RunSpawned(run.run_session_id.clone())), run_of(frame, &run.message_id, "spawned")]
                .concat()
        }
        ContinuityBody::SelectionDecided(run) => at_seq(MarkKey::RunDecided(run.run_session_id.clone())),
        ContinuityBody::ContextCompiled(run) => at_seq(MarkKey::RunCompiled(run.run_session_id.clone())),
        ContinuityBody::RunEnded(run) => {
            [at_seq(MarkKey::RunEnded(run.run_session_id.clone())), run_of(frame, &run.message_id, "ended")].concat()
        }
        ContinuityBody::JobSpawned(job) => at_seq(MarkKey::JobSpawned(job.job_id.clone())),
        ContinuityBody::JobEnded(job) => at_seq(MarkKey::JobEnded(job.job_id.clone())),
        ContinuityBody::CompactionCheckpointCreated(checkpoint) => {
            vec![(MarkKey::Compaction { to_seq: checkpoint.to_seq, seq: frame.seq }, held(true))]
        }
        ContinuityBody::ProviderCursorUpdated(cursor) => at_seq(MarkKey::Cursor(cursor.key_digest())),
        ContinuityBody::CompactionScheduleDecided(_) => at_seq(MarkKey::ScheduleDecided),
        ContinuityBody::ThreadArchived(archived) => vec![(MarkKey::Archived, held(archived.archived))],
        ContinuityBody::ThreadTagged(tags) => {
            let tag = |holds: bool| move |name: &String| (MarkKey::ThreadTag(name.clone()), held(holds));
            tags.remove.iter().map(tag(false)).chain(tags.add.iter().map(tag(true))).collect()
        }
        ContinuityBody::MessagePinned(pin) => vec![(MarkKey::Pinned(pin.message_id.clone()), held(pin.pinned))],
        ContinuityBody::Branched(_) | ContinuityBody::HandoffCreated(_) | ContinuityBody::ThreadReferenced(_) => {
            vec![(MarkKey::Link(frame.seq), held(true))]
        }
        ContinuityBody::ThreadCreated(_) | ContinuityBody::ToolSideEffects(_) | ContinuityBody::RetrievalDecided(_) => {
            Vec::new()
        }
    }
}

/// Where files were set aside. A checkpoint whose id is no name is not found by, and its frame is kept all the same.
fn set_aside(frame: &Frame, body: &SessionBody) -> Vec<(MarkKey, String)> {
    let SessionBody::CheckpointCreated(checkpoint) = body else { return Vec::new() };
    let id = &checkpoint.checkpoint_id;
    if !(1..=limits::NAME_BYTES_MAX).contains(&id.len()) {
        return Vec::new();
    }
    vec![(MarkKey::Checkpoint(id.clone()), CheckpointAt::of(frame, checkpoint).to_string())]
}

/// The paths that a tool touched. One that is no name is not found by, and its frame is kept all the same.
fn touched(frame: &Frame, body: &ContinuityBody) -> Vec<(MarkKey, String)> {
    let ContinuityBody::ToolSideEffects(effects) = body else { return Vec::new() };
    let is_name = |path: &&String| (1..=limits::NAME_BYTES_MAX).contains(&path.len()) && !path.contains('\0');
    let paths = effects.affected_paths.iter().flatten().filter(is_name);
    let key = |path: &String| MarkKey::Touched { path: path.clone(), thread: frame.stream.id.clone(), seq: frame.seq };
    paths.map(|path| (key(path), "1".to_owned())).collect()
}

/// A message that no message can have the id of is not found by it either, and its frame is kept all the same.
fn run_of(frame: &Frame, message: &str, what: &str) -> Vec<(MarkKey, String)> {
    if !(1..=limits::NAME_BYTES_MAX).contains(&message.len()) {
        return Vec::new();
    }
    vec![(MarkKey::RunOf { message: message.to_owned(), seq: frame.seq }, what.to_owned())]
}

fn artifact(frame: &Frame, body: &ArtifactBody) -> Vec<(MarkKey, String)> {
    let set = || "1".to_owned();
    match body {
        ArtifactBody::ArtifactWritten(_) => Vec::new(),
        ArtifactBody::ArtifactTagged(tag) => {
            let target = parsed(&tag.artifact_id).next();
            vec![(MarkKey::Tag(tag.name.clone()), target.map_or_else(String::new, |id| id.to_hex()))]
        }
        ArtifactBody::ArtifactPacked(pack) => vec![(MarkKey::Pack(pack.pack_hash.clone()), frame.seq.to_string())],
        ArtifactBody::ArtifactPolicySet(set) => parsed([&set.artifact_id])
            .map(|id| (MarkKey::Policy(id), policy_value(&set.policy, set.ttl_ms, frame.timestamp_ms)))
            .collect(),
        ArtifactBody::ArtifactCondemned(these) => {
            parsed(&these.artifact_ids).map(|id| (MarkKey::Condemned(id), set())).collect()
        }
        ArtifactBody::ArtifactDropped(these) => parsed(&these.artifact_ids)
            .flat_map(|id| [(MarkKey::Dropped(id), set()), (MarkKey::Condemned(id), String::new())])
            .collect(),
    }
}

fn parsed<'a>(texts: impl IntoIterator<Item = &'a String>) -> impl Iterator<Item = ArtifactId> {
    texts.into_iter().filter_map(|text| text.parse().ok())
}

fn policy_value(policy: &Policy, ttl_ms: Option<u64>, set_at_ms: u64) -> String {
    match policy {
        Policy::Ephemeral => format!("ephemeral:{}:{set_at_ms}", ttl_ms.unwrap_or(0)),
        Policy::Default | Policy::Pin | Policy::Replicate | Policy::Other(_) => policy.as_str().to_owned(),
    }
}

fn context(frame: &Frame, body: &ContextBody, digest: Option<String>) -> Vec<(MarkKey, String)> {
    match body {
        ContextBody::ContextCommitted(commit) => {
            let id = commit.commit_id.parse().ok();
            let digest = digest.map_or_else(|| payload_digest(frame), shortened);
            id.map(|id| (MarkKey::Commit(id), digest)).into_iter().collect()
        }
        ContextBody::ContextRefMoved(moved) => {
            vec![(MarkKey::Ref(moved.name.clone()), moved.commit_id.clone().unwrap_or_default())]
        }
        ContextBody::ContextNoted(_) | ContextBody::ChainSelectionDecided(_) | ContextBody::ChainCompiled(_) => {
            Vec::new()
        }
    }
}

/// That a commit is here, said by a frame that is kept.
pub(super) fn commit_mark(frame: &Frame) -> Option<Mark> {
    match &frame.body {
        Body::Context(body @ ContextBody::ContextCommitted(_)) => in_store(context(frame, body, None)).pop(),
        _ => None,
    }
}

/// What was decided and made for a run from a chain.
fn chain_run(frame: &Frame, body: &ContextBody) -> Vec<(MarkKey, String)> {
    let key = match body {
        ContextBody::ChainSelectionDecided(run) => MarkKey::RunDecided(run.run_session_id.clone()),
        ContextBody::ChainCompiled(run) => MarkKey::RunCompiled(run.run_session_id.clone()),
        ContextBody::ContextCommitted(_) | ContextBody::ContextNoted(_) | ContextBody::ContextRefMoved(_) => {
            return Vec::new();
        }
    };
    vec![(key, frame.seq.to_string())]
}

/// By which the same commit sent again is told from another one of that id.
pub(super) fn payload_digest(frame: &Frame) -> String {
    shortened(Digest::of(&frame.payload_json()).to_hex())
}

/// As much of a digest as tells two payloads under one id apart.
fn shortened(mut hex: String) -> String {
    hex.truncate(16);
    hex
}
