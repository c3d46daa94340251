//! Frames in and out as files of JSON lines, byte for byte.
//!
//! Each line that is the next frame of its stream is appended to it. Whatever else the file holds (a torn line, a frame
//! out of order, an empty line) is kept as it is in a manifest that also says how the streams were interleaved, so the
//! file can be given back exactly.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};

use enjamb_core::frame::RawFrame;
use enjamb_core::{ArtifactId, Digest, Hasher, StreamId, limits};
use enjamb_ledger::Ledger;
use serde::{Deserialize, Serialize};

use crate::{Append, DraftLine, PutOptions, Result, ServiceError, Store};

const SCHEMA: &str = "enjamb.frames_import/1";
const LINES_PER_BATCH: usize = 500;
/// Lines may be long: so many bytes are a batch too.
const BYTES_PER_BATCH: usize = 8 << 20;
/// A line longer than this is no frame; its bytes are kept as an artifact.
const LITERAL_BYTES_MAX: usize = 4 << 10;
/// Names of repeated members that are told.
const REPEATED_MEMBERS_MAX: usize = 20;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Import {
    pub manifest: Option<ArtifactId>,
    pub lines: u64,
    pub appended: u64,
    /// Frames that were in the store already, byte for byte.
    pub known: u64,
    pub bytes: u64,
    pub digest: Option<Digest>,
    pub problems: Vec<ImportProblem>,
    /// Members that frames give more than once, and how many frames do. They are kept so; readers differ in which counts.
    pub repeated: BTreeMap<String, u64>,
}

/// A line that is kept but is not the next frame of any stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProblem {
    pub line: u64,
    pub detail: String,
}

/// How to make the file again from what is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    bytes: u64,
    digest: String,
    streams: Vec<String>,
    parts: Vec<Part>,
    final_newline: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Stream (as an index into `streams`), first seq, number of frames.
    Frames(usize, u64, u64),
    Line(String),
    /// A line of bytes that are not UTF-8, or are many.
    Stored(String),
}

struct Importer<'s> {
    store: &'s Store,
    manifest: Manifest,
    waiting: Vec<(u64, RawFrame)>,
    waiting_bytes: usize,
    report: Import,
}

impl Store {
    /// Takes in a file of frames. Lines that cannot be appended are kept and reported, never fatal.
    pub fn import_frames(&self, source: &mut dyn BufRead) -> Result<Import> {
        let mut importer = Importer {
            store: self,
            manifest: Manifest::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            report: Import::default(),
        };
        let mut source = Lines { source, hasher: Hasher::new(), bytes: 0, ended: true };
        let mut line = Vec::new();
        while source.next(&mut line)? {
            if line.len() <= limits::FRAME_BYTES_MAX {
                importer.take(&line)?;
            } else {
                importer.take_long(&line, &mut source)?;
            }
        }
        importer.manifest.final_newline = source.ended;
        importer.report.bytes = source.bytes;
        importer.finish(source.hasher.finish())
    }

    /// Writes a file that was imported, as it was.
    pub fn export_import(&self, manifest: &ArtifactId, out: &mut dyn Write) -> Result<Digest> {
        let manifest: Manifest = serde_json::from_slice(&self.get_small(manifest)?)
            .ok()
            .filter(|manifest: &Manifest| manifest.schema == SCHEMA)
            .ok_or_else(|| ServiceError::Unknown { what: "import", name: manifest.to_string() })?;
        let mut out = HashingWriter { out, hasher: Hasher::new() };
        let last = manifest.parts.len().saturating_sub(1);
        for (index, part) in manifest.parts.iter().enumerate() {
            self.export_part(&manifest, part, index == last, &mut out)?;
        }
        Ok(out.hasher.finish())
    }

