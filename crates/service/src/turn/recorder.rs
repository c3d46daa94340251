//! Appending a run's frames while more are read: those that wait are appended together, so that a fast provider costs no
//! more syncs than a slow one, and nobody waits for a disk before a word is shown.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Scope, ScopedJoinHandle};

use enjamb_core::frame::Body;
use enjamb_core::provider::Kept;
use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Batch, NewFrame};

use crate::{Result, ServiceError, Store};

/// What waits to be appended, by weight; who makes more waits too.
const WAITING_MAX: usize = 32 * limits::BATCH_FRAMES_MAX;
/// Bytes beside frames that weigh as much as a frame.
const BYTES_PER_WEIGHT: usize = 1_024;

pub(super) struct Recorder<'scope> {
    jobs: Option<Sender<Job>>,
    room: Arc<Room>,
    worker: Option<ScopedJoinHandle<'scope, Result<()>>>,
}

enum Job {
    Append { kept: Kept, weight: usize },
    Tell(SyncSender<()>),
}

/// How much waits.
#[derive(Default)]
struct Room {
    waiting: Mutex<usize>,
    freed: Condvar,
}

impl Room {
    fn enter(&self, weight: usize) {
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        while *waiting > WAITING_MAX {
            waiting = self.freed.wait(waiting).expect("nobody panics with it");
        }
        *waiting += weight;
    }

    fn leave(&self, weight: usize) {
        *self.waiting.lock().expect("nobody panics with it") -= weight;
        self.freed.notify_all();
    }
}

impl<'scope> Recorder<'scope> {
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>, store: &'env Store, stream: StreamId) -> Self {
        let (jobs, taken) = channel();
        let room = Arc::new(Room::default());
        let of_worker = Arc::clone(&room);
        let worker = scope.spawn(move || {
            let mut writer = Writer { store, stream, room: of_worker, failed: None };
            writer.work(&taken);
            writer.failed.map_or(Ok(()), Err)
        });
        Self { jobs: Some(jobs), room, worker: Some(worker) }
    }

    pub fn push(&self, frames: Vec<Body>) {
        self.keep(Kept { frames, ..Kept::default() });
    }

    pub fn keep(&self, kept: Kept) {
        if kept.frames.is_empty() {
            return;
        }
        let bytes: usize = kept.artifacts.iter().map(Vec::len).sum();
        let weight = kept.frames.len() + bytes / BYTES_PER_WEIGHT;
        self.room.enter(weight);
        self.send(Job::Append { kept, weight });
    }

    /// Returns when all that was pushed is on disk, or could not be put there.
    pub fn flush(&self) {
        let (tell, told) = sync_channel(1);
        self.send(Job::Tell(tell));
        // An answer that does not come means that the worker is gone; `finish` says why.
        let _ = told.recv();
    }

    /// Waits for everything, and says what went wrong.
    pub fn finish(mut self) -> Result<()> {
        drop(self.jobs.take());
        let worker = self.worker.take().expect("it is joined once");
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The worker takes jobs until nobody sends any.
            let _ = jobs.send(job);
        }
    }
}

struct Writer<'s> {
    store: &'s Store,
    stream: StreamId,
    room: Arc<Room>,
    failed: Option<ServiceError>,
}

impl Writer<'_> {
    fn work(&mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let mut waiting = vec![first];
            let mut total = 0;
            while let Some(Job::Append { weight, .. }) = waiting.last() {
                total += weight;
                match jobs.try_recv() {
                    Ok(next) if total < limits::BATCH_FRAMES_MAX / 2 => waiting.push(next),
                    Ok(next) => {
                        self.take(std::mem::take(&mut waiting));
                        (waiting, total) = (vec![next], 0);
                    }
                    Err(_) => break,
                }
            }
            self.take(waiting);
        }
    }

    /// Appends what waits. After a failure nothing more is: what is in the log stays without gaps.
    fn take(&mut self, jobs: Vec<Job>) {
        let (mut bodies, mut bytes, mut tell, mut total) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for job in jobs {
            match job {
                Job::Append { kept, weight } => {
                    bodies.extend(kept.frames);
                    bytes.extend(kept.artifacts);
                    total += weight;
                }
                Job::Tell(who) => tell.push(who),
            }
        }
        if self.failed.is_none() {
            self.failed = self.append(bodies, bytes).err();
        }
        self.room.leave(total);
        for who in tell {
            let _ = who.send(());
        }
    }

    fn append(&self, bodies: Vec<Body>, bytes: Vec<Vec<u8>>) -> Result<()> {
        let mut artifacts = bytes.into_iter().map(|bytes| self.store.artifact_of(bytes)).collect::<Result<Vec<_>>>()?;
        for some in bodies.chunks(limits::BATCH_FRAMES_MAX) {
            let frames =
                some.iter().map(|body| self.store.frame_of(&self.stream, body)).collect::<Result<Vec<NewFrame>>>()?;
            let artifacts = std::mem::take(&mut artifacts);
            self.store.ledger.append(Batch { artifacts, frames, ..Batch::default() })?;
        }
        Ok(())
    }
}
