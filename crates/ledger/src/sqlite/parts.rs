//! Deltas one after the other, read and checked by two threads in turns: run by run what is in the log, block by block
//! what is sealed, so that each block is decompressed once.

use std::ops::Range;

use enjamb_core::{ArtifactId, Digest};
use rusqlite::Connection;

use super::log::{self, Bodies, Log, SealedRange};
use super::{Reader, Records, SqliteLedger, lock};
use crate::error::LedgerError;
use crate::record::bytes_in;
use crate::segment::Blocks;
use crate::turns::Turns;
use crate::{Ledger, Part, PartSink, Result};

/// Bytes that change hands at once. In fewer, the threads would wake each other all the time.
const RUN_BYTES: u64 = 256 << 10;
/// Bytes at the beginning that the other thread leaves alone: it is still opening the log.
const HEAD_BYTES: u64 = 512 << 10;
/// What a record of bytes has besides them, at most.
const RECORD_EXTRA: usize = 16;

/// Some parts in a row, and who reads them.
struct Plan<'p> {
    parts: &'p [Part],
    ahead: bool,
}

/// The record bodies of such parts, in one piece of memory.
#[derive(Default)]
struct Run {
    bodies: Vec<u8>,
    /// Where the body of each part is; `None` for one that has to be looked up.
    places: Vec<Option<Range<usize>>>,
}

/// What a thread has for itself: a connection to the log, and the block that it is reading, which is large and is not to be
/// unpacked again because another thread had one unpacked meanwhile.
struct Own<'l> {
    ledger: &'l SqliteLedger,
    /// With one to the index, so that others can have both again.
    lent: Option<Reader>,
    opened: Option<Connection>,
    blocks: Blocks<'l>,
}

impl<'l> Own<'l> {
    fn new(ledger: &'l SqliteLedger, lent: Option<Reader>) -> Self {
        Self { ledger, lent, opened: None, blocks: Blocks::new(&*ledger.segments) }
    }

    /// For a thread that reads ahead. It needs no index, so none is opened for it.
    fn another(ledger: &'l SqliteLedger) -> Self {
        Self::new(ledger, lock(&ledger.readers).pop())
    }

    fn log_and_blocks(&mut self) -> Result<(&Connection, &mut Blocks<'l>)> {
        if let Some(reader) = &self.lent {
            return Ok((&reader.log, &mut self.blocks));
        }
        if self.opened.is_none() {
            let log = log::open(&self.ledger.dir.join("log.db"), self.ledger.vfs())?;
            log::only_read(&log)?;
            self.opened = Some(log);
        }
        Ok((self.opened.as_ref().expect("it was just opened"), &mut self.blocks))
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.lent.take().into_iter().for_each(|reader| self.ledger.give_back(reader));
    }
}

/// What came of reading a run.
#[derive(Default)]
struct Fetched {
    run: Run,
    failure: Option<LedgerError>,
}