    fn export_part(&self, manifest: &Manifest, part: &Part, is_last: bool, out: &mut HashingWriter<'_>) -> Result<()> {
        let end: &[u8] = if is_last && !manifest.final_newline { b"" } else { b"\n" };
        match part {
            Part::Line(text) => {
                out.write(text.as_bytes())?;
                out.write(end)
            }
            Part::Stored(id) => {
                let id = self.resolve_artifact(id)?;
                self.get(&id, None, &mut |bytes| out.write_io(bytes))?;
                out.write(end)
            }
            Part::Frames(stream, first, count) => {
                let name = manifest.streams.get(*stream).map_or("", String::as_str);
                self.export_run(&name.parse()?, *first..*first + *count, end, out)
            }
        }
    }

    fn export_run(
        &self,
        stream: &StreamId,
        seqs: std::ops::Range<u64>,
        end: &[u8],
        out: &mut HashingWriter<'_>,
    ) -> Result<()> {
        let mut from = seqs.start;
        while from < seqs.end {
            let limit = ((seqs.end - from) as usize).min(limits::PAGE_ROWS_MAX);
            let frames = self.ledger.frames(stream, from, limit)?;
            if frames.is_empty() {
                return Err(ServiceError::UnknownStream(stream.clone()));
            }
            for frame in &frames {
                out.write(&frame.json)?;
                out.write(if frame.seq + 1 == seqs.end { end } else { b"\n" })?;
            }
            from += frames.len() as u64;
        }
        Ok(())
    }

    /// Writes every frame of the store, one a line, in the order in which they were appended.
    pub fn export_frames(&self, out: &mut dyn Write) -> Result<u64> {
        let mut count = 0;
        self.ledger.each_frame(1, &mut |_, frame| {
            let written = out.write_all(&frame.json).and_then(|()| out.write_all(b"\n"));
            written.map_err(enjamb_ledger::LedgerError::Output)?;
            count += 1;
            Ok(true)
        })?;
        Ok(count)
    }
}

