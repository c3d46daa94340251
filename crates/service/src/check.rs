//! Whether a context would load: what its runtime and its provider would object to, before anything is started.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_formats::{
    Checker, Code, Examined, FidelityLedger, Format, FormatError, Framing, Position, Problem, Reuse, Windows,
};
use enjamb_ledger::Part;

use crate::{Materialize, Result, ServiceError, Store};

/// What to check, and for whom.
#[derive(Clone, Debug)]
pub struct CheckContext {
    pub tip: CommitId,
    pub stop: Stop,
    /// The format that it would be resumed in; `None` for the one that the chain is in.
    pub format: Option<String>,
    pub reuse: Reuse,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The format that was checked.
    pub format: String,
    /// The format that the context is stored in, if it had to be translated. Places are those in the translation.
    pub translated_from: Option<String>,
    pub commits: u64,
    pub messages: u64,
    pub problems: Vec<Located>,
    /// What became of each block, if it was translated.
    pub ledger: Option<FidelityLedger>,
}

/// A problem, and the commit whose delta has it.
#[derive(Clone, Debug)]
pub struct Located {
    pub problem: Problem,
    pub commit: Option<CommitId>,
}

impl Diagnosis {
    pub fn errors(&self) -> usize {
        self.problems.iter().filter(|found| found.problem.is_error()).count()
    }

    pub fn would_load(&self) -> bool {
        self.errors() == 0
    }

    /// How many of the problems a repair mends.
    pub fn mendable(&self) -> usize {
        self.problems.iter().filter(|found| found.problem.code.remedy().is_repair()).count()
    }
}

/// Where the deltas of a chain lie in what they materialize to.
pub(crate) struct Reach {
    ends: Vec<(u64, CommitId)>,
}

impl Reach {
    pub(crate) fn of<'p>(parts: impl IntoIterator<Item = (&'p Part, u64)>) -> Self {
        let mut end = 0;
        let ends = parts.into_iter().map(|(part, bytes)| {
            end += bytes;
            (end, part.link.id)
        });
        Self { ends: ends.collect() }
    }

    pub(crate) fn commit_at(&self, at: Position) -> Option<CommitId> {
        let place = self.ends.partition_point(|(end, _)| *end <= at.offset());
        self.ends.get(place).or(self.ends.last()).map(|(_, commit)| *commit)
    }
}

impl Store {
    /// Says why a context would not load, or would be refused.
    pub fn check(&self, request: &CheckContext) -> Result<Diagnosis> {
        let whole = Materialize { tip: Some(request.tip), stop: request.stop, format: request.format.clone() };
        let parts = self.contributing(&whole)?;
        let stored = parts.first().map(|part| part.format.to_string()).unwrap_or_default();
        let wanted = request.format.clone().unwrap_or_else(|| stored.clone());
        let format = known(&wanted)?;
        let is_native = parts.iter().all(|part| *part.format == *wanted);
        let mut diagnosis = match is_native {
            true => self.check_native(format, &parts, request.reuse)?,
            false => self.check_translation(format, &whole, stored, request.reuse)?,
        };
        diagnosis.commits = parts.len() as u64;
        Ok(diagnosis)
    }

    fn check_native(&self, format: &dyn Format, parts: &[Part], reuse: Reuse) -> Result<Diagnosis> {
        let mut checker = Checker::new(format);
        let mut lengths = Vec::with_capacity(parts.len());
        let mut malformed = None;
        self.each_delta(parts, |_, delta| {
            let open = format.framing() == Framing::JsonLines && !delta.is_empty() && !delta.ends_with(b"\n");
            lengths.push(delta.len() as u64 + u64::from(open));
            if malformed.is_none() {
                malformed = checker.push(delta).err();
            }
            Ok(())
        })?;
        let reach = Reach::of(parts.iter().zip(lengths));
        let examined = examined(checker, malformed, reuse);
        let locate = |problem: Problem| Located { commit: reach.commit_at(problem.at), problem };
        Ok(diagnosis(format, examined, locate))
    }

