//! What a machine may find on its disk after a crash.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, Files};
use super::fate::{Fate, Pending, Subject};
use super::key::{Keep, Profile, ReplayKey};
use super::record::{Action, Mark, Op};

/// Where the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// After each op.
    EveryOp,
    /// Just before each thing that makes others durable, and at the end. What can be lost only grows in between, so
    /// this leaves out few images that matter and is much shorter.
    BeforeSyncs,
}

/// Which images to make of each crash point.
#[derive(Debug, Clone)]
pub struct CrashPlan {
    pub points: Points,
    pub profiles: Vec<Profile>,
    /// With more pending changes than this, prefixes are taken at even distances.
    pub prefixes_max: usize,
    /// Torn images per prefix and profile.
    pub tears: u64,
    /// Random images per point and profile.
    pub randoms: u64,
    /// Whether to include the death of the process alone.
    pub kill: bool,
    pub seed: u64,
}

impl Default for CrashPlan {
    fn default() -> Self {
        Self {
            points: Points::BeforeSyncs,
            profiles: vec![Profile::Torn512, Profile::Atomic4k, Profile::OrderedAppend],
            prefixes_max: 16,
            tears: 1,
            randoms: 8,
            kill: true,
            seed: 1,
        }
    }
}

/// The contents of the watched directory after a crash.
#[derive(Debug, Clone)]
pub struct Image {
    pub key: ReplayKey,
    files: Files,
    directories: Arc<BTreeSet<Arc<Path>>>,
    marks: Arc<Vec<Mark>>,
}

impl Image {
    /// The marks made before the crash, oldest first: what had been acknowledged.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Paths relative to the watched directory, with contents.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, bytes)| (&**path, bytes.as_slice()))
    }

    pub fn file(&self, path: impl AsRef<Path>) -> Option<&[u8]> {
        self.files.get(path.as_ref()).map(|bytes| bytes.as_slice())
    }

    /// Lays the files out in an empty directory. For thousands of images use [`Stage`](super::Stage), which reuses one.
    pub fn write_to(&self, directory: &Path) -> io::Result<()> {
        self.make_directories(directory)?;
        for (path, bytes) in &self.files {
            fs::write(directory.join(path), bytes.as_slice())?;
        }
        Ok(())
    }

    pub(super) fn make_directories(&self, root: &Path) -> io::Result<()> {
        for path in self.directories.iter() {
            fs::create_dir_all(root.join(path))?;
        }
        for parent in self.files.keys().filter_map(|path| path.parent()).collect::<BTreeSet<_>>() {
            fs::create_dir_all(root.join(parent))?;
        }
        Ok(())
    }

    pub(super) fn contents(&self) -> &Files {
        &self.files
    }
}

/// All images of the plan, in the order of their crash points. Made one by one, so a long list costs only time.
pub fn images(ops: &[Op], plan: CrashPlan) -> Images<'_> {
    let points = crash_points(ops, plan.points);
    Images { ops, plan, points: points.into_iter(), machine: Machine::default(), keys: Vec::new().into_iter() }
}

/// The one image that the key names.
pub fn replay(ops: &[Op], key: ReplayKey) -> Image {
    let mut machine = Machine::default();
    machine.advance(ops, key.op);
    machine.image(key)
}

/// The iterator behind [`images`].
pub struct Images<'a> {
    ops: &'a [Op],
    plan: CrashPlan,
    points: std::vec::IntoIter<u64>,
    machine: Machine,
    keys: std::vec::IntoIter<ReplayKey>,
}

impl Iterator for Images<'_> {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        loop {
            if let Some(key) = self.keys.next() {
                return Some(self.machine.image(key));
            }
            let point = self.points.next()?;
            self.machine.advance(self.ops, point);
            self.keys = keys_at(point, &self.machine.pending, &self.plan).into_iter();
        }
    }
}

