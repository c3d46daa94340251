//! Which files are worth reading now: those whose turn is over, and those that nobody has written to for a while.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Runtime;

/// How long after the end of a turn its file is read: a few more lines often follow.
const AFTER_TURN: Duration = Duration::from_millis(400);
/// How long a file is left alone that may be in the middle of a turn. A tool may take longer; then the turn is two commits.
const IN_TURN: Duration = Duration::from_secs(30);
/// Files that are kept in mind; when there are more, all of them are looked for anew.
const FILES_MAX: usize = 10_000;

/// Files that were written to and not read since.
#[derive(Debug, Default)]
pub(super) struct Settling {
    files: BTreeMap<PathBuf, Touched>,
}

#[derive(Clone, Copy, Debug)]
struct Touched {
    runtime: Runtime,
    /// When it was written to last, and whether its end was looked at since.
    at: Duration,
    looked: bool,
}

impl Settling {
    /// A file was written to. False if there are too many to keep in mind.
    pub(super) fn touch(&mut self, runtime: Runtime, path: &Path, at: Duration) -> bool {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(path) {
            return false;
        }
        self.files.insert(path.to_owned(), Touched { runtime, at, looked: false });
        true
    }

    pub(super) fn knows(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Takes the files that are due. `is_over` looks at the end of one, once after each time it was written to.
    pub(super) fn due(&mut self, now: Duration, is_over: impl Fn(Runtime, &Path) -> bool) -> Vec<(Runtime, PathBuf)> {
        let mut due = Vec::new();
        self.files.retain(|path, touched| {
            let quiet = now.saturating_sub(touched.at);
            let is_due = quiet >= IN_TURN || quiet >= AFTER_TURN && !touched.looked && is_over(touched.runtime, path);
            touched.looked |= quiet >= AFTER_TURN;
            if is_due {
                due.push((touched.runtime, path.clone()));
            }
            !is_due
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_due_after_its_turn_or_when_nothing_happens() {
        let mut settling = Settling::default();
        let ms = Duration::from_millis;
        settling.touch(Runtime::Codex, Path::new("/over"), ms(0));
        settling.touch(Runtime::Codex, Path::new("/going-on"), ms(0));
        let is_over = |_: Runtime, path: &Path| path == Path::new("/over");
        let mut due = |at| settling.due(ms(at), is_over).into_iter().map(|(_, path)| path).collect::<Vec<_>>();
        assert!(due(100).is_empty());
        assert_eq!(due(400), [PathBuf::from("/over")]);
        assert!(due(5_000).is_empty());
        assert_eq!(due(30_000), [PathBuf::from("/going-on")]);
        assert!(due(90_000).is_empty());
    }

    #[test]
    fn writing_goes_on_and_the_end_is_looked_at_once_each_time() {
        let mut settling = Settling::default();
        let looks = std::cell::Cell::new(0);
        let is_over = |_: Runtime, _: &Path| {
            looks.set(looks.get() + 1);
            false
        };
        for second in 0..100 {
            settling.touch(Runtime::Codex, Path::new("/a"), Duration::from_secs(second));
            for part in [100, 500, 700] {
                let now = Duration::from_secs(second) + Duration::from_millis(part);
                assert!(settling.due(now, is_over).is_empty());
            }
        }
        assert_eq!(looks.get(), 100);
    }

    #[test]
    fn no_more_files_are_kept_in_mind_than_the_bound() {
        let mut settling = Settling::default();
        let touched = (0..FILES_MAX + 5)
            .filter(|n| settling.touch(Runtime::Codex, &PathBuf::from(n.to_string()), Duration::ZERO));
        assert_eq!(touched.count(), FILES_MAX);
    }
}
