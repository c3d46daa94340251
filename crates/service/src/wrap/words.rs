//! The words of a command line that starts an agent: those that were given, and what its driver adds to them.

use crate::{Driver, Template};

/// Options of `codex exec` that take a value: what follows one is no prompt.
const CODEX_VALUED: [&str; 21] = [
    "-c",
    "--config",
    "-i",
    "--image",
    "-m",
    "--model",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-C",
    "--cd",
    "--add-dir",
    "--output-schema",
    "--color",
    "-o",
    "--output-last-message",
    "--enable",
    "--disable",
    "--local-provider",
    "-a",
];

/// What an agent begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// A session that was written for it.
    Resume(String),
    /// A new one under this id.
    Fresh(String),
    /// Whatever the words say, or the runtime chooses.
    AsGiven,
}

/// How an agent's output is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// It has the terminal to itself.
    Terminal,
    /// It tells of events, and whoever started it asked for them.
    Events,
    /// It tells of events because we asked: its last answer is what it would have printed.
    Answer,
    /// What it prints is what it says.
    Text,
}

/// A command line, ready to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub words: Vec<String>,
    pub speech: Speech,
}

/// Which driver a program calls for.
pub(super) fn driver_of(program: &str) -> Driver {
    match std::path::Path::new(program).file_stem().and_then(|stem| stem.to_str()) {
        Some("claude") => Driver::ClaudeCode,
        Some("codex") => Driver::Codex,
        _ => Driver::Generic,
    }
}

/// What stands for a driver when a template names no command.
pub(super) fn program_of(driver: Driver) -> Option<&'static str> {
    match driver {
        Driver::ClaudeCode => Some("claude"),
        Driver::Codex => Some("codex"),
        Driver::Generic => None,
    }
}

/// The session that the words themselves name, and whether they choose one at all.
pub(super) fn chosen_session(driver: Driver, words: &[String]) -> (Option<String>, bool) {
    match driver {
        Driver::ClaudeCode => {
            let named = ["--session-id", "--resume", "-r"].iter().find_map(|option| value_of(words, option));
            let chooses = has(words, &["--session-id", "--resume", "-r", "--continue", "-c", "--fork-session"]);
            (named, chooses)
        }
        Driver::Codex => (None, words.iter().any(|word| word == "resume" || word == "fork")),
        Driver::Generic => (None, false),
    }
}

/// The words with what the driver adds.
pub(super) fn line(driver: Driver, words: &[String], begin: &Begin, template: Option<&Template>) -> Line {
    match driver {
        Driver::ClaudeCode => claude(words, begin, template),
        Driver::Codex => codex(words, begin, template),
        Driver::Generic => Line { words: words.to_vec(), speech: Speech::Text },
    }
}

fn claude(words: &[String], begin: &Begin, template: Option<&Template>) -> Line {
    let mut added: Vec<String> = Vec::new();
    let speech = match (has(words, &["-p", "--print"]), value_of(words, "--output-format").as_deref()) {
        (false, _) => Speech::Terminal,
        (true, None) => {
            added.extend(["--output-format", "stream-json", "--verbose"].map(str::to_owned));
            Speech::Answer
        }
        (true, Some(_)) => Speech::Events,
    };
    match begin {
        Begin::Resume(session) => added.extend(["--resume".to_owned(), session.clone()]),
        Begin::Fresh(session) => added.extend(["--session-id".to_owned(), session.clone()]),
        Begin::AsGiven => {}
    }
    if let Some(model) = template.and_then(|template| template.model.clone()).filter(|_| !has(words, &["--model"])) {
        added.extend(["--model".to_owned(), model]);
    }
    if let Some(prompt) = template.and_then(|template| template.system_prompt.clone()) {
        added.extend(["--append-system-prompt".to_owned(), prompt]);
    }
    Line { words: insert(words, 1, added), speech }
}

