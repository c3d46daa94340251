//! Where runtimes keep their transcripts, and what is there. Only directory entries are read.

use std::fs;
use std::path::{Path, PathBuf};

use enjamb_core::Timestamp;

/// Who wrote a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    ClaudeCode,
    Codex,
    Gemini,
    OpenCode,
    Other,
}

impl Runtime {
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode, Self::Other];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Other => "other",
        }
    }

    /// What commits of its transcripts say they are in. Formats that no module reads are kept all the same.
    pub const fn format(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code-v1",
            Self::Codex => "codex-v1",
            Self::Gemini => "gemini-v1",
            Self::OpenCode => "opencode-v1",
            Self::Other => "generic-v1",
        }
    }

    /// Whose transcripts are in a format.
    pub fn of_format(format: &str) -> Option<Self> {
        Self::ALL.into_iter().filter(|runtime| *runtime != Self::Other).find(|runtime| runtime.format() == format)
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "claude" { "claude-code" } else { name };
        Self::ALL.into_iter().find(|runtime| runtime.as_str() == name)
    }

    /// After how many days the runtime deletes a transcript that was not touched, unless told otherwise.
    pub const fn keeps_days(self) -> Option<u64> {
        match self {
            Self::ClaudeCode => Some(30),
            Self::Codex | Self::Gemini | Self::OpenCode | Self::Other => None,
        }
    }
}

/// A transcript that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub path: PathBuf,
    pub runtime: Runtime,
    pub size: u64,
    pub modified: Option<Timestamp>,
}

impl SourceFile {
    /// What its commits say they are in.
    pub fn format(&self) -> &'static str {
        match self.runtime {
            Runtime::ClaudeCode | Runtime::Codex | Runtime::Other if self.is_document() => "document-v1",
            runtime => runtime.format(),
        }
    }

    /// Whether its runtime writes the whole file anew each time, so that no part of it stays what it was.
    pub fn is_document(&self) -> bool {
        self.path.extension().is_none_or(|extension| extension != "jsonl")
    }
}

impl SourceFile {
    /// Whether it holds sessions in tables.
    pub fn is_database(&self) -> bool {
        self.runtime == Runtime::OpenCode && self.path.extension().is_some_and(|extension| extension == "db")
    }
}

/// How long before its runtime deletes it a transcript is in danger.
const DANGER_DAYS: u64 = 7;

impl SourceFile {
    /// In how many days its runtime deletes it, if it is left alone.
    pub fn days_left(&self, now: Timestamp) -> Option<u64> {
        let keeps_days = self.runtime.keeps_days()?;
        let age_days = now.as_millis().saturating_sub(self.modified?.as_millis()) / 86_400_000;
        Some(keeps_days.saturating_sub(age_days))
    }

    pub fn is_in_danger(&self, now: Timestamp) -> bool {
        self.days_left(now).is_some_and(|days| days <= DANGER_DAYS)
    }
}

/// Puts files into the order in which they are best imported: those about to be deleted, then the newest.
pub fn arrange(files: &mut [SourceFile], now: Timestamp) {
    files.sort_by_cached_key(|file| (!file.is_in_danger(now), std::cmp::Reverse(file.modified), file.path.clone()));
}

/// A place where a runtime keeps its transcripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub runtime: Runtime,
    pub dir: PathBuf,
}

