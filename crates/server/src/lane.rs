//! Where followers are served: on threads of their own, which let requests go first.
//!
//! Telling one follower takes some microseconds, telling thousands takes tens of milliseconds for each append, and on a
//! machine with few processors every request would meet that. So the first followers have a thread that gives way a
//! little, and are told at once even on a busy machine; all others share one that runs when nobody else wants to.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Followers that are told at once.
const PROMPT_MAX: usize = 64;
/// Threads of a lane that wait for disks while followers catch up.
const REPLAYING_MAX: usize = 4;
#[cfg(target_os = "linux")]
const PROMPT_NICE: i32 = 5;
const END_WITHIN: Duration = Duration::from_secs(1);

/// Both lanes, with the threads that serve them.
pub struct Lanes {
    prompt: Runtime,
    crowd: Runtime,
}

/// A way to put followers on a lane.
#[derive(Clone)]
pub struct Road {
    prompt: Handle,
    crowd: Handle,
    places: Arc<Semaphore>,
}

/// Where one follower is served; its place is free again when this is dropped.
pub struct Lane {
    pub threads: Handle,
    place: Option<OwnedSemaphorePermit>,
}

impl Lane {
    /// Whether it is told when nobody else wants to run.
    pub fn is_crowded(&self) -> bool {
        self.place.is_none()
    }
}

impl Lanes {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { prompt: runtime(give_way)?, crowd: runtime(run_when_idle)? })
    }

    pub fn road(&self) -> Road {
        Road {
            prompt: self.prompt.handle().clone(),
            crowd: self.crowd.handle().clone(),
            places: Arc::new(Semaphore::new(PROMPT_MAX)),
        }
    }

    /// Ends what goes on; followers have been told before.
    pub fn end(self) {
        self.prompt.shutdown_timeout(END_WITHIN);
        self.crowd.shutdown_timeout(END_WITHIN);
    }
}

impl Road {
    /// The lane for one more follower.
    pub fn lane(&self) -> Lane {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Lane { threads: self.prompt.clone(), place: Some(place) },
            Err(_) => Lane { threads: self.crowd.clone(), place: None },
        }
    }
}

fn runtime(at_start: fn()) -> std::io::Result<Runtime> {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(1).max_blocking_threads(REPLAYING_MAX).on_thread_start(at_start).enable_all().build()
}

/// On Linux a priority is a thread's; elsewhere it would be that of all.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, PROMPT_NICE) {
        tracing::debug!(%error, "followers are served as eagerly as requests");
    }
}

/// A thread of this class is put aside at once when any other wants to run; a low priority alone would let it end its
/// slice, several milliseconds, first.
pub fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy) {
            tracing::debug!(?error, "followers beyond the first are served as eagerly as requests");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and scheduling class (5 is idle) and nice value of the thread that runs this.
    #[cfg(target_os = "linux")]
    fn class() -> (String, String) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect();
        // After the name: state is field 3, nice 19, policy 41.
        (fields[16].clone(), fields[38].clone())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_first_are_told_at_once_and_a_place_comes_back() {
        let lanes = Lanes::new().unwrap();
        let road = lanes.road();
        let run = |lane: &Lane| lane.threads.block_on(lane.threads.spawn(async { class() })).unwrap();
        let first: Vec<_> = (0..PROMPT_MAX).map(|_| road.lane()).collect();
        let (nice, policy) = run(&first[0]);
        assert!(nice.parse::<i32>().unwrap() >= PROMPT_NICE && policy == "0", "{nice} {policy}");
        assert_eq!(run(&road.lane()).1, "5", "idle");
        drop(first);
        assert_eq!(run(&road.lane()).1, "0");
        lanes.end();
    }
}