    fn check_translation(
        &self,
        format: &'static dyn Format,
        request: &Materialize,
        stored: String,
        reuse: Reuse,
    ) -> Result<Diagnosis> {
        let mut examination = Examination::new(format);
        let done = self.materialize(request, &mut |part| {
            examination.push(part);
            Ok(())
        })?;
        let found = diagnosis(format, examination.finish(reuse), |problem| Located { problem, commit: None });
        Ok(Diagnosis { translated_from: Some(stored), ledger: done.ledger, ..found })
    }

    /// Checks a file that a runtime left, as it is.
    pub fn check_file(path: &Path, format: &str, reuse: Reuse) -> Result<Diagnosis> {
        let format = known(format)?;
        let failed = |source| ServiceError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let mut examination = Examination::new(format);
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            let mut document = Vec::new();
            file.read_to_end(&mut document).map_err(failed)?;
            examination.push(&unrolled(format, document));
        }
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece).map_err(failed)? {
                0 => {
                    return Ok(diagnosis(format, examination.finish(reuse), |problem| Located {
                        problem,
                        commit: None,
                    }));
                }
                read => examination.push(&piece[..read]),
            }
        }
    }
}

/// A document that a runtime writes anew each time, as the lines that it amounts to.
fn unrolled(format: &dyn Format, document: Vec<u8>) -> Vec<u8> {
    match format.unroll(&document) {
        Some(lines) => lines.into_iter().flat_map(|line| (line.text + "\n").into_bytes()).collect(),
        None => document,
    }
}

const PIECE_BYTES: usize = 1 << 18;

/// Gives a checker whole lines of bytes that come in pieces cut anywhere; where the framing is another, everything at
/// once.
struct Examination {
    checker: Checker<'static, dyn Format>,
    windows: Windows,
    malformed: Option<FormatError>,
}

impl Examination {
    fn new(format: &'static dyn Format) -> Self {
        let windows = match format.framing() {
            Framing::JsonLines => Windows::of_lines(),
            Framing::JsonArray | Framing::CborArray => Windows::whole(),
        };
        Self { checker: Checker::new(format), windows, malformed: None }
    }

    fn push(&mut self, piece: &[u8]) {
        let checker = &mut self.checker;
        if self.malformed.is_none() {
            self.malformed = self.windows.push(piece, |window| checker.push(window)).err();
        }
    }

    fn finish(self, reuse: Reuse) -> Examined {
        let Self { mut checker, windows, malformed } = self;
        let malformed = malformed.or_else(|| windows.finish(|window| checker.push(window)).err());
        examined(checker, malformed, reuse)
    }
}

pub(crate) fn known(format: &str) -> Result<&'static dyn Format> {
    enjamb_formats::by_id(format).ok_or_else(|| ServiceError::UnknownFormat(format.to_owned()))
}

/// What a checker found, unless the bytes are not in the format at all.
fn examined<F: Format + ?Sized>(checker: Checker<'_, F>, malformed: Option<FormatError>, reuse: Reuse) -> Examined {
    match malformed {
        Some(FormatError { position, reason, .. }) => {
            Examined { problems: vec![Problem::error(Code::Malformed, position, reason)], ..Examined::default() }
        }
        None => checker.finish(reuse),
    }
}

fn diagnosis(format: &dyn Format, examined: Examined, locate: impl Fn(Problem) -> Located) -> Diagnosis {
    let Examined { mut problems, messages, cwd } = examined;
    problems.extend(cwd.and_then(|(at, cwd)| {
        let is_gone = !Path::new(&cwd).is_dir();
        let sentence = format!("The working directory {cwd:?} is not on this machine.");
        is_gone.then(|| Problem::warning(Code::CwdGone, at, sentence))
    }));
    problems.sort_by_key(|problem| (problem.at.offset(), problem.code));
    Diagnosis {
        format: format.id().to_owned(),
        translated_from: None,
        commits: 0,
        messages,
        problems: problems.into_iter().map(locate).collect(),
        ledger: None,
    }
}