/// The known places under a home directory; `variable` answers what the environment says.
pub fn known_places(home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<Place> {
    let claude = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
    let codex = variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    let shared = variable("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
    let database = variable("OPENCODE_DB").map(|path| shared.join("opencode").join(path));
    [
        (Runtime::ClaudeCode, claude.join("projects")),
        (Runtime::Codex, codex.join("sessions")),
        (Runtime::Codex, codex.join("archived_sessions")),
        (Runtime::Gemini, home.join(".gemini/tmp")),
        (Runtime::OpenCode, shared.join("opencode/storage")),
        (Runtime::OpenCode, shared.join("opencode")),
    ]
    .into_iter()
    .chain(database.map(|path| (Runtime::OpenCode, path)))
    .map(|(runtime, dir)| Place { runtime, dir })
    .collect()
}

impl Place {
    /// Whether only what lies in the directory itself counts: beside a database lie keys, and repositories of snapshots.
    pub fn is_flat(&self) -> bool {
        self.runtime == Runtime::OpenCode && !self.dir.ends_with("storage")
    }

    /// The transcripts of this place, in the order of their paths.
    pub fn files(&self) -> Vec<SourceFile> {
        if self.is_flat() {
            return databases(&self.dir);
        }
        let mut found = Vec::new();
        walk(&self.dir, &mut |path, meta| {
            if is_transcript(self.runtime, path) {
                found.push(found_file(path, self.runtime, meta));
            }
        });
        found
    }
}

/// The databases in a directory, or the one that it is. What else lies there may be large, and is not looked at.
fn databases(dir: &Path) -> Vec<SourceFile> {
    let entries = fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_else(|_| vec![dir.to_owned()]);
    paths.retain(|path| is_database(path) || path == dir);
    paths.sort();
    paths.iter().filter_map(|path| found_at(path, Runtime::OpenCode)).collect()
}

fn is_database(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("opencode") && name.ends_with(".db")
}

/// The transcripts that a path names: itself, or all that lie in it. Whose they are is told from how they begin.
pub fn files_in(path: &Path) -> std::io::Result<Vec<SourceFile>> {
    let meta = fs::metadata(path)?;
    if meta.is_file() {
        return Ok(vec![found_file(path, sniff(path), &meta)]);
    }
    let mut found = Vec::new();
    walk(path, &mut |path, meta| {
        if is_readable(path) {
            found.push(found_file(path, sniff(path), meta));
        }
    });
    Ok(found)
}

/// A transcript that an event names, and what its runtime keeps beside it. Nothing, where it is not there yet or is no
/// transcript by its name.
pub(crate) fn named_files(runtime: Runtime, path: &Path) -> Vec<SourceFile> {
    let Some(file) = transcript_at(runtime, path) else { return Vec::new() };
    let mut found = vec![file];
    if runtime == Runtime::ClaudeCode && path.extension().is_some_and(|extension| extension == "jsonl") {
        found.extend(Place { runtime, dir: path.with_extension("") }.files());
    }
    found
}

/// The file at a path, if it is there and a transcript by its name.
pub(crate) fn transcript_at(runtime: Runtime, path: &Path) -> Option<SourceFile> {
    // What is new in a database stands in its log.
    let database = path.to_str().and_then(|path| path.strip_suffix("-wal")).filter(|_| runtime == Runtime::OpenCode);
    let path = database.map_or(path, Path::new);
    let is_named_so = path.is_absolute() && is_transcript(runtime, path);
    let meta = fs::metadata(path).ok().filter(|meta| is_named_so && meta.is_file())?;
    Some(found_file(path, runtime, &meta))
}

fn found_file(path: &Path, runtime: Runtime, meta: &fs::Metadata) -> SourceFile {
    let modified = meta.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = modified.map(|since| Timestamp::from_micros(since.as_micros() as i64));
    SourceFile { path: path.to_owned(), runtime, size: meta.len(), modified }
}

/// A file that is known to be a runtime's, if it is there.
pub(super) fn found_at(path: &Path, runtime: Runtime) -> Option<SourceFile> {
    let meta = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    Some(found_file(path, runtime, &meta))
}

/// The files below a directory that are known to be a runtime's, by path.
pub(super) fn files_under(dir: &Path, runtime: Runtime) -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(dir, &mut |path, meta| found.push(found_file(path, runtime, meta)));
    found
}

/// Visits the files below a directory by path. What cannot be read is passed over; links are not followed.
fn walk(dir: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => walk(&path, visit),
            Ok(meta) if meta.is_file() => visit(&path, &meta),
            _ => {}
        }
    }
}

fn is_readable(path: &Path) -> bool {
    let is_packed = path.to_string_lossy().ends_with(".jsonl.zst");
    is_packed
        || is_database(path)
        || matches!(path.extension().and_then(|extension| extension.to_str()), Some("jsonl" | "json"))
}

fn is_transcript(runtime: Runtime, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match runtime {
        // Outputs that were too long for the transcript, and what each subagent was for, lie beside it.
        Runtime::ClaudeCode => {
            let aside = path.components().any(|part| part.as_os_str() == "tool-results");
            name.ends_with(".jsonl") || name.ends_with(".meta.json") || aside
        }
        Runtime::Codex => {
            let is_rollout = [".jsonl", ".jsonl.zst", ".json"].iter().any(|ending| name.ends_with(ending));
            name.starts_with("rollout-") && is_rollout
        }
        Runtime::Gemini => is_readable(path) && path.components().any(|part| part.as_os_str() == "chats"),
        Runtime::OpenCode => {
            let is_stored = path.components().any(|part| part.as_os_str() == "storage");
            is_database(path) || is_stored && is_readable(path)
        }
        Runtime::Other => is_readable(path),
    }
}

