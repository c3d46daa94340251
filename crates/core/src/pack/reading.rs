//! What a tool call shows the agent to have read: files, issues, pull requests, pages.
//!
//! Only what the call and its result say outright counts. A shell command counts when it is one of those that do nothing
//! but show a file; what any other command reads cannot be told from its text.

use serde::Deserialize;

use super::canonical::sha256_hex;
use super::gather::Place;
use super::{ArtifactSource, FileSnippet, Numbered, Repo, Source};
use crate::conversation::{ToolCall, ToolResult};

/// Members under which well-known tools take what they read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    #[serde(alias = "filePath", alias = "path", alias = "absolute_path", alias = "notebook_path")]
    file_path: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    url: Option<String>,
    #[serde(alias = "cmd")]
    command: Option<Command>,
    owner: Option<String>,
    repo: Option<String>,
    #[serde(alias = "issueNumber", alias = "pull_number", alias = "pullNumber", alias = "number")]
    issue_number: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Words(Vec<String>),
    Line(String),
}

/// What the agent read by a call that succeeded.
pub(super) fn read_by(call: &ToolCall, result: &ToolResult, place: &Place) -> Option<Source> {
    if result.is_error {
        return None;
    }
    let given: Arguments = serde_json::from_str(call.input.get()).ok()?;
    let text = result.text();
    let name = call.name.rsplit("__").next().unwrap_or_default();
    match name {
        "Read" | "NotebookRead" | "read" | "read_file" => {
            let lines = Lines::numbered(&text).unwrap_or_else(|| Lines::asked(text, given.offset, given.limit));
            Some(place.snippet(given.file_path.as_deref()?, lines))
        }
        "WebFetch" | "web_fetch" | "webfetch" | "fetch" => Some(page(&given.url?, &text)),
        "get_issue" | "issue_read" => Some(Source::Issue(given.numbered()?)),
        "get_pull_request" | "pull_request_read" => Some(Source::PullRequest(given.numbered()?)),
        "Bash" | "bash" | "shell" | "shell_command" | "exec_command" | "local_shell" | "run_shell_command" => {
            shown_by(&words(given.command?)?, &unwrapped(&text)?, place)
        }
        _ => None,
    }
}

impl Arguments {
    fn numbered(self) -> Option<Numbered> {
        let repo = Repo { owner: self.owner?, repo: self.repo? };
        Some(Numbered { repo, number: self.issue_number?, url: None, title: None, updated_at: None })
    }
}

/// Lines of a file as they were shown.
struct Lines {
    first: u64,
    last: u64,
    text: String,
}

impl Lines {
    /// Lines that bear their numbers: `  12→text`, `12<tab>text`, `00012| text`. What follows the last of them is the
    /// harness speaking.
    fn numbered(shown: &str) -> Option<Self> {
        let shown = shown.strip_prefix("<file>\n").unwrap_or(shown);
        let mut lines = shown.lines().map_while(numbered_line).peekable();
        let (first, _) = *lines.peek()?;
        let (mut last, mut texts) = (first, Vec::new());
        for (number, text) in lines.take_while(|(number, _)| *number >= first) {
            last = last.max(number);
            texts.push(text);
        }
        Some(Self { first, last, text: texts.join("\n") })
    }

    /// Lines without numbers, from where they were asked for.
    fn asked(text: String, offset: Option<u64>, limit: Option<u64>) -> Self {
        let first = offset.unwrap_or(1).max(1);
        let count = (text.lines().count() as u64).min(limit.unwrap_or(u64::MAX)).max(1);
        Self { first, last: first.saturating_add(count - 1), text }
    }
}

fn numbered_line(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    let text = ["→", "\t", "| "].iter().find_map(|sign| rest.strip_prefix(sign)).or((rest == "|").then_some(""))?;
    Some((number.parse().ok().filter(|number| *number > 0)?, text))
}

impl Place {
    fn snippet(&self, path: &str, lines: Lines) -> Source {
        let sha256 = sha256_hex(&lines.text);
        Source::FileSnippet(FileSnippet {
            repo: self.repo.clone(),
            branch: self.branch.clone(),
            path: self.inside(path).to_owned(),
            start_line: lines.first,
            end_line: lines.last,
            snippet_hash: sha256[..12].to_owned(),
            content_sha256: Some(sha256),
        })
    }

