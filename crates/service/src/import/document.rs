//! A file that its runtime writes anew each time. Where a format reads it as lines, those that are new are told as they
//! would be of a file that grew; its bytes are kept turn by turn, so that what stays the same is stored once.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use enjamb_core::chain::CommitKind;
use enjamb_core::frame::SourcePart;
use enjamb_core::{ArtifactId, CommitId, Digest};
use enjamb_formats::{Format, UnrolledLine};

use super::ImportIssue;
use super::file::{FileImport, Step};
use super::group::Group;
use super::growth::{Known, Sequence, growth};
use super::judge::Content;
use super::segment::Lying;
use super::source::{failed, seek};
use crate::Result;

/// What commits of documents say they are in that no format reads.
const UNREAD: &str = "document-v1";

/// The lines of a delta, by what they tell of.
pub(super) fn known_lines(format: &dyn Format, delta: &[u8]) -> Vec<Known> {
    let text = String::from_utf8_lossy(delta);
    text.lines().map(|line| known(format, line)).collect()
}

fn known(format: &dyn Format, line: &str) -> Known {
    Known { key: format.line_key(line), digest: Digest::of(line.as_bytes()) }
}

impl FileImport {
    pub(super) fn document(&mut self, file: &mut File, group: &mut Group<'_>) -> Result<Step> {
        let path = &self.file.path;
        seek(file, path, 0)?;
        let mut rest = file.take(self.file.size);
        if self.file.size > self.window_bytes as u64 {
            self.origin.format = UNREAD;
            let (artifact, bytes) = group.stream(&mut rest)?;
            self.streamed(artifact, bytes, CommitKind::Snapshot, "explicit", group)?;
            return Ok(Step::Finished);
        }
        let mut bytes = Vec::new();
        rest.read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
        if (bytes.len() as u64) < self.file.size {
            return Err(failed(path, std::io::ErrorKind::UnexpectedEof.into()));
        }
        let format = enjamb_formats::by_id(self.origin.format);
        match format.and_then(|format| Some((format, format.unroll(&bytes)?))) {
            Some((format, lines)) => self.unrolled(format, bytes, &lines, group)?,
            None => self.unread(bytes, group)?,
        }
        Ok(Step::Finished)
    }

    /// Tells what is new, and keeps the bytes.
    fn unrolled(
        &mut self,
        format: &dyn Format,
        bytes: Vec<u8>,
        lines: &[UnrolledLine],
        group: &mut Group<'_>,
    ) -> Result<()> {
        let found: Vec<Known> = lines.iter().map(|line| known(format, &line.text)).collect();
        let (commits, told): (Vec<CommitId>, Vec<Vec<Known>>) = std::mem::take(&mut self.told).into_iter().unzip();
        let growth = growth(&told, &found, Sequence::Fixed);
        self.rewritten = growth.kept < told.len();
        self.tip = growth.kept.checked_sub(1).map(|last| commits[last]);
        let mut owners: HashMap<String, CommitId> = HashMap::new();
        for (commit, lines) in commits.iter().zip(told).take(growth.kept) {
            owners.extend(lines.into_iter().map(|line| (line.key, *commit)));
        }
        let mut text = String::new();
        for index in growth.lines {
            text.push_str(&lines[index].text);
            text.push('\n');
        }
        self.tell_lines(format, text.as_bytes(), &mut owners, group)?;
        self.keep(format, bytes, lines, &owners, group)
    }

    /// Makes commits of lines, and learns which line is in which.
    fn tell_lines(
        &mut self,
        format: &dyn Format,
        text: &[u8],
        owners: &mut HashMap<String, CommitId>,
        group: &mut Group<'_>,
    ) -> Result<()> {
        let mut done = 0;
        while done < text.len() {
            self.lines(text[done..].to_vec(), true, group)?;
            for part in std::mem::take(&mut self.parts) {
                let end = done + part.bytes as usize;
                let commit: CommitId = part.commit_id.parse()?;
                owners.extend(known_lines(format, &text[done..end]).into_iter().map(|line| (line.key, commit)));
                done = end;
            }
        }
        Ok(())
    }