impl Importer<'_> {
    fn take(&mut self, line: &[u8]) -> Result<()> {
        self.report.lines += 1;
        match RawFrame::parse(line) {
            Ok(frame) => {
                self.count_repeated(&frame);
                self.waiting.push((self.report.lines, frame));
                self.waiting_bytes += line.len();
                let is_batch = self.waiting.len() == LINES_PER_BATCH || self.waiting_bytes >= BYTES_PER_BATCH;
                if is_batch { self.flush() } else { Ok(()) }
            }
            Err(error) => {
                self.flush()?;
                if !line.iter().all(u8::is_ascii_whitespace) {
                    self.problem(self.report.lines, error.to_string());
                }
                self.keep(line)
            }
        }
    }

    fn count_repeated(&mut self, frame: &RawFrame) {
        for member in frame.repeated_members() {
            if self.report.repeated.len() < REPEATED_MEMBERS_MAX || self.report.repeated.contains_key(&member) {
                *self.report.repeated.entry(member).or_default() += 1;
            }
        }
    }

    /// A line too long to be a frame: its bytes are kept, however many they are.
    fn take_long(&mut self, beginning: &[u8], rest: &mut dyn Read) -> Result<()> {
        self.flush()?;
        self.report.lines += 1;
        let stored = self.store.put(&mut beginning.chain(rest), &PutOptions::default())?;
        let limit = limits::FRAME_BYTES_MAX;
        self.problem(self.report.lines, format!("it has {} bytes, and a frame has at most {limit}", stored.len));
        self.manifest.parts.push(Part::Stored(stored.id.to_string()));
        Ok(())
    }

    /// Appends what waits. When the batch is refused, each line is tried by itself, to find the one that is wrong.
    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if waiting.is_empty() {
            return Ok(());
        }
        match self.append(&waiting) {
            Ok(()) => {
                self.report.appended += waiting.len() as u64;
                waiting.iter().for_each(|(_, frame)| self.ran(frame.stream(), frame.seq()));
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                waiting.iter().try_for_each(|(line, frame)| self.take_one(*line, frame))
            }
            Err(error) => Err(error),
        }
    }

    fn append(&self, frames: &[(u64, RawFrame)]) -> Result<()> {
        let lines = frames.iter().map(|(line, frame)| DraftLine { line: *line, json: frame.bytes().to_vec() });
        self.store.append(Append { lines: lines.collect(), ..Append::default() }).map(drop)
    }

    fn take_one(&mut self, line: u64, frame: &RawFrame) -> Result<()> {
        if self.is_known(frame)? {
            self.report.known += 1;
            self.ran(frame.stream(), frame.seq());
            return Ok(());
        }
        match self.append(&[(line, frame.clone())]) {
            Ok(()) => {
                self.report.appended += 1;
                self.ran(frame.stream(), frame.seq());
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                self.problem(line, error.to_string());
                self.keep(frame.bytes())
            }
            Err(error) => Err(error),
        }
    }

    fn is_known(&self, frame: &RawFrame) -> Result<bool> {
        let stored = self.store.ledger.frames(frame.stream(), frame.seq(), 1)?;
        Ok(stored.first().is_some_and(|stored| stored.seq == frame.seq() && stored.json == frame.bytes()))
    }

    /// Notes in the manifest that this frame comes next in the file.
    fn ran(&mut self, stream: &StreamId, seq: u64) {
        let name = stream.to_string();
        let streams = &mut self.manifest.streams;
        let index = streams.iter().position(|known| *known == name).unwrap_or_else(|| {
            streams.push(name);
            streams.len() - 1
        });
        match self.manifest.parts.last_mut() {
            Some(Part::Frames(last, first, count)) if *last == index && *first + *count == seq => *count += 1,
            _ => self.manifest.parts.push(Part::Frames(index, seq, 1)),
        }
    }

    /// Notes in the manifest that these bytes come next in the file.
    fn keep(&mut self, line: &[u8]) -> Result<()> {
        let part = match std::str::from_utf8(line) {
            Ok(text) if text.len() <= LITERAL_BYTES_MAX => Part::Line(text.to_owned()),
            _ => Part::Stored(self.store.put(&mut &*line, &PutOptions::default())?.id.to_string()),
        };
        self.manifest.parts.push(part);
        Ok(())
    }

    fn problem(&mut self, line: u64, detail: String) {
        self.report.problems.push(ImportProblem { line, detail });
    }

    fn finish(mut self, digest: Digest) -> Result<Import> {
        self.flush()?;
        self.manifest.schema = SCHEMA.to_owned();
        self.manifest.bytes = self.report.bytes;
        self.manifest.digest = digest.to_hex();
        let json = serde_json::to_vec(&self.manifest).expect("a manifest is plain text and numbers");
        let manifest = self.store.put(&mut json.as_slice(), &PutOptions::default())?.id;
        let given_back = self.store.export_import(&manifest, &mut std::io::sink())?;
        if given_back != digest {
            let detail = format!("what would be given back has digest {given_back}, not {digest}");
            return Err(enjamb_ledger::LedgerError::corrupt(manifest.to_string(), detail).into());
        }
        Ok(Import { manifest: Some(manifest), digest: Some(digest), ..self.report })
    }
}

/// Whether only this line is at fault, and not the store.
fn is_refusal(error: &ServiceError) -> bool {
    use enjamb_core::ErrorKind::{Conflict, Invalid};
    matches!(error.kind(), Conflict | Invalid)
}

/// A file being read line by line, in bounded memory: of a line that is longer than a frame, the beginning is given and
/// the rest is read from here.
struct Lines<'r> {
    source: &'r mut dyn BufRead,
    hasher: Hasher,
    bytes: u64,
    /// The line that was read last is over, with a newline.
    ended: bool,
}

