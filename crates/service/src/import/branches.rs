//! Which commit a piece follows: the one before, unless someone went back.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use enjamb_core::CommitId;
use enjamb_core::chain::CommitKind;
use enjamb_core::conversation::{Raw, Verbatim};

use super::told::Told;
use super::window::Record;

/// Which commit holds which record, so that one that goes back can be told.
#[derive(Default)]
pub(super) struct Branches {
    commits: Vec<CommitId>,
    /// What each of them followed.
    parents: Vec<Option<CommitId>>,
    /// By a hash of a record's id: which of them holds it, and whether nothing stands before it. There are many, and the ids
    /// themselves would be most of what is held.
    owners: HashMap<u64, (usize, bool)>,
    hashing: RandomState,
    /// The last commit that holds any. What a runtime notes between turns has no place in the conversation.
    last_owner: usize,
    /// What each turn of this read followed, where it was not rolled back.
    pub turns: Vec<Option<CommitId>>,
    /// Commits before this one were compacted; what a compaction carried over does not go back to them.
    reset: usize,
}

impl Branches {
    /// The commit that a piece follows, where that is not the last one: someone went back, and asked something else.
    pub(super) fn goes_back(&self, told: &Told) -> Option<CommitId> {
        let (owner, _) = *self.owners.get(&self.hashing.hash_one(told.follows.as_deref()?))?;
        (owner != self.last_owner && owner >= self.reset).then(|| self.commits[owner])
    }

    /// What follows when a record says that the last turns are taken back: whatever the first of them followed. Turns
    /// that were read long ago are not known here, and stay.
    pub(super) fn rolled_back(&mut self, told: &Told) -> Option<Option<CommitId>> {
        let mut before = None;
        for _ in 0..told.turns_taken_back {
            before = self.turns.pop().or(before);
        }
        before
    }

    /// What follows when a record says that a message is taken back with all after it: whatever the commit followed that
    /// begins with it. Where one holds more than that, the record itself tells what is left of it.
    pub(super) fn rewound(&self, told: &Told) -> Option<Option<CommitId>> {
        let (owner, is_first) = *self.owners.get(&self.hashing.hash_one(told.rewound_to.as_deref()?))?;
        is_first.then(|| self.parents[owner])
    }

    /// What is committed next replaces all that came before.
    pub(super) fn compacted(&mut self) {
        self.reset = self.commits.len();
    }

    pub(super) fn learn(&mut self, tip: CommitId, parent: Option<CommitId>, records: &[Record], kind: CommitKind) {
        if kind.begins() {
            self.compacted();
        }
        let owner = self.commits.len();
        self.commits.push(tip);
        self.parents.push(parent);
        for (at, record) in records.iter().enumerate() {
            if let Some(id) = record.uuid.as_deref() {
                self.owners.insert(self.hashing.hash_one(id), (owner, at == 0));
                self.last_owner = owner;
            }
        }
    }
}

/// How many turns a record of Codex takes back.
pub(super) fn turns_taken_back(verbatim: &Verbatim) -> Option<u64> {
    let Raw::Json(json) = &verbatim.content else { return None };
    let is_it = verbatim.kind == "event_msg/thread_rolled_back";
    let record: serde_json::Value = is_it.then(|| serde_json::from_str(json.get()).ok())??;
    record["payload"]["num_turns"].as_u64()
}

/// The message that a record of Gemini CLI takes back.
pub(super) fn rewound_to(verbatim: &Verbatim) -> Option<String> {
    let Raw::Json(json) = &verbatim.content else { return None };
    let record: serde_json::Value = (verbatim.kind == "$rewindTo").then(|| serde_json::from_str(json.get()).ok())??;
    record["$rewindTo"].as_str().map(str::to_owned)
}
