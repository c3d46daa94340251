//! One file on its way in: read window by window, each piece a commit that follows the one before, or the one it goes back
//! to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use enjamb_core::chain::CommitKind;
use enjamb_core::conversation::Conversation;
use enjamb_core::frame::{Json, SourcePart, SourceRead};
use enjamb_core::redact::{RULE_SET, Redacted, SecretStream};
use enjamb_core::{ArtifactId, CommitId, StreamId, Timestamp};
use tempfile::TempPath;

use super::ahead::Ahead;
use super::branches::Branches;
use super::commit::{Delta, Origin};
use super::cut::begins_turn;
use super::group::{Commit, Group};
use super::growth::Known;
use super::judge::{Content, Judged, JudgedPiece, judge};
use super::segment::Lying;
use super::source::{KnownPart, SourceState, failed, seek};
use super::told::Told;
use super::window::{self, Record, Window};
use super::{ImportIssue, SourceFile};
use crate::{Actor, PutOptions, Result, Store};

/// Parts that one frame tells of, give or take a window: some 170 bytes each.
const PARTS_TOLD: usize = 3_000;

/// A file that holds something new.
pub(super) struct FileImport {
    pub file: SourceFile,
    pub stream: StreamId,
    /// The seq that its next frame must get: nobody else has read it in between.
    seq: u64,
    pub origin: Origin,
    pub window_bytes: usize,
    /// Where this read began.
    pub from: u64,
    pub offset: u64,
    lines: u64,
    pub tip: Option<CommitId>,
    branches: Branches,
    pub parts: Vec<SourcePart>,
    records: BTreeMap<String, u64>,
    /// Records of all reads since the import began.
    pub counted: BTreeMap<String, u64>,
    pub issues: Vec<ImportIssue>,
    pub problems: u64,
    /// What was read before is no longer what the file holds.
    pub rewritten: bool,
    /// The last parts that are stored, until it was looked at which records they hold.
    pub recall: Vec<KnownPart>,
    /// What was told of a document before, commit by commit.
    pub told: Vec<(CommitId, Vec<Known>)>,
    /// Files that the session is kept in, to be given back as they are.
    pub beside: Vec<SourceFile>,
    /// It is not a file itself, but told in files, which are counted.
    pub in_files: bool,
    /// Secrets of this read, and of all reads since the import began.
    secrets: Redacted,
    pub secrets_counted: Redacted,
    /// The file is only there to be read, and goes with this.
    pub held: Option<TempPath>,
}

/// What to do next with a file.
#[derive(PartialEq, Eq)]
pub(super) enum Step {
    More,
    Finished,
}

impl FileImport {
    /// A file, read up to `from` already.
    pub(super) fn new(
        file: SourceFile,
        origin: Origin,
        known: Option<&SourceState>,
        from: u64,
        lines: u64,
        parts: usize,
    ) -> Self {
        let stream = super::source::stream_of(&origin.path);
        let tip = known.and_then(|state| parts.checked_sub(1).and_then(|last| state.parts.get(last)));
        let rewritten = known.is_some_and(|state| parts < state.parts.len());
        Self {
            file,
            stream,
            seq: known.map_or(0, |state| state.next_seq),
            origin,
            window_bytes: super::ImportBounds::default().window_bytes,
            from,
            offset: from,
            lines,
            tip: tip.map(|part| part.commit),
            branches: Branches::default(),
            parts: Vec::new(),
            records: BTreeMap::new(),
            counted: BTreeMap::new(),
            issues: Vec::new(),
            problems: 0,
            rewritten,
            recall: Vec::new(),
            told: Vec::new(),
            beside: Vec::new(),
            in_files: false,
            secrets: Redacted::default(),
            secrets_counted: Redacted::default(),
            held: None,
        }
    }

    /// Reads the next window into a group.
    pub(super) fn step(&mut self, ahead: &mut Ahead, group: &mut Group<'_>) -> Result<Step> {
        if let Some(judged) = ahead.window(&self.file.path, self.offset) {
            self.judged(judged, group)?;
            return Ok(self.stands());
        }
        let path = self.file.path.clone();
        let mut file = File::open(&path).map_err(|source| failed(&path, source))?;
        if self.file.is_document() {
            return self.document(&mut file, group);
        }
        match window::read(&mut file, &path, self.offset, self.file.size, self.window_bytes)? {
            Window::Lines { bytes, at_end } => {
                self.lines(bytes, at_end, group)?;
                Ok(self.stands())
            }
            Window::Long(head) => {
                self.long_line(&mut file, &path, &head, group)?;
                Ok(self.stands())
            }
            Window::End => Ok(Step::Finished),
        }
    }

    fn stands(&self) -> Step {
        if self.offset >= self.file.size { Step::Finished } else { Step::More }
    }