    /// Keeps the bytes of a document in parts that end where turns do. What stands around the messages changes each time.
    fn keep(
        &mut self,
        format: &dyn Format,
        bytes: Vec<u8>,
        lines: &[UnrolledLine],
        owners: &HashMap<String, CommitId>,
        group: &mut Group<'_>,
    ) -> Result<()> {
        let Some(tip) = self.tip else { return self.unread(bytes, group) };
        self.offset = 0;
        let mut fresh = Vec::new();
        for (range, last) in fragments(format, lines, bytes.len()) {
            let owner = last.and_then(|last| owners.get(&format.line_key(&lines[last].text)));
            let commit = owner.copied().unwrap_or(tip);
            let artifact = ArtifactId::of(&bytes[range.clone()]);
            self.part(commit, artifact, range.len() as u64);
            if group.wants(artifact)? {
                fresh.push(Lying::of(artifact, range, &bytes));
            }
        }
        self.tip = Some(tip);
        group.within(bytes, fresh)
    }

    /// A document that no format reads is one commit, which stands for those before; one that is broken off only now adds
    /// nothing to what was told of it.
    fn unread(&mut self, bytes: Vec<u8>, group: &mut Group<'_>) -> Result<()> {
        let whole = 0..bytes.len();
        if let (Some(tip), false) = (self.tip, self.told.is_empty()) {
            let detail = "The document is not whole; it is kept, and read again when it has changed.".to_owned();
            self.issues.push(ImportIssue { path: self.origin.path.clone().into(), line: 1, detail });
            self.problems += 1;
            let artifact = ArtifactId::of(&bytes);
            self.part(tip, artifact, bytes.len() as u64);
            if !group.wants(artifact)? {
                return Ok(());
            }
            let fresh = vec![Lying::of(artifact, whole, &bytes)];
            return group.within(bytes, fresh);
        }
        self.origin.format = UNREAD;
        let stem = Path::new(&self.origin.path).file_stem().and_then(|stem| stem.to_str());
        self.origin.session = self.origin.session.take().or(stem.map(str::to_owned));
        let commit = self.take(Content::of(&bytes), None, CommitKind::Snapshot, "explicit", whole);
        let fresh = group.commit(vec![commit])?;
        group.within(bytes, fresh)
    }

    /// Keeps a small file as it is, beside the session that it belongs to.
    pub(super) fn whole(&mut self, tip: CommitId, group: &mut Group<'_>) -> Result<()> {
        let bytes = std::fs::read(&self.file.path).map_err(|source| failed(&self.file.path, source))?;
        self.file.size = bytes.len() as u64;
        let artifact = ArtifactId::of(&bytes);
        self.parts = vec![SourcePart {
            commit_id: tip.to_string(),
            artifact_id: artifact.to_hex(),
            bytes: bytes.len() as u64,
            extra: Vec::new(),
        }];
        self.offset = bytes.len() as u64;
        if group.wants(artifact)? {
            group.inline(bytes);
        }
        Ok(())
    }
}

/// The ranges that a document is kept in, each with the last line that it holds.
fn fragments(format: &dyn Format, lines: &[UnrolledLine], len: usize) -> Vec<(Range<usize>, Option<usize>)> {
    let mut ends: Vec<(usize, Option<usize>)> = Vec::new();
    let first = lines.iter().find_map(|line| line.range.clone());
    ends.extend(first.map(|first| (first.start, None)));
    let text: String = lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
    let turns = format.turns(text.as_bytes()).unwrap_or_default();
    let mut at = 0;
    for (index, line) in lines.iter().enumerate() {
        at += line.text.len() + 1;
        if let (Some(range), Ok(_)) = (&line.range, turns.binary_search(&at)) {
            ends.push((range.end, Some(index)));
        }
    }
    ends.push((len, None));
    let mut start = 0;
    let mut ranges = Vec::new();
    for (end, last) in ends {
        if end > start {
            ranges.push((start..end, last));
            start = end;
        }
    }
    ranges
}