/// How much of a file is looked at to see whose it is.
const HEAD_BYTES: usize = 64 << 10;

fn sniff(path: &Path) -> Runtime {
    use std::io::Read;
    if path.extension().is_some_and(|extension| extension == "zst") {
        return Runtime::Codex;
    }
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    if read.is_err() {
        return Runtime::Other;
    }
    if head.starts_with(b"SQLite format 3\0") {
        return Runtime::OpenCode;
    }
    let is_lines = path.extension().is_some_and(|extension| extension == "jsonl");
    match std::str::from_utf8(&head) {
        Ok(head) => whose(head, is_lines),
        Err(_) => whose(&String::from_utf8_lossy(&head), is_lines),
    }
}

/// Whose transcript begins so. Names of members decide, wherever they stand: their order is not fixed.
fn whose(head: &str, is_lines: bool) -> Runtime {
    let has = |member: &str| head.contains(&format!("\"{member}\""));
    let first = head.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if is_lines && (has("session_meta") || has("response_item") || has("record_type")) {
        Runtime::Codex
    } else if has("projectHash") && has("sessionId") {
        Runtime::Gemini
    } else if is_lines && (has("sessionId") || has("parentUuid") || has("leafUuid") || has("session_id") && has("uuid"))
    {
        Runtime::ClaudeCode
    } else if !is_lines
        && head.contains("\"ses_")
        && (has("info") || has("role") || has("messageID") || has("projectID"))
    {
        Runtime::OpenCode
    } else if is_lines && first.contains("\"instructions\"") && first.contains("\"id\"") {
        Runtime::Codex
    } else {
        Runtime::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_file_is_is_told_from_how_it_begins() {
        for (head, is_lines, expected) in [
            (r#"{"type":"summary","summary":"x","leafUuid":"u"}"#, true, Runtime::ClaudeCode),
            (r#"{"parentUuid":null,"sessionId":"s","type":"user"}"#, true, Runtime::ClaudeCode),
            (r#"{"timestamp":"t","type":"session_meta","payload":{}}"#, true, Runtime::Codex),
            (r#"{"id":"u","timestamp":"t","instructions":null}"#, true, Runtime::Codex),
            (r#"{"sessionId":"s","projectHash":"h","messages":[]}"#, false, Runtime::Gemini),
            (r#"{"info":{"id":"ses_1"},"messages":[]}"#, false, Runtime::OpenCode),
            (r#"{"id":"prt_1","sessionID":"ses_1","messageID":"msg_1"}"#, false, Runtime::OpenCode),
            ("hello", true, Runtime::Other),
        ] {
            assert_eq!(whose(head, is_lines), expected, "{head}");
        }
    }

    #[test]
    fn beside_a_database_nothing_is_taken_for_a_transcript() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join(".local/share/opencode");
        fs::create_dir_all(dir.join("storage/session/p")).unwrap();
        for name in ["auth.json", "opencode.db", "opencode.db-wal", "storage/session/p/ses_1.json"] {
            fs::write(dir.join(name), "{}").unwrap();
        }
        let found: Vec<_> = known_places(home.path(), &|_| None).iter().flat_map(Place::files).collect();
        let names: Vec<_> = found.iter().map(|file| file.path.strip_prefix(&dir).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["storage/session/p/ses_1.json", "opencode.db"]);
        let at = |name: &str| transcript_at(Runtime::OpenCode, &dir.join(name)).map(|file| file.path);
        assert_eq!((at("auth.json"), at("opencode.db-wal")), (None, Some(dir.join("opencode.db"))));
    }

    #[test]
    fn known_places_follow_the_environment() {
        let variable = |name: &str| (name == "CODEX_HOME").then(|| PathBuf::from("/elsewhere"));
        let dirs: Vec<_> = known_places(Path::new("/home/d"), &variable).into_iter().map(|place| place.dir).collect();
        assert_eq!(dirs[0], Path::new("/home/d/.claude/projects"));
        assert_eq!(dirs[1], Path::new("/elsewhere/sessions"));
    }
}