    pub(super) fn lines(&mut self, bytes: Vec<u8>, at_end: bool, group: &mut Group<'_>) -> Result<()> {
        self.judged(judge(self.origin.format, bytes, at_end), group)
    }

    /// Makes commits of a window.
    fn judged(&mut self, judged: Judged, group: &mut Group<'_>) -> Result<()> {
        for (line, detail) in judged.damage {
            self.issues.push(ImportIssue { path: self.origin.path.clone().into(), line: self.lines + line, detail });
            self.problems += 1;
        }
        let commits = judged.pieces.into_iter().map(|piece| self.piece(piece)).collect();
        self.lines += judged.lines;
        let fresh = group.commit(commits)?;
        group.within(judged.bytes, fresh)
    }

    /// The commit that a piece becomes.
    fn piece(&mut self, piece: JudgedPiece) -> Commit {
        let JudgedPiece { range, kind, trigger, is_turn, told, records, content } = piece;
        let Some(told) = told else { return self.take(content, None, kind, trigger, range) };
        if let Some(parent) = self.branches.goes_back(&told) {
            self.tip = Some(parent);
        }
        if is_turn {
            self.branches.turns.push(self.tip);
        }
        self.origin.learn(&told);
        let parent = self.tip;
        let commit = self.take(content, Some(&told), kind, trigger, range);
        for record in &records {
            *self.records.entry(record.kind.clone()).or_default() += 1;
        }
        if let Some(tip) = self.tip {
            self.branches.learn(tip, parent, &records, kind);
        }
        if let Some(before) = self.taken_back(&told) {
            self.tip = before;
        }
        commit
    }

    /// Makes a commit of bytes that lie in a window.
    pub(super) fn take(
        &mut self,
        content: Content,
        told: Option<&Told>,
        kind: CommitKind,
        trigger: &'static str,
        range: Range<usize>,
    ) -> Commit {
        let Content { artifact, bytes, secrets, cuts } = content;
        secrets.iter().for_each(|rule| self.secrets.add(rule));
        let delta = Delta { artifact, from: self.offset, bytes, kind, trigger, told };
        let made = self.origin.commit(&delta, self.tip, self.fallback());
        self.part(made.id, artifact, bytes);
        Commit { made, delta: Lying { id: artifact, range, cuts } }
    }

    pub(super) fn part(&mut self, id: CommitId, artifact: ArtifactId, bytes: u64) {
        self.parts.push(SourcePart {
            commit_id: id.to_string(),
            artifact_id: artifact.to_hex(),
            bytes,
            extra: Vec::new(),
        });
        self.tip = Some(id);
        self.offset += bytes;
    }

    /// A line that memory is not meant for: its bytes pass through, and only how it begins is looked at.
    fn long_line(&mut self, file: &mut File, path: &Path, head: &[u8], group: &mut Group<'_>) -> Result<()> {
        seek(file, path, self.offset)?;
        let mut line = LineReader {
            source: BufReader::with_capacity(256 << 10, file.take(self.file.size - self.offset)),
            ended: false,
            secrets: SecretStream::default(),
        };
        let (artifact, bytes) = group.stream(&mut line)?;
        line.secrets.finish();
        line.secrets.take_found().iter().for_each(|found| self.secrets.add(found.rule));
        let is_compaction = begins_compaction(head);
        let kind = if is_compaction { CommitKind::Compaction } else { CommitKind::Delta };
        let trigger = if is_compaction { "compaction" } else { "explicit" };
        self.streamed(artifact, bytes, kind, trigger, group)?;
        *self.records.entry(named_type(head)).or_default() += 1;
        self.lines += 1;
        if is_compaction {
            self.branches.compacted();
        }
        Ok(())
    }

    pub(super) fn streamed(
        &mut self,
        artifact: ArtifactId,
        bytes: u64,
        kind: CommitKind,
        trigger: &'static str,
        group: &mut Group<'_>,
    ) -> Result<()> {
        let delta = Delta { artifact, from: self.offset, bytes, kind, trigger, told: None };
        let made = self.origin.commit(&delta, self.tip, self.fallback());
        self.part(made.id, artifact, bytes);
        // Its bytes have passed through already.
        let delta = Lying { id: artifact, range: 0..0, cuts: Vec::new() };
        group.commit(vec![Commit { made, delta }]).map(drop)
    }

    fn fallback(&self) -> Timestamp {
        self.file.modified.unwrap_or(Timestamp::from_micros(0))
    }

    /// Whether so much was read that a frame is due that tells of it.
    pub(super) fn is_much(&self) -> bool {
        self.parts.len() >= PARTS_TOLD
    }

