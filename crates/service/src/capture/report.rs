//! Whether what runtimes do arrives here: what was delivered, not what was configured.

use super::{HookFile, HooksFound, LastEvent, Missed, MissedAt};
use crate::{Place, Result, Runtime, Store};

/// What is known of the delivery of events.
#[derive(Clone, Debug)]
pub struct DeliveryReport {
    pub runtimes: Vec<RuntimeDelivery>,
    /// Events in the spool.
    pub waiting: u64,
    /// Records of the spool that were cut short or damaged.
    pub damaged: u64,
    /// A transcript that could not be read, and why.
    pub failure: Option<String>,
    pub missed: Missed,
}

#[derive(Clone, Debug)]
pub struct RuntimeDelivery {
    pub file: HookFile,
    pub hooks: HooksFound,
    pub last: Option<LastEvent>,
    /// When a transcript was written that no event told of, although hooks are in place.
    pub unheard_ms: Option<u64>,
}

/// How much later than the last event a transcript may be written. A turn may take that long, and its end tells of it.
const UNHEARD_AFTER_MS: u64 = 60 * 60 * 1000;

impl Store {
    /// `places` are where runtimes keep transcripts; only directory entries are read.
    pub fn delivery_report(
        &self,
        files: Vec<HookFile>,
        places: &[Place],
        missed_at: &MissedAt,
    ) -> Result<DeliveryReport> {
        let (delivery, waiting) = self.delivery();
        let mut runtimes = Vec::new();
        for file in files {
            let hooks = self.hooks_found(&file).unwrap_or(HooksFound::Missing);
            let last = delivery.last(file.runtime).cloned();
            let heard_ms = last.as_ref().map(|last| last.at_ms).max(self.captured_since_ms(file.runtime));
            let unheard_ms = heard_ms.filter(|_| hooks == HooksFound::On).and_then(|heard_ms| {
                newest_ms(file.runtime, places).filter(|newest_ms| *newest_ms > heard_ms + UNHEARD_AFTER_MS)
            });
            runtimes.push(RuntimeDelivery { file, hooks, last, unheard_ms });
        }
        let missed = missed_at.read();
        Ok(DeliveryReport { runtimes, waiting, damaged: delivery.damaged, failure: delivery.failure, missed })
    }
}

impl DeliveryReport {
    pub fn is_healthy(&self) -> bool {
        self.missed.count == 0 && self.failure.is_none() && self.runtimes.iter().all(RuntimeDelivery::is_healthy)
    }
}

impl RuntimeDelivery {
    pub fn is_healthy(&self) -> bool {
        match self.hooks {
            HooksFound::Off => true,
            HooksFound::On => self.unheard_ms.is_none(),
            HooksFound::Missing | HooksFound::NoProgram => false,
        }
    }

    /// Whether there is anything to say of it.
    pub fn is_of_interest(&self) -> bool {
        self.hooks != HooksFound::Off || self.last.is_some() || self.file.is_used()
    }
}

fn newest_ms(runtime: Runtime, places: &[Place]) -> Option<u64> {
    let files = places.iter().filter(|place| place.runtime == runtime).flat_map(Place::files);
    files.filter_map(|file| file.modified).map(|at| at.as_millis()).max()
}
