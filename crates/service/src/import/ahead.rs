//! Windows judged ahead: while commits are made of one, threads read and judge those that come next.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::thread::{Scope, available_parallelism};

use super::bounded::{Receiver, Sender, bounded};
use super::judge::{Judged, judge};
use super::window::{self, Window};

/// Bytes of windows that wait to become commits: as many as are judged while the commits before them are made.
const WAITING_BYTES_MAX: u64 = 12 << 20;

/// A file that will be read, from where, and up to where.
pub(super) struct Task {
    pub path: PathBuf,
    pub format: &'static str,
    pub offset: u64,
    pub size: u64,
    pub window_bytes: usize,
}

/// What threads found out. Whoever asks for a window that they have not judged judges it himself.
#[derive(Default)]
pub(super) struct Ahead {
    /// Which file is which task.
    order: HashMap<PathBuf, usize>,
    lanes: Vec<Lane>,
}

/// One thread, and what it found out last.
struct Lane {
    found: Receiver<Found>,
    next: Option<Found>,
}

struct Found {
    task: usize,
    offset: u64,
    judged: Judged,
}

impl Ahead {
    /// Starts threads that judge files in their order, each every second one where there are two.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, tasks: Vec<Task>) -> Self {
        let order = tasks.iter().enumerate().map(|(at, task)| (task.path.clone(), at)).collect();
        // With two processors there is one for this, and one for what it is done for.
        let threads = if available_parallelism().is_ok_and(|count| count.get() >= 4) { 2 } else { 1 };
        let mut shares: Vec<Vec<(usize, Task)>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, task) in tasks.into_iter().enumerate() {
            shares[at % threads].push((at, task));
        }
        let lanes = shares.into_iter().map(|share| {
            let (sender, found) = bounded(WAITING_BYTES_MAX);
            scope.spawn(move || judge_all(share, &sender));
            Lane { found, next: None }
        });
        Self { order, lanes: lanes.collect() }
    }

    /// The window of a file at an offset, if it was judged.
    pub(super) fn window(&mut self, path: &PathBuf, offset: u64) -> Option<Judged> {
        let task = *self.order.get(path)?;
        let lanes = self.lanes.len();
        let lane = &mut self.lanes[task % lanes];
        loop {
            let found = lane.next.take().or_else(|| lane.found.recv())?;
            match (found.task, found.offset).cmp(&(task, offset)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Some(found.judged),
                std::cmp::Ordering::Greater => {
                    lane.next = Some(found);
                    return None;
                }
            }
        }
    }
}

/// Ends when nobody listens any more.
fn judge_all(tasks: Vec<(usize, Task)>, sender: &Sender<Found>) {
    for (task, mut rest) in tasks {
        while let Some(judged) = rest.next() {
            let (bytes, offset) = (judged.bytes.len() as u64, rest.offset - judged.end() as u64);
            if sender.send(bytes, Found { task, offset, judged }).is_err() {
                return;
            }
        }
    }
}

impl Task {
    /// The next window. None at the end, and where something is in the way, which is met again by whoever needs it.
    fn next(&mut self) -> Option<Judged> {
        if self.offset >= self.size {
            return None;
        }
        let mut file = File::open(&self.path).ok()?;
        match window::read(&mut file, &self.path, self.offset, self.size, self.window_bytes).ok()? {
            Window::Lines { bytes, at_end } => {
                let judged = judge(self.format, bytes, at_end);
                self.offset += judged.end() as u64;
                (judged.end() > 0).then_some(judged)
            }
            Window::Long(_) | Window::End => None,
        }
    }
}
