//! Which commit of a git repository a workspace has checked out, read from the repository's files: asking git itself
//! would take longer than the whole checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use enjamb_core::workspace::GitPlace;

/// Symbolic refs that name one another.
const REFS_MAX: usize = 5;

/// What is checked out at or above a directory; `None` outside a repository, and before its first commit.
pub(super) fn place(dir: &Path) -> Option<GitPlace> {
    let dirs = dir.ancestors().find_map(repository)?;
    let mut name = "HEAD".to_owned();
    let mut branch = None;
    for _ in 0..REFS_MAX {
        let text = dirs.read(&name)?;
        match text.trim().strip_prefix("ref: ") {
            None => return is_object(text.trim()).then(|| GitPlace { head: text.trim().to_owned(), branch }),
            Some(next) => {
                branch = next.strip_prefix("refs/heads/").map(str::to_owned);
                name = next.to_owned();
            }
        }
    }
    None
}

pub(super) struct Repository {
    /// Of this worktree.
    pub own: PathBuf,
    /// Of all worktrees.
    pub shared: PathBuf,
}

/// The repository whose top this directory is.
pub(super) fn repository(dir: &Path) -> Option<Repository> {
    let git = dir.join(".git");
    let meta = git.metadata().ok()?;
    if meta.is_dir() {
        return Some(Repository { own: git.clone(), shared: git });
    }
    // A linked worktree has a file that says where its directory is.
    let text = fs::read_to_string(&git).ok()?;
    let own = dir.join(text.trim().strip_prefix("gitdir: ")?);
    let shared = match fs::read_to_string(own.join("commondir")) {
        Ok(text) => own.join(text.trim()),
        Err(_) => own.clone(),
    };
    Some(Repository { own, shared })
}

impl Repository {
    fn read(&self, name: &str) -> Option<String> {
        let loose = [&self.own, &self.shared].into_iter().find_map(|dir| fs::read_to_string(dir.join(name)).ok());
        loose.or_else(|| {
            let packed = fs::read_to_string(self.shared.join("packed-refs")).ok()?;
            let line = packed.lines().find(|line| line.strip_suffix(name).is_some_and(|line| line.ends_with(' ')))?;
            line.split(' ').next().map(str::to_owned)
        })
    }
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn check(dir: &Path, expected: Option<(&str, Option<&str>)>) {
        let found = place(dir).map(|place| (place.head, place.branch));
        assert_eq!(found, expected.map(|(head, branch)| (head.to_owned(), branch.map(str::to_owned))));
    }

    #[test]
    fn a_branch_is_followed_to_its_commit() {
        let home = tempfile::tempdir().unwrap();
        let (root, sub) = (home.path().join("w"), home.path().join("w/sub"));
        fs::create_dir_all(&sub).unwrap();
        check(&root, None);
        write(&root, ".git/HEAD", "ref: refs/heads/main\n");
        check(&root, None);
        write(&root, ".git/packed-refs", &format!("# pack-refs\n{B} refs/heads/domain\n{A} refs/heads/main\n"));
        check(&sub, Some((A, Some("main"))));
        write(&root, ".git/refs/heads/main", B);
        check(&root, Some((B, Some("main"))));
        write(&root, ".git/HEAD", A);
        check(&root, Some((A, None)));
        write(&root, ".git/HEAD", "ref: HEAD\n");
        check(&root, None);
    }

    #[test]
    fn a_linked_worktree_has_a_head_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let (main, linked) = (home.path().join("main"), home.path().join("linked"));
        write(&main, ".git/worktrees/linked/HEAD", "ref: refs/heads/topic\n");
        write(&main, ".git/worktrees/linked/commondir", "../..\n");
        write(&main, ".git/refs/heads/topic", A);
        write(&linked, ".git", &format!("gitdir: {}/.git/worktrees/linked\n", main.display()));
        check(&linked, Some((A, Some("topic"))));
    }
}
