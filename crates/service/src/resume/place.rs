//! Where a runtime looks for its sessions, and how it is told to go on with one.

use std::path::{Path, PathBuf};

use enjamb_core::{Digest, Timestamp};

use crate::Runtime;

/// The directories in which runtimes keep what is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeHomes {
    pub claude: PathBuf,
    pub codex: PathBuf,
    /// The name that the environment gives to the project's directory, instead of one made from its path.
    pub project_name: Option<String>,
}

/// Letters of a project's name before it is cut.
const SLUG_CHARS_MAX: usize = 200;
const PROJECT_NAME_CHARS_MAX: usize = 64;

impl RuntimeHomes {
    /// Under a home directory; `variable` answers what the environment says.
    pub fn under(home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let configured = variable("CLAUDE_CONFIG_DIR");
        let name = variable("CLAUDE_CODE_PROJECT_DIR_NAME").and_then(|name| name.to_str().map(str::to_owned));
        Self {
            // The runtime takes the name only where it was also told the directory.
            project_name: name.filter(|name| configured.is_some() && is_project_name(name)),
            claude: configured.unwrap_or_else(|| home.join(".claude")),
            codex: variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
        }
    }

    /// The file in which the runtime looks for a session.
    pub(super) fn session_path(&self, runtime: Runtime, cwd: &Path, session: &str, at: Timestamp) -> PathBuf {
        match runtime {
            Runtime::Codex => self.rollout_path(session, at),
            Runtime::ClaudeCode | Runtime::Gemini | Runtime::OpenCode | Runtime::Other => {
                self.claude.join("projects").join(self.project_dir(cwd)).join(format!("{session}.jsonl"))
            }
        }
    }

    /// Where a session of Claude Code is written that runs in a directory. The others name theirs themselves.
    pub(crate) fn transcript(&self, runtime: Runtime, cwd: &Path, session: &str) -> PathBuf {
        self.session_path(runtime, cwd, session, Timestamp::from_micros(0))
    }

    fn rollout_path(&self, session: &str, at: Timestamp) -> PathBuf {
        let time: String =
            at.to_string().chars().take(19).map(|found| if found == ':' { '-' } else { found }).collect();
        let mut dir = self.codex.join("sessions");
        dir.extend(time[..10].split('-'));
        dir.join(format!("rollout-{time}-{session}.jsonl"))
    }

    fn project_dir(&self, cwd: &Path) -> String {
        if let Some(name) = &self.project_name {
            return name.clone();
        }
        let slug = project_slug(cwd);
        if slug.len() <= SLUG_CHARS_MAX {
            return slug;
        }
        // What the runtime puts after a long name depends on its build: a directory that is there already tells.
        let start = format!("{}-", &slug[..SLUG_CHARS_MAX]);
        let there = std::fs::read_dir(self.claude.join("projects")).into_iter().flatten().flatten();
        let there =
            there.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| name.starts_with(&start));
        there.unwrap_or_else(|| start + &Digest::of(cwd.as_os_str().as_encoded_bytes()).to_hex()[..8])
    }
}

fn is_project_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=PROJECT_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A directory as Claude Code names it: every UTF-16 unit that is no ASCII letter or digit is a dash.
pub fn project_slug(cwd: &Path) -> String {
    let dash = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    cwd.to_string_lossy().encode_utf16().map(dash).collect()
}

/// How the runtime is told to go on with a session.
pub(super) fn command(runtime: Runtime, session: &str) -> Vec<String> {
    let words: &[&str] = match runtime {
        Runtime::Codex => &["codex", "resume", session],
        Runtime::ClaudeCode | Runtime::Gemini | Runtime::OpenCode | Runtime::Other => &["claude", "--resume", session],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0198f3c2-7a41-4b1e-9f53-2d1f6a0c9e10";

    fn homes(variables: &[(&str, &str)]) -> RuntimeHomes {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value));
        RuntimeHomes::under(Path::new("/home/d"), &variable)
    }

    fn path(homes: &RuntimeHomes, runtime: Runtime, cwd: &str) -> String {
        let at = "2026-11-15T18:20:11Z".parse().unwrap();
        homes.session_path(runtime, Path::new(cwd), SESSION, at).to_string_lossy().into_owned()
    }

    #[test]
    fn sessions_lie_where_their_runtime_looks() {
        let plain = homes(&[]);
        assert_eq!(
            path(&plain, Runtime::ClaudeCode, "/srv/my_shop.io é"),
            format!("/home/d/.claude/projects/-srv-my-shop-io--/{SESSION}.jsonl")
        );
        assert_eq!(
            path(&plain, Runtime::Codex, "/work"),
            format!("/home/d/.codex/sessions/2026/11/15/rollout-2026-11-15T18-20-11-{SESSION}.jsonl")
        );
    }

    #[test]
    fn the_environment_is_heeded() {
        let told =
            homes(&[("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x"), ("CLAUDE_CODE_PROJECT_DIR_NAME", "shop")]);
        assert_eq!(path(&told, Runtime::ClaudeCode, "/work"), format!("/c/projects/shop/{SESSION}.jsonl"));
        assert!(path(&told, Runtime::Codex, "/work").starts_with("/x/sessions/2026/"));
        let bad = homes(&[("CLAUDE_CONFIG_DIR", "/c"), ("CLAUDE_CODE_PROJECT_DIR_NAME", "../up")]);
        assert_eq!(path(&bad, Runtime::ClaudeCode, "/work"), format!("/c/projects/-work/{SESSION}.jsonl"));
        assert_eq!(homes(&[("CLAUDE_CODE_PROJECT_DIR_NAME", "shop")]).project_name, None);
    }

    #[test]
    fn a_long_directory_is_cut_and_told_apart() {
        let long = |last: char| format!("/{}{last}", "a".repeat(300));
        let (one, two) =
            (path(&homes(&[]), Runtime::ClaudeCode, &long('x')), path(&homes(&[]), Runtime::ClaudeCode, &long('y')));
        assert!(one != two && one.len() < 300 && one.contains(&format!("/-{}-", "a".repeat(199))));
    }
}