/// A machine that has run for some ops, and can lose power.
#[derive(Default)]
struct Machine {
    applied: usize,
    disk: Disk,
    pending: Vec<Pending>,
    marks: Arc<Vec<Mark>>,
    directories: Arc<BTreeSet<Arc<Path>>>,
}

impl Machine {
    fn advance(&mut self, ops: &[Op], point: u64) {
        for op in ops[self.applied..].iter().take_while(|op| op.number <= point) {
            self.applied += 1;
            self.disk.apply(op);
            if let Action::Mark { label, value } = &op.action {
                let mark = Mark { op: op.number, label: label.clone(), value: *value };
                Arc::make_mut(&mut self.marks).push(mark);
            }
        }
        self.pending = self.disk.pending();
        self.directories = Arc::new(self.disk.directories().clone());
    }

    fn image(&self, key: ReplayKey) -> Image {
        let files = match key.keep {
            Keep::Kill => self.disk.current(),
            Keep::Nothing | Keep::Zeros | Keep::Everything | Keep::Prefix(_) | Keep::Torn(_) | Keep::Random => {
                self.disk.after(&Fate::new(key, &self.pending))
            }
        };
        Image { key, files, directories: self.directories.clone(), marks: self.marks.clone() }
    }
}

fn crash_points(ops: &[Op], points: Points) -> Vec<u64> {
    let is_given = |op: &&Op| matches!(op.action, Action::Existing { .. });
    let start = ops.iter().filter(is_given).map(|op| op.number).max().unwrap_or(0);
    let last = ops.last().map_or(0, |op| op.number);
    match points {
        Points::EveryOp => (start..=last).collect(),
        Points::BeforeSyncs => {
            let syncs = ops.iter().filter(|op| makes_durable(&op.action)).map(|op| op.number - 1);
            syncs.filter(|point| *point >= start).chain([last]).collect::<BTreeSet<_>>().into_iter().collect()
        }
    }
}

fn makes_durable(action: &Action) -> bool {
    match action {
        Action::Sync { .. } | Action::SyncFailed { .. } | Action::DirectorySync { .. } => true,
        Action::Delete { directory_synced, .. } => *directory_synced,
        Action::Existing { .. }
        | Action::Directory { .. }
        | Action::Create { .. }
        | Action::Write { .. }
        | Action::Truncate { .. }
        | Action::Rename { .. }
        | Action::Mark { .. } => false,
    }
}

fn keys_at(point: u64, pending: &[Pending], plan: &CrashPlan) -> Vec<ReplayKey> {
    let mut keys = Vec::new();
    let Some(&any_profile) = plan.profiles.first() else { return keys };
    let mut push = |profile, keep, seed| keys.push(ReplayKey { op: point, profile, keep, seed });
    if plan.kill {
        push(any_profile, Keep::Kill, plan.seed);
    }
    push(any_profile, Keep::Nothing, plan.seed);
    if pending.is_empty() {
        return keys;
    }
    push(any_profile, Keep::Everything, plan.seed);
    let prefixes = sampled_prefixes(pending.len(), plan.prefixes_max);
    for &count in prefixes.iter().filter(|count| **count < pending.len()) {
        push(any_profile, Keep::Prefix(count), plan.seed);
    }
    if let Some(&profile) = plan.profiles.iter().find(|profile| **profile != Profile::OrderedAppend) {
        push(profile, Keep::Zeros, plan.seed);
    }
    for &profile in &plan.profiles {
        for &count in prefixes.iter().filter(|count| matches!(pending[**count - 1].subject, Subject::Write { .. })) {
            (0..plan.tears).for_each(|tear| push(profile, Keep::Torn(count), plan.seed + tear));
        }
        (0..plan.randoms).for_each(|random| push(profile, Keep::Random, plan.seed + random));
    }
    keys
}

/// Lengths from 1 to `pending`, at most `prefixes_max` of them, always with the longest.
fn sampled_prefixes(pending: usize, prefixes_max: usize) -> Vec<usize> {
    let wanted = pending.min(prefixes_max);
    (1..=wanted).map(|step| step * pending / wanted).collect()
}
