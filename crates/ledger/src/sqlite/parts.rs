//! Deltas one after the other, on two threads. What is in the log is read and checked by both in turns; what is sealed is
//! decompressed by one, ahead of the other, who checks it.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use enjamb_core::ArtifactId;

use super::log::{Bodies, Log};
use super::{Reader, Records, SqliteLedger};
use crate::error::LedgerError;
use crate::record::bytes_in;
use crate::{Ledger, Part, PartSink, Result};

/// Bytes that change hands at once. In fewer, the threads would wake each other all the time.
const RUN_BYTES: u64 = 256 << 10;
/// Runs that are read before someone wants them.
const RUNS_AHEAD: usize = 8;
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
    is_checked: bool,
}

impl SqliteLedger {
    pub(super) fn stream_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        let reader = self.reader()?;
        let plans = plans(parts, Log(&reader.log).last_sealed()?);
        if plans.len() < 2 {
            let handed = self.hand_out(&plans, &reader, None, sink);
            self.give_back(reader);
            return handed;
        }
        let (full, runs) = sync_channel(RUNS_AHEAD);
        let (empty, spent) = sync_channel(RUNS_AHEAD + 1);
        let other = self.reader()?;
        thread::scope(|scope| {
            let plans = &plans;
            let ahead = scope.spawn(move || self.read_ahead(other, plans, &full, &spent));
            let handed = self.hand_out(plans, &reader, Some((&runs, &empty)), sink);
            drop(runs);
            if let Ok(other) = ahead.join() {
                self.give_back(other);
            }
            self.give_back(reader);
            handed
        })
    }

    /// Ends early when nobody listens any more.
    fn read_ahead(
        &self,
        reader: Reader,
        plans: &[Plan<'_>],
        full: &SyncSender<Result<Run>>,
        spent: &Receiver<Run>,
    ) -> Reader {
        for plan in plans.iter().filter(|plan| plan.ahead) {
            if full.send(self.fetch(&reader, plan.parts, spent.try_recv().unwrap_or_default())).is_err() {
                break;
            }
        }
        reader
    }

    fn hand_out(
        &self,
        plans: &[Plan<'_>],
        reader: &Reader,
        ahead: Option<(&Receiver<Result<Run>>, &SyncSender<Run>)>,
        sink: &mut PartSink<'_>,
    ) -> Result<()> {
        let mut first = 0;
        let mut own = Run::default();
        for plan in plans {
            match ahead.filter(|_| plan.ahead) {
                Some((runs, empty)) => {
                    let lost = |_| LedgerError::corrupt("reading ahead", "the thread ended before its work");
                    let run = runs.recv().map_err(lost)??;
                    self.hand_out_run(first, plan.parts, &run, sink)?;
                    // When there are enough of them, this one goes.
                    let _ = empty.try_send(run);
                }
                None => {
                    own = self.fetch(reader, plan.parts, own)?;
                    self.hand_out_run(first, plan.parts, &own, sink)?;
                }
            }
            first += plan.parts.len();
        }
        Ok(())
    }

    /// Reads the bodies of parts in one transaction, so that the log is locked once and not for each.
    fn fetch(&self, reader: &Reader, parts: &[Part], mut run: Run) -> Result<Run> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading deltas", &error);
        let look = reader.log.unchecked_transaction().map_err(known)?;
        let records = Records { log: Log(&look), segments: &self.segments };
        let sealed = records.log.last_sealed()?;
        let mut hot = Bodies::of(&look);
        run.bodies.clear();
        run.bodies.reserve(parts.iter().map(|part| part.len as usize + RECORD_EXTRA).sum());
        run.places.clear();
        run.is_checked = parts.iter().all(|part| part.place > sealed);
        for part in parts {
            let start = run.bodies.len();
            match part.place {
                0 => {}
                n if n > sealed => hot.append(n, &mut run.bodies)?,
                n => run.bodies.extend(records.body(n)?),
            }
            let place = Some(start..run.bodies.len()).filter(|_| part.place > 0);
            // Bytes that were just read are checked while they are near.
            let place = place.filter(|place| !run.is_checked || run.checked(part, place).is_some());
            run.places.push(place);
        }
        Ok(run)
    }

    fn hand_out_run(&self, first: usize, parts: &[Part], run: &Run, sink: &mut PartSink<'_>) -> Result<()> {
        for ((at, part), place) in (first..).zip(parts).zip(&run.places) {
            let bytes = place.as_ref().and_then(|place| match run.is_checked {
                true => bytes_in(&run.bodies[place.clone()]),
                false => run.checked(part, place),
            });
            match bytes {
                Some(bytes) => sink(at, bytes).map_err(LedgerError::Output)?,
                // In a segment of its own, dropped, or damaged: a proper look-up says which.
                None => self.read(&part.named()?, None, &mut |bytes| sink(at, bytes))?,
            }
        }
        Ok(())
    }
}

impl Run {
    /// The bytes at a place, if they are those that the part names.
    fn checked(&self, part: &Part, place: &Range<usize>) -> Option<&[u8]> {
        let bytes = bytes_in(&self.bodies[place.clone()])?;
        (Some(ArtifactId::of(bytes)) == part.artifact).then_some(bytes)
    }
}

/// Parts in runs of some size, those in the log to be read by both threads in turns.
fn plans(parts: &[Part], sealed: u64) -> Vec<Plan<'_>> {
    let mut plans: Vec<Plan<'_>> = Vec::new();
    let mut rest = parts;
    while !rest.is_empty() {
        let (these, later) = rest.split_at(run_of(rest));
        let is_hot = these.iter().all(|part| part.place > sealed);
        plans.push(Plan { parts: these, ahead: !is_hot || plans.len() % 2 == 1 });
        rest = later;
    }
    plans
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
