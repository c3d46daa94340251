//! Paths that a model gives: in the workspace, whatever links and dots say.

use std::path::{Component, Path, PathBuf};

/// The path as it is seen from the workspace, or `None` when it leads out of it.
pub(super) fn inside(workspace: &Path, given: &str) -> Option<String> {
    let root = workspace.canonicalize().ok()?;
    let joined = root.join(given);
    let (there, rest) = existing(&joined)?;
    let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let whole = there.join(&rest);
    let relative = whole.strip_prefix(&root).ok().filter(|_| plain)?;
    let parts: Option<Vec<&str>> = relative.components().map(|part| part.as_os_str().to_str()).collect();
    Some(parts?.join("/"))
}

/// The longest beginning of a path that is there, without links; and what is not there yet.
fn existing(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut rest = PathBuf::new();
    let mut there = path.to_owned();
    loop {
        // A link that leads nowhere leads somewhere as soon as somebody writes through it.
        let is_link = there.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        match there.canonicalize() {
            Ok(found) => return Some((found, rest)),
            Err(_) if is_link => return None,
            Err(_) => {
                let name = there.file_name()?.to_owned();
                rest = Path::new(&name).join(rest);
                there = there.parent()?.to_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_workspace() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("w");
        std::fs::create_dir_all(workspace.join("src")).unwrap();
        std::fs::write(home.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(home.path(), workspace.join("up")).unwrap();
        std::os::unix::fs::symlink(home.path().join("nowhere"), workspace.join("dangling")).unwrap();
        let absolute = workspace.join("src/a.rs");
        for (given, expected) in [
            ("src/a.rs", Some("src/a.rs")),
            ("./src/../src/new/b.rs", Some("src/new/b.rs")),
            (absolute.to_str().unwrap(), Some("src/a.rs")),
            ("", Some("")),
            ("../secret", None),
            ("up/secret", None),
            ("up", None),
            ("dangling", None),
            ("src/none/../../../secret", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(inside(&workspace, given).as_deref(), expected, "{given}");
        }
    }
}