    /// The path from the working directory, where it lies in it.
    fn inside<'p>(&self, path: &'p str) -> &'p str {
        let cwd = self.cwd.as_deref().unwrap_or_default().trim_end_matches('/');
        let inner = path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/'));
        let inner = if cwd.is_empty() { None } else { inner };
        inner.or_else(|| path.strip_prefix("./")).filter(|path| !path.is_empty()).unwrap_or(path)
    }
}

/// An issue or a pull request by its URL; any other page by the text that was seen.
fn page(url: &str, text: &str) -> Source {
    let parts: Vec<&str> = url.split(['?', '#']).next().unwrap_or_default().split('/').collect();
    if let ["https:" | "http:", "", "github.com", owner, repo, kind, number, ..] = parts[..]
        && let Ok(number) = number.parse()
    {
        let repo = Repo { owner: owner.to_owned(), repo: repo.to_owned() };
        let numbered = Numbered { repo, number, url: Some(url.to_owned()), title: None, updated_at: None };
        match kind {
            "issues" => return Source::Issue(numbered),
            "pull" => return Source::PullRequest(numbered),
            _ => {}
        }
    }
    Source::Artifact(ArtifactSource {
        artifact_type: "url".to_owned(),
        artifact_id: url.to_owned(),
        sha256: Some(sha256_hex(text)),
        reference: None,
    })
}

/// The words of a command that is only one, taken out of `bash -lc` where a runtime put it there.
fn words(command: Command) -> Option<Vec<String>> {
    match command {
        Command::Line(line) => split(&line),
        Command::Words(words) => match words.as_slice() {
            [shell, flag, line] if shell.ends_with("sh") && (flag == "-lc" || flag == "-c") => split(line),
            _ => Some(words),
        },
    }
}

/// Splits a line as a shell does; none if it is more than plain words, quotes and pipes.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.trim().chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '$' | '`' | '\\' | '\n') => return None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ';' | '&' | '<' | '>' | '(' | ')' | '*' | '?' | '#') => return None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn shown_by(words: &[String], output: &str, place: &Place) -> Option<Source> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let whole = |text: &str| Lines::asked(text.to_owned(), None, None);
    match words[..] {
        ["cat", path] if !path.starts_with('-') => Some(place.snippet(path, whole(output))),
        ["nl", "-ba", path] | ["cat", "-n", path] => Some(place.snippet(path, Lines::numbered(output)?)),
        ["nl", "-ba", path, "|", "sed", "-n", _] => Some(place.snippet(path, Lines::numbered(output)?)),
        ["sed", "-n", range, path] => {
            let (first, last) = printed(range)?;
            let count = output.lines().count() as u64;
            let last = last.min(first.saturating_add(count.max(1) - 1));
            Some(place.snippet(path, Lines { first, last, text: output.to_owned() }))
        }
        ["head", "-n", _, path] => Some(place.snippet(path, whole(output))),
        ["gh", "issue", "view", ref rest @ ..] => Some(Source::Issue(viewed(rest, output, place)?)),
        ["gh", "pr", "view", ref rest @ ..] => Some(Source::PullRequest(viewed(rest, output, place)?)),
        _ => None,
    }
}

/// The lines that a script of sed prints: `12,40p`.
fn printed(script: &str) -> Option<(u64, u64)> {
    let (first, last) = script.strip_suffix('p')?.split_once(',')?;
    let last = if last == "$" { u64::MAX } else { last.parse().ok()? };
    let first: u64 = first.parse().ok()?;
    (first > 0 && last >= first).then_some((first, last))
}

/// What `gh` was asked to show, and the title that it told.
fn viewed(rest: &[&str], output: &str, place: &Place) -> Option<Numbered> {
    let number = rest.iter().find_map(|word| word.parse().ok())?;
    let named = rest.windows(2).find(|pair| matches!(pair[0], "-R" | "--repo")).map(|pair| pair[1]);
    let repo = match named.and_then(|name| name.split_once('/')) {
        Some((owner, repo)) => Repo { owner: owner.to_owned(), repo: repo.to_owned() },
        None => place.repo.clone(),
    };
    let title = output.lines().find_map(|line| line.strip_prefix("title:")).map(|title| title.trim().to_owned());
    let title = title.filter(|title| !title.is_empty());
    Some(Numbered { repo, number, url: None, title, updated_at: None })
}

