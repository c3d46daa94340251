//! Running other programs: each is printed before it runs, so that a person can repeat it by hand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Problem;

/// A `cargo` command, run at the root of the workspace by the cargo that runs this chore.
///
/// It is told nothing of the package that this is: build scripts watch what cargo sets of a package, and would find it
/// changed, and build anew, whenever one cargo runs below another.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace_root());
    for (name, _) in env::vars_os().filter(|(name, _)| tells_of_a_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn tells_of_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

pub(crate) fn workspace_root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("xtask lives in the workspace's directory").to_owned()
}

/// Whether this run has nobody to answer a question.
pub(crate) fn unattended() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Prints the command, runs it, and reports anything but success.
pub(crate) fn run(command: &mut Command) -> Result<(), Problem> {
    let line = describe(command);
    println!("$ {line}");
    let status = command.status().map_err(|cause| format!("`{line}` could not be started: {cause}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}")) }
}

/// Whether the command runs and succeeds; it is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

pub(crate) fn on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(binary).is_file())
}

/// The command as one would type it, without the path that leads to the program.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let set = command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.display(), quote(value?))));
    let words = std::iter::once(program).chain(command.get_args()).map(quote);
    set.chain(words).collect::<Vec<_>>().join(" ")
}

fn quote(word: impl AsRef<std::ffi::OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_described_as_it_would_be_typed() {
        let mut command = Command::new("/opt/tools/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(describe(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn a_cargo_below_this_one_is_told_of_no_package() {
        let removed: Vec<_> =
            cargo(["build"]).get_envs().map(|(name, value)| (name.to_owned(), value.is_none())).collect();
        assert!(removed.contains(&("CARGO_PKG_NAME".into(), true)), "{removed:?}");
        assert!(removed.contains(&("CARGO_MANIFEST_DIR".into(), true)), "{removed:?}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_on_the_path() {
        assert!(!on_path("a-program-nobody-has-written"));
        assert!(!succeeds(&mut Command::new("a-program-nobody-has-written")));
    }

    #[test]
    fn the_workspace_root_holds_this_package() {
        assert!(workspace_root().join("xtask/src/command.rs").is_file());
    }
}