fn codex(words: &[String], begin: &Begin, template: Option<&Template>) -> Line {
    let exec = words.iter().position(|word| word == "exec" || word == "e");
    let mut words = words.to_vec();
    let mut speech = Speech::Terminal;
    if let Begin::Resume(session) = begin {
        let at = exec.map_or(1, |exec| first_positional(&words, exec + 1));
        words = insert(&words, at, vec!["resume".to_owned(), session.clone()]);
    }
    if let Some(exec) = exec {
        speech = Speech::Events;
        if !has(&words, &["--json", "--experimental-json"]) {
            words = insert(&words, exec + 1, vec!["--json".to_owned()]);
            speech = Speech::Answer;
        }
    }
    let mut settings = Vec::new();
    let model = template.and_then(|template| template.model.as_ref());
    for (key, value) in [
        ("model", model.filter(|_| !has(&words, &["-m", "--model"]))),
        ("developer_instructions", template.and_then(|template| template.system_prompt.as_ref())),
    ] {
        // A JSON string is a TOML string.
        let quoted = value.map(|value| serde_json::Value::from(value.as_str()).to_string());
        settings.extend(quoted.into_iter().flat_map(|quoted| ["-c".to_owned(), format!("{key}={quoted}")]));
    }
    Line { words: insert(&words, 1, settings), speech }
}

/// Where the first word stands that is no option and no option's value.
fn first_positional(words: &[String], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            option if CODEX_VALUED.contains(&option) => at += 2,
            option if option.starts_with('-') && option.len() > 1 && option != "--" => at += 1,
            _ => break,
        }
    }
    at.min(words.len())
}

fn insert(words: &[String], at: usize, added: Vec<String>) -> Vec<String> {
    let mut words = words.to_vec();
    words.splice(at..at, added);
    words
}

fn has(words: &[String], options: &[&str]) -> bool {
    let is = |word: &str, option: &str| {
        word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
    };
    words.iter().any(|word| options.iter().any(|option| is(word, option)))
}

/// What an option is given, as the next word or after `=`.
fn value_of(words: &[String], option: &str) -> Option<String> {
    let next = words.windows(2).find(|pair| pair[0] == option).map(|pair| &pair[1]);
    let joined = words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    next.map(String::as_str).filter(|value| !value.starts_with('-')).or(joined).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn check(text: &str, begin: Begin, template: Option<&Template>, expected: &str, speech: Speech) {
        let words = split(text);
        let found = line(driver_of(&words[0]), &words, &begin, template);
        assert_eq!((found.words.join(" ").as_str(), found.speech), (expected, speech));
    }

    #[test]
    fn claude_is_asked_for_events_and_told_its_session() {
        let fresh = || Begin::Fresh("id".into());
        check(
            "claude -p hi",
            fresh(),
            None,
            "claude --output-format stream-json --verbose --session-id id -p hi",
            Speech::Answer,
        );
        check("/bin/claude", Begin::Resume("id".into()), None, "/bin/claude --resume id", Speech::Terminal);
        check(
            "claude -p hi --output-format=json",
            Begin::AsGiven,
            None,
            "claude -p hi --output-format=json",
            Speech::Events,
        );
        assert_eq!(chosen_session(Driver::ClaudeCode, &split("claude -r 5d -p hi")), (Some("5d".into()), true));
        assert_eq!(chosen_session(Driver::ClaudeCode, &split("claude --continue")), (None, true));
        assert_eq!(chosen_session(Driver::ClaudeCode, &split("claude -p hi")), (None, false));
    }

    #[test]
    fn codex_resumes_before_its_prompt_and_after_its_options() {
        let resume = || Begin::Resume("id".into());
        check(
            "codex exec --skip-git-repo-check -m o3 hi",
            resume(),
            None,
            "codex exec --json --skip-git-repo-check -m o3 resume id hi",
            Speech::Answer,
        );
        check("codex exec --json", resume(), None, "codex exec --json resume id", Speech::Events);
        check("codex hi", resume(), None, "codex resume id hi", Speech::Terminal);
        check("codex exec -", Begin::AsGiven, None, "codex exec --json -", Speech::Answer);
    }

    #[test]
    fn a_template_says_which_model_and_what_it_is_told() {
        let template = Template {
            name: "r".into(),
            driver: Driver::Codex,
            command: None,
            args: Vec::new(),
            env: Default::default(),
            model: Some("big".into()),
            system_prompt: Some("be\"brief".into()),
            checkpoint: crate::CheckpointWhen::Turns(1),
        };
        check(
            "codex hi",
            Begin::AsGiven,
            Some(&template),
            "codex -c model=\"big\" -c developer_instructions=\"be\\\"brief\" hi",
            Speech::Terminal,
        );
        check(
            "claude --model own",
            Begin::AsGiven,
            Some(&template),
            "claude --append-system-prompt be\"brief --model own",
            Speech::Terminal,
        );
    }
}
