//! Decides what becomes of each change that was not durable when the power went.
//!
//! Every decision is a function of the replay key and of what it is about, never of the order of asking, so that one
//! key always gives one image.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::key::{Keep, Profile, ReplayKey};

/// A change that is not durable, in the terms that decide its fate.
pub(super) struct Pending {
    pub(super) op: u64,
    pub(super) subject: Subject,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Write { file: usize },
    Truncate { file: usize },
    Entry { directory: Arc<Path> },
}

/// What a torn write leaves in one sector or block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    New,
    Old,
    Zero,
    Garbage,
}

pub(super) struct Fate {
    key: ReplayKey,
    survivors: HashSet<u64>,
    torn: Option<u64>,
}

impl Fate {
    /// `pending` is in the order of its ops.
    pub(super) fn new(key: ReplayKey, pending: &[Pending]) -> Self {
        let survivors = match key.keep {
            Keep::Kill | Keep::Everything => first(pending.len(), pending),
            Keep::Nothing | Keep::Zeros => HashSet::new(),
            Keep::Prefix(count) | Keep::Torn(count) => first(count, pending),
            Keep::Random => random_survivors(&key, pending),
        };
        let torn = is_torn(&key).then(|| last_write(pending, &survivors)).flatten();
        Self { key, survivors, torn }
    }

    pub(super) fn survives(&self, op: u64) -> bool {
        self.survivors.contains(&op)
    }

    pub(super) fn is_torn(&self, op: u64) -> bool {
        self.torn == Some(op)
    }

    /// Below this size, and at multiples of it, the device writes all or nothing.
    pub(super) fn unit_bytes(&self) -> u64 {
        match self.key.profile {
            Profile::Torn512 | Profile::OrderedAppend => 512,
            Profile::Atomic4k => 4096,
        }
    }

    /// A block that has a later write also has the earlier ones, as they met in the page cache.
    pub(super) fn blocks_keep_order(&self) -> bool {
        self.key.profile == Profile::Atomic4k
    }

    /// What the torn write left in the `index`th of the `count` units that it touches.
    pub(super) fn piece(&self, op: u64, index: u64, count: u64) -> Piece {
        match self.key.profile {
            Profile::OrderedAppend if index < self.roll("cut", &[op]) % count => Piece::New,
            Profile::OrderedAppend => Piece::Old,
            Profile::Atomic4k if self.roll("block", &[op, index]).is_multiple_of(2) => Piece::New,
            Profile::Atomic4k => Piece::Old,
            Profile::Torn512 => match self.roll("sector", &[op, index]) % 6 {
                0..=2 => Piece::New,
                3 => Piece::Old,
                4 => Piece::Zero,
                _ => Piece::Garbage,
            },
        }
    }

    pub(super) fn garbage_seed(&self, op: u64, index: u64) -> u64 {
        self.roll("garbage", &[op, index])
    }

    /// Chooses among the lengths that writes under way would have given a file: its size may be durable before its
    /// bytes are.
    pub(super) fn grown_length(&self, file: usize, lengths: &[u64]) -> Option<u64> {
        let may_outrun_data = self.key.profile != Profile::OrderedAppend;
        match self.key.keep {
            Keep::Zeros => lengths.iter().max().copied(),
            Keep::Random | Keep::Torn(_) if may_outrun_data && !lengths.is_empty() => {
                let roll = self.roll("growth", &[file as u64]);
                let chosen = (roll >> 8) as usize % lengths.len();
                roll.is_multiple_of(4).then(|| lengths[chosen])
            }
            Keep::Kill | Keep::Nothing | Keep::Everything | Keep::Prefix(_) | Keep::Random | Keep::Torn(_) => None,
        }
    }

    fn roll(&self, purpose: &str, about: &[u64]) -> u64 {
        roll(&self.key, purpose, about)
    }
}

fn first(count: usize, pending: &[Pending]) -> HashSet<u64> {
    pending.iter().take(count).map(|change| change.op).collect()
}

fn last_write(pending: &[Pending], survivors: &HashSet<u64>) -> Option<u64> {
    let is_write = |change: &&Pending| matches!(change.subject, Subject::Write { .. });
    pending.iter().rev().filter(is_write).map(|change| change.op).find(|op| survivors.contains(op))
}

fn is_torn(key: &ReplayKey) -> bool {
    match key.keep {
        Keep::Torn(_) => true,
        Keep::Random => roll(key, "tear", &[]).is_multiple_of(2),
        Keep::Kill | Keep::Nothing | Keep::Zeros | Keep::Everything | Keep::Prefix(_) => false,
    }
}

/// Directory entries survive as a prefix per directory, since file systems journal them in order; file contents do so
/// only where the profile promises it.
fn random_survivors(key: &ReplayKey, pending: &[Pending]) -> HashSet<u64> {
    // Drawn once per image: a fair coin per change would almost never leave nearly all or nearly none of many.
    let chance_percent = [10, 50, 90][(roll(key, "chance", &[]) % 3) as usize];
    let mut kept_per_queue = queue_lengths(key, pending);
    let mut survivors = HashSet::new();
    for change in pending {
        let survives = match kept_per_queue.get_mut(&queue(key, change)) {
            Some(left) => std::mem::replace(left, left.saturating_sub(1)) > 0,
            None => roll(key, "subset", &[change.op]) % 100 < chance_percent,
        };
        if survives {
            survivors.insert(change.op);
        }
    }
    survivors
}

/// For every queue whose order the device keeps, how many of its changes survive.
fn queue_lengths(key: &ReplayKey, pending: &[Pending]) -> HashMap<Option<Subject>, u64> {
    let mut lengths: HashMap<Option<Subject>, (u64, u64)> = HashMap::new();
    for change in pending {
        let queue = queue(key, change);
        if queue.is_some() {
            lengths.entry(queue).or_insert((0, change.op)).0 += 1;
        }
    }
    let cut = |(length, first_op)| roll(key, "queue", &[first_op]) % (length + 1);
    lengths.into_iter().map(|(queue, counted)| (queue, cut(counted))).collect()
}

fn queue(key: &ReplayKey, change: &Pending) -> Option<Subject> {
    match (&change.subject, key.profile) {
        (Subject::Entry { .. }, _) => Some(change.subject.clone()),
        (Subject::Write { file } | Subject::Truncate { file }, Profile::OrderedAppend) => {
            Some(Subject::Write { file: *file })
        }
        (Subject::Write { .. } | Subject::Truncate { .. }, Profile::Torn512 | Profile::Atomic4k) => None,
    }
}

fn roll(key: &ReplayKey, purpose: &str, about: &[u64]) -> u64 {
    let mut state = mix(key.seed ^ mix(key.op));
    for word in [key.profile as u64, keep_word(key.keep)] {
        state = mix(state ^ word);
    }
    state = purpose.bytes().fold(state, |state, byte| mix(state ^ u64::from(byte)));
    about.iter().fold(state, |state, word| mix(state ^ word))
}

fn keep_word(keep: Keep) -> u64 {
    match keep {
        Keep::Kill => 1,
        Keep::Nothing => 2,
        Keep::Zeros => 3,
        Keep::Everything => 4,
        Keep::Random => 5,
        Keep::Prefix(count) => 6 + 2 * count as u64,
        Keep::Torn(count) => 7 + 2 * count as u64,
    }
}

/// The finaliser of SplitMix64: cheap, and good enough to decide fates.
pub(super) fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