impl Lines<'_> {
    /// The next line, without its newline; false at the end of the file.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let limit = limits::FRAME_BYTES_MAX as u64 + 2;
        let read = self.source.take(limit).read_until(b'\n', line);
        let read = read.map_err(|source| ServiceError::File { path: "the input".into(), source })?;
        if read == 0 {
            return Ok(false);
        }
        self.hasher.update(line);
        self.bytes += line.len() as u64;
        self.ended = line.last() == Some(&b'\n');
        if self.ended {
            line.pop();
        }
        Ok(true)
    }
}

/// The rest of a long line.
impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let ready = self.source.fill_buf()?;
        let line = ready.iter().position(|byte| *byte == b'\n');
        let len = line.unwrap_or(ready.len()).min(buffer.len());
        buffer[..len].copy_from_slice(&ready[..len]);
        self.ended = line == Some(len);
        let used = len + usize::from(self.ended);
        self.hasher.update(&ready[..used]);
        self.bytes += used as u64;
        self.source.consume(used);
        Ok(len)
    }
}

struct HashingWriter<'w> {
    out: &'w mut dyn Write,
    hasher: Hasher,
}

impl HashingWriter<'_> {
    fn write_io(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.write_io(bytes).map_err(enjamb_ledger::LedgerError::Output)?)
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    /// Imports a file, checks that it comes back byte for byte, and returns the report.
    fn check(file: &[u8]) -> Import {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let report = store.import_frames(&mut &*file).unwrap();
        let mut back = Vec::new();
        store.export_import(&report.manifest.unwrap(), &mut back).unwrap();
        assert!(back == file, "{} bytes came back of {}", back.len(), file.len());
        report
    }

    fn frame(stream: &str, seq: u64) -> String {
        format!(
            r#"{{"id":"i","session_id":"{stream}","timestamp_ms":1,"seq":{seq},"type":"output_text_delta","delta":"x"}}"#
        )
    }

    #[test]
    fn interleaved_streams_come_back_in_the_order_of_the_file() {
        let lines = [frame("a", 0), frame("b", 0), frame("a", 1), frame("b", 1), frame("b", 2)].join("\n") + "\n";
        let report = check(lines.as_bytes());
        assert_eq!((report.appended, report.problems.len()), (5, 0));
    }

    #[test]
    fn whatever_is_no_frame_is_kept_where_it_was() {
        let ended = r#"{"id":"e","session_id":"a","timestamp_ms":1,"seq":1,"type":"session_ended","reason":"r"}"#;
        let lines = [&frame("a", 0), ended, &frame("a", 2), "", "not json", &frame("a", 9), "torn {\"id\""].join("\n");
        let report = check(lines.as_bytes());
        assert_eq!(report.appended, 2);
        assert_eq!(report.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3, 5, 6, 7]);
    }

    #[test]
    fn odd_bytes_come_back() {
        let crlf = format!("{}\r\n{}\r\n", frame("a", 0), frame("a", 1));
        assert_eq!(check(crlf.as_bytes()).appended, 2);
        for file in [&b""[..], b"\n", b"\n\n", b"\xff\xfe\x00", b"\xff\n", b"{}", b"no newline"] {
            check(file);
        }
        let long = [vec![b'x'; 3 << 20], b"\n".to_vec(), frame("a", 0).into_bytes()].concat();
        assert_eq!(check(&long).appended, 1);
        for len in limits::FRAME_BYTES_MAX - 1..limits::FRAME_BYTES_MAX + 4 {
            check(&vec![b'y'; len]);
            check(&[vec![b'y'; len], b"\n".to_vec()].concat());
        }
    }

    #[test]
    fn a_second_import_appends_nothing() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let first = store.import_frames(&mut crate::SAMPLE_THREAD.as_bytes()).unwrap();
        let again = store.import_frames(&mut crate::SAMPLE_THREAD.as_bytes()).unwrap();
        assert_eq!((again.appended, again.known), (0, first.appended));
        assert_eq!(first.manifest, again.manifest);
    }
}