    /// Tells a group how far the file was read. Once it is read to its end, that takes in the line that is not whole.
    pub(super) fn tell(&mut self, finished: bool, store: &Store, group: &mut Group<'_>, by: &Actor) -> Result<()> {
        let tail = if finished && self.offset < self.file.size { Some(self.tail(store, group)?) } else { None };
        let size = if finished { self.file.size } else { self.offset };
        let records = std::mem::take(&mut self.records);
        for (kind, count) in &records {
            *self.counted.entry(kind.clone()).or_default() += count;
        }
        let records = serde_json::to_value(records).unwrap_or_default();
        let secrets = self.take_secrets();
        let read = SourceRead {
            path: self.origin.path.clone(),
            runtime: self.origin.runtime.to_owned(),
            format: self.origin.format.to_owned(),
            machine: self.origin.machine.clone(),
            agent_session_id: self.origin.session.clone(),
            from: self.from,
            to: self.offset,
            lines: self.lines,
            parts: std::mem::take(&mut self.parts),
            tail_artifact_id: tail.map(|id| id.to_hex()),
            size,
            // Only a file that was read to its end can be found unchanged.
            modified_us: self.file.modified.filter(|_| finished).map(Timestamp::as_micros),
            records: Json::from(records),
            problems: std::mem::take(&mut self.problems),
            secrets,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        group.read(&self.stream, self.seq, read)?;
        self.seq += 1;
        self.from = self.offset;
        Ok(())
    }

    /// What a frame says of secrets: of which kinds there are how many, and by which rules. Nothing of themselves.
    fn take_secrets(&mut self) -> Option<Json> {
        let found = std::mem::take(&mut self.secrets).found;
        for (rule, count) in &found {
            *self.secrets_counted.found.entry(rule).or_default() += count;
        }
        (!found.is_empty()).then(|| serde_json::json!({"rules": RULE_SET, "found": found}).into())
    }

    fn tail(&mut self, store: &Store, group: &mut Group<'_>) -> Result<ArtifactId> {
        let path = &self.file.path;
        self.issues.push(ImportIssue {
            path: self.origin.path.clone().into(),
            line: self.lines + 1,
            detail: "The last line is cut short; it is kept, and read again when it has grown.".to_owned(),
        });
        self.problems += 1;
        let mut file = File::open(path).map_err(|source| failed(path, source))?;
        seek(&mut file, path, self.offset)?;
        let mut rest = file.take(self.file.size - self.offset);
        if self.file.size - self.offset > enjamb_core::limits::ARTIFACT_INLINE_BYTES_MAX as u64 {
            return Ok(store.put(&mut rest, &PutOptions::default())?.id);
        }
        let mut bytes = Vec::new();
        rest.read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
        Ok(group.inline(bytes))
    }

    /// Lets what goes back to a commit that is stored already, or takes it back, be told from what follows the last.
    pub(super) fn remember(
        &mut self,
        commit: CommitId,
        parent: Option<CommitId>,
        records: &[Record],
        conversation: &Conversation,
    ) {
        let first = conversation.entries.iter().find(|entry| entry.is_message());
        if first.is_some_and(|first| begins_turn(first, false)) {
            self.branches.turns.push(parent);
        }
        self.branches.learn(commit, parent, records, CommitKind::Delta);
        self.tip = self.taken_back(&Told::of(conversation)).unwrap_or(Some(commit));
    }

    /// What follows, where something that was said is taken back.
    fn taken_back(&mut self, told: &Told) -> Option<Option<CommitId>> {
        let rewound = self.branches.rewound(told);
        self.branches.rolled_back(told).or(rewound)
    }
}

/// Whether a line of Codex says that it is a compaction.
fn begins_compaction(head: &[u8]) -> bool {
    named_type(head) == "compacted"
}

/// The type of a record that is too long to be read, if it says so before anything large.
fn named_type(head: &[u8]) -> String {
    const NAMED_WITHIN: usize = 400;
    let head = String::from_utf8_lossy(&head[..head.len().min(NAMED_WITHIN)]);
    let told = head.split_once("\"type\":").map(|(_, rest)| rest.trim_start().trim_start_matches('"'));
    let name = told.and_then(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned());
    name.unwrap_or_else(|| "untyped".to_owned())
}

/// Gives one line, with its newline, and then nothing. What it holds of secrets is counted on the way.
struct LineReader<R> {
    source: BufReader<R>,
    ended: bool,
    secrets: SecretStream,
}

impl<R: Read> Read for LineReader<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let ready = self.source.fill_buf()?;
        let ready = &ready[..ready.len().min(out.len())];
        let count = ready.iter().position(|byte| *byte == b'\n').map_or(ready.len(), |at| at + 1);
        out[..count].copy_from_slice(&ready[..count]);
        self.ended = ready[..count].ends_with(b"\n");
        self.secrets.push(&ready[..count]);
        self.source.consume(count);
        Ok(count)
    }
}
