//! Which files git tracks, read from the index of a repository: rules about ignoring do not count for them. Asking git
//! itself would take longer than the whole checkpoint.

use std::fs;
use std::path::Path;

use super::git::{Repository, repository};

const SIGNATURE: &[u8] = b"DIRC";
/// Times, device, inode, mode, owner and size come before the object's id.
const MODE_AT: usize = 24;
const STAT_BYTES: usize = 40;
const NAME_BITS: u16 = 0x0fff;
const EXTENDED: u16 = 0x4000;
/// What stands in an index for the commit of a submodule, and for a directory that is not checked out.
const NO_FILES: [u32; 2] = [0o160_000, 0o040_000];

/// The files below a directory that git tracks, as paths seen from there. Nothing outside a repository, and nothing of an
/// index that cannot be read: then ignored files are ignored.
pub(super) fn tracked(dir: &Path) -> Vec<Vec<u8>> {
    let Some((above, found)) = dir.ancestors().find_map(|above| Some((above, repository(above)?))) else {
        return Vec::new();
    };
    let Ok(bytes) = fs::read(found.own.join("index")) else { return Vec::new() };
    let Ok(within) = dir.strip_prefix(above) else { return Vec::new() };
    let mut prefix = within.as_os_str().as_encoded_bytes().to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    let all = paths(&bytes, id_bytes(&found)).unwrap_or_default();
    all.iter().filter_map(|path| path.strip_prefix(prefix.as_slice())).map(<[u8]>::to_vec).collect()
}

/// How long ids of objects are.
fn id_bytes(repository: &Repository) -> usize {
    let config = fs::read_to_string(repository.shared.join("config")).unwrap_or_default().to_lowercase();
    if config.replace(' ', "").contains("objectformat=sha256") { 32 } else { 20 }
}

/// The paths of the files in an index of version 2, 3 or 4.
fn paths(bytes: &[u8], id_bytes: usize) -> Option<Vec<Vec<u8>>> {
    let mut rest = bytes.strip_prefix(SIGNATURE)?;
    let version = number(&mut rest)?;
    let count = number(&mut rest)? as usize;
    if !(2..=4).contains(&version) {
        return None;
    }
    // An entry takes more than its stat does.
    let mut paths = Vec::with_capacity(count.min(bytes.len() / STAT_BYTES));
    let mut last = Vec::new();
    for _ in 0..count {
        let begin = rest.len();
        let mode = u32::from_be_bytes(rest.get(MODE_AT..MODE_AT + 4)?.try_into().ok()?);
        rest = rest.get(STAT_BYTES + id_bytes..)?;
        let flags = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
        if flags & EXTENDED != 0 {
            take(&mut rest, 2)?;
        }
        if version == 4 {
            let dropped = offset(&mut rest)?;
            last.truncate(last.len().checked_sub(dropped)?);
            last.extend_from_slice(until_nul(&mut rest)?);
        } else {
            last = name(&mut rest, usize::from(flags & NAME_BITS))?;
            // Entries are as long as a multiple of eight, and end with one NUL or more.
            let taken = begin - rest.len();
            take(&mut rest, (taken / 8 + 1) * 8 - taken)?;
        }
        if !NO_FILES.contains(&mode) && !last.is_empty() {
            paths.push(last.clone());
        }
    }
    Some(paths)
}

fn take<'b>(rest: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?))
}

/// A name whose length stands before it, unless it is too long for that.
fn name(rest: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    if length < usize::from(NAME_BITS) {
        return Some(take(rest, length)?.to_vec());
    }
    let length = rest.iter().position(|byte| *byte == 0)?;
    Some(take(rest, length)?.to_vec())
}

fn until_nul<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = rest.iter().position(|byte| *byte == 0)?;
    let taken = take(rest, length)?;
    take(rest, 1)?;
    Some(taken)
}

/// A number as packs have it: seven bits a byte, and one more for each byte that follows.
fn offset(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = take(rest, 1)?[0];
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, words: &[&str]) {
        let done = Command::new("git").arg("-C").arg(dir).args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output();
        let done = done.unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn every_version_of_an_index_says_the_same() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        git(root, &["init", "-q"]);
        let long = format!("{}/{}", "d".repeat(200), "x".repeat(250));
        let names = ["a", "a.b", "dir/a", "dir/ab", "dir/abc", "dir/žluť", "ignored.log", long.as_str()];
        for name in names {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        fs::write(root.join("untracked"), "u").unwrap();
        git(root, &[&["add", "-f"][..], &names].concat());
        git(root, &["add", "--intent-to-add", ".gitignore"]);
        let mut expected: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        expected.push(b".gitignore".to_vec());
        expected.sort();
        for version in ["2", "3", "4"] {
            git(root, &["update-index", "--index-version", version]);
            assert_eq!(tracked(root), expected, "version {version}");
        }
        let below = [b"a".to_vec(), b"ab".to_vec(), b"abc".to_vec(), "žluť".as_bytes().to_vec()];
        assert_eq!(tracked(&root.join("dir")), below);
        let whole = fs::read(root.join(".git/index")).unwrap();
        for end in 0..whole.len() {
            // Whatever is cut off, it is read without going astray.
            let _ = paths(&whole[..end], 20);
        }
    }

    #[test]
    fn outside_a_repository_nothing_is_tracked() {
        assert!(tracked(tempfile::tempdir().unwrap().path()).is_empty());
        assert_eq!(paths(b"DIRC\0\0\0\x09\0\0\0\0", 20), None);
        assert_eq!(paths(b"nonsense", 20), None);
    }
}