/// A command's output without what a runtime puts around it; none if the command failed.
fn unwrapped(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Wrapped {
        output: String,
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: i64,
    }
    if let Ok(Wrapped { output, metadata }) = serde_json::from_str(text) {
        return (metadata.exit_code == 0).then_some(output);
    }
    let is_headed = ["Exit code:", "Chunk ID:", "Wall time:"].iter().any(|head| text.starts_with(head));
    let Some((head, output)) = text.split_once("\nOutput:\n").filter(|_| is_headed) else {
        return Some(text.to_owned());
    };
    let codes = ["Exit code: ", "Process exited with code "];
    let code = head.lines().find_map(|line| codes.iter().find_map(|code| line.strip_prefix(code)));
    code.is_none_or(|code| code.trim() == "0").then(|| output.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Block;

    fn place() -> Place {
        let repo = Repo { owner: "o".into(), repo: "r".into() };
        Place { repo, branch: "main".into(), cwd: Some("/w".into()) }
    }

    fn check(name: &str, input: &str, output: &str, expected: &str) {
        let input = crate::Json::parse(input).unwrap();
        let call = ToolCall { id: "c".into(), name: name.into(), input, server: false };
        let content = vec![Block::Text(output.into())];
        let result = ToolResult { call_id: "c".into(), content, is_error: false };
        let line = read_by(&call, &result, &place()).map(|source| source.line());
        assert_eq!(line.as_deref().unwrap_or("nothing"), expected, "{name} {}", call.input.get());
    }

    #[test]
    fn files_are_read_with_the_lines_that_were_shown() {
        let shown = "    10→a\n    11→b\n\n<system-reminder>x</system-reminder>";
        check("Read", r#"{"file_path":"/w/src/a.rs","offset":10}"#, shown, "src/a.rs:10-11 (o/r@main)");
        check("Read", r#"{"file_path":"/etc/hosts"}"#, "1\tx", "/etc/hosts:1-1 (o/r@main)");
        check("read", r#"{"filePath":"/w/b"}"#, "<file>\n00001| x\n00002| \n00003|\n</file>", "b:1-3 (o/r@main)");
        check("read_file", r#"{"absolute_path":"/w/b","offset":5,"limit":2}"#, "x\ny\n", "b:5-6 (o/r@main)");
        check("Edit", r#"{"file_path":"/w/b"}"#, "1\tx", "nothing");
    }

    #[test]
    fn commands_that_only_show_a_file_are_read() {
        check("Bash", r#"{"command":"cat src/a.rs"}"#, "x\ny\n", "src/a.rs:1-2 (o/r@main)");
        let shell = r#"{"command":["bash","-lc","sed -n '3,9p' ./a.rs"]}"#;
        check("shell", shell, r#"{"output":"x\ny","metadata":{"exit_code":0}}"#, "a.rs:3-4 (o/r@main)");
        check("shell", shell, r#"{"output":"no","metadata":{"exit_code":1}}"#, "nothing");
        let numbered = "Chunk ID: 1\nProcess exited with code 0\nOutput:\n     7\tx\n     8\ty\n";
        check("exec_command", r#"{"cmd":"nl -ba a.rs | sed -n '7,8p'"}"#, numbered, "a.rs:7-8 (o/r@main)");
        for command in ["cat a b", "cat $X", "cat a > b", "rm a", "cat a; rm a", "cat *.rs", "sed -n 'x' a"] {
            check("Bash", &format!(r#"{{"command":"{command}"}}"#), "x", "nothing");
        }
    }

    #[test]
    fn issues_pull_requests_and_pages_are_told_apart() {
        check("WebFetch", r#"{"url":"https://github.com/a/b/issues/7#c"}"#, "x", "issue a/b#7");
        check("WebFetch", r#"{"url":"https://github.com/a/b/pull/8/files"}"#, "x", "pull request a/b#8");
        check("WebFetch", r#"{"url":"https://example.org/a"}"#, "x", "url https://example.org/a");
        check("Bash", r#"{"command":"gh issue view 9 -R a/b"}"#, "title:\tBroken\nstate: OPEN", "issue a/b#9 Broken");
        check("Bash", r#"{"command":"gh pr view 4"}"#, "x", "pull request o/r#4");
        check("mcp__github__get_issue", r#"{"owner":"a","repo":"b","issue_number":3}"#, "{}", "issue a/b#3");
    }

    #[test]
    fn what_failed_was_not_read() {
        let input = crate::Json::parse(r#"{"file_path":"/w/a"}"#).unwrap();
        let call = ToolCall { id: "c".into(), name: "Read".into(), input, server: false };
        let result = ToolResult { call_id: "c".into(), content: vec![Block::Text("1\tx".into())], is_error: true };
        assert_eq!(read_by(&call, &result, &place()), None);
    }
}