impl SqliteLedger {
    pub(super) fn stream_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        let reader = self.reader()?;
        let plans = self.plans(&reader, parts)?;
        let mut own = Own::new(self, Some(reader));
        let work = |own: &mut Own<'_>, at: usize, Fetched { mut run, .. }| {
            let fetched =
                own.log_and_blocks().and_then(|(log, blocks)| self.fetch(log, blocks, plans[at].parts, &mut run));
            Fetched { run, failure: fetched.err() }
        };
        let turns = Turns { count: plans.len(), is_theirs: &|at| plans[at].ahead, work: &work };
        let mut first = 0;
        turns.run(&mut own, || Own::another(self), &mut |at, fetched: &mut Fetched| {
            if let Some(failure) = fetched.failure.take() {
                return Err(failure);
            }
            self.hand_out_run(first, plans[at].parts, &fetched.run, sink)?;
            first += plans[at].parts.len();
            Ok(())
        })
    }

    /// Reads the bodies of parts in one transaction, so that the log is locked once and not for each.
    fn fetch(&self, log: &Connection, blocks: &mut Blocks<'_>, parts: &[Part], run: &mut Run) -> Result<()> {
        let look = Log(log).held()?;
        let records = Records { log: Log(&look), segments: &self.segments };
        let sealed = records.log.last_sealed()?;
        let mut hot = Bodies::of(&look);
        let mut range = None;
        let needed: usize = parts.iter().map(|part| part.len as usize + RECORD_EXTRA).sum();
        run.bodies.reserve(needed.saturating_sub(run.bodies.len()));
        run.places.clear();
        let mut end = 0;
        for part in parts {
            let start = end;
            match part.place {
                0 => {}
                n if n > sealed => end = hot.put(n, &mut run.bodies, start)?,
                n => {
                    run.bodies.truncate(start);
                    self.append_sealed(records, n, &mut range, blocks, &mut run.bodies)?;
                    end = run.bodies.len();
                }
            }
            // Bytes that were just read are checked while they are near.
            let place = start..end;
            let is_right = part.place > 0 && run.checked(part, &place);
            run.places.push(is_right.then_some(place));
        }
        Ok(())
    }

    /// Appends a body that is in a segment. Neighbours are nearly always in the same one.
    fn append_sealed(
        &self,
        records: Records<'_>,
        n: u64,
        range: &mut Option<SealedRange>,
        blocks: &mut Blocks<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if range.is_none_or(|range| !range.holds(n)) {
            *range = records.log.sealed_range(n)?;
        }
        match range {
            Some(range) => self.segments.append_record(&range.segment, n, blocks, out),
            None => Err(LedgerError::corrupt(format!("record {n}"), "it is missing")),
        }
    }

    fn hand_out_run(&self, first: usize, parts: &[Part], run: &Run, sink: &mut PartSink<'_>) -> Result<()> {
        for ((at, part), place) in (first..).zip(parts).zip(&run.places) {
            match place.clone().and_then(|place| bytes_in(&run.bodies[place])) {
                Some(bytes) => sink(at, bytes).map_err(LedgerError::Output)?,
                // In a segment of its own, dropped, or damaged: a proper look-up says which.
                None => self.read(&part.named()?, None, &mut |bytes| sink(at, bytes))?,
            }
        }
        Ok(())
    }
}

impl Run {
    /// Whether the bytes at a place are those that the part names.
    fn checked(&self, part: &Part, place: &Range<usize>) -> bool {
        let bytes = bytes_in(&self.bodies[place.clone()]);
        bytes.is_some_and(|bytes| Some(ArtifactId::of(bytes)) == part.artifact)
    }
}

/// Where a part is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Log,
    Block(Digest, u32),
    /// Somewhere that takes looking for.
    Elsewhere,
}

impl SqliteLedger {
    /// Parts in runs of some size, none of which is read from two places.
    fn plans<'p>(&self, reader: &Reader, parts: &'p [Part]) -> Result<Vec<Plan<'p>>> {
        let lanes = self.lanes(reader, parts)?;
        let mut plans = Vec::new();
        let (mut first, mut ahead, mut before) = (0, true, None);
        let mut head = 0;
        while first < parts.len() {
            let lane = lanes[first];
            let alike = lanes[first..].iter().take_while(|other| **other == lane).count();
            let these = &parts[first..first + alike];
            let these = &these[..run_of(these)];
            // Whoever has begun with a block goes on with it.
            ahead ^= lane == Lane::Log || before != Some(lane);
            ahead &= head >= HEAD_BYTES || lane != Lane::Log;
            head += these.iter().map(|part| part.len).sum::<u64>();
            plans.push(Plan { parts: these, ahead });
            before = Some(lane);
            first += these.len();
        }
        Ok(plans)
    }

    fn lanes(&self, reader: &Reader, parts: &[Part]) -> Result<Vec<Lane>> {
        let log = Log(&reader.log);
        let sealed = log.last_sealed()?;
        let mut range: Option<SealedRange> = None;
        let mut lane = |part: &Part| {
            match part.place {
                0 => return Ok(Lane::Elsewhere),
                n if n > sealed => return Ok(Lane::Log),
                n if range.is_none_or(|range| !range.holds(n)) => range = log.sealed_range(n)?,
                _ => {}
            }
            let Some(range) = range else { return Ok(Lane::Elsewhere) };
            let block = self.segments.segment(&range.segment)?.block_of(part.place);
            Ok(block.map_or(Lane::Elsewhere, |block| Lane::Block(range.segment, block)))
        };
        parts.iter().map(&mut lane).collect()
    }
}

/// How many parts make a run: one at least.
fn run_of(parts: &[Part]) -> usize {
    let mut bytes = 0;
    let fits = |part: &&Part| {
        bytes += part.len;
        bytes <= RUN_BYTES
    };
    parts.iter().take_while(fits).count().max(1)
}
