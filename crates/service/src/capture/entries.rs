//! Our entries in a runtime's settings: which events, with which command, and which of those there are ours.
//!
//! The command line is part of the format: Codex trusts a hook by its hash, so another one would be asked about again.

use serde::Serialize;
use serde_json::Value;

use super::json_text::{self, Node};
use crate::Runtime;

/// What a runtime is told to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand {
    /// Where this program is: absolute, so that no shell and no path has a say.
    pub program: String,
    /// The store, where it is not the one that is found without being told.
    pub store: Option<String>,
}

/// The events that tell of something new in a transcript, or that a turn is over. None of them keeps a prompt waiting.
pub(super) fn events(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::ClaudeCode => {
            &["SessionStart", "Stop", "StopFailure", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"]
        }
        Runtime::Codex => &["SessionStart", "Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"],
        Runtime::Gemini | Runtime::OpenCode | Runtime::Other => &[],
    }
}

#[derive(Serialize)]
struct Group {
    hooks: [Handler; 1],
}

/// Members in the order in which people write them.
#[derive(Serialize)]
struct Handler {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    timeout: u64,
}

fn handler(runtime: Runtime, command: &HookCommand) -> Handler {
    let mut args = vec!["hook".to_owned(), runtime.as_str().to_owned()];
    if let Some(store) = &command.store {
        args.extend(["--store".to_owned(), store.clone()]);
    }
    match runtime {
        Runtime::Codex => {
            let words: Vec<String> = [command.program.clone()].iter().chain(&args).map(|word| quoted(word)).collect();
            // Codex gives the end of a session three seconds, and says so whenever more are asked for.
            Handler { kind: "command", command: words.join(" "), args: Vec::new(), timeout: 3 }
        }
        _ => Handler { kind: "command", command: command.program.clone(), args, timeout: 5 },
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a command that [`quoted`] wrote.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut in_quotes, mut escaped) = (false, false);
    for c in command.chars() {
        let word = words.last_mut().expect("there is always one");
        match c {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            '\\' if !in_quotes => escaped = true,
            '\'' => in_quotes = !in_quotes,
            ' ' if !in_quotes => words.push(String::new()),
            _ => word.push(c),
        }
    }
    words
}

/// The words of a handler, if it is one of ours.
fn ours(runtime: Runtime, handler: &Value) -> Option<Vec<String>> {
    let command = handler["command"].as_str()?;
    let words = match handler["args"].as_array() {
        Some(args) => {
            let args = args.iter().filter_map(Value::as_str).map(str::to_owned);
            std::iter::once(command.to_owned()).chain(args).collect()
        }
        None => words(command),
    };
    let name = words[0].rsplit(['/', '\\']).next().unwrap_or_default();
    let is_ours = matches!(name, "enjamb" | "enjamb.exe")
        && words.get(1).is_some_and(|word| word == "hook")
        && words.get(2).is_some_and(|word| word == runtime.as_str());
    is_ours.then_some(words)
}

/// Our handlers in a file: the event, and the words of the command.
pub(super) fn found(runtime: Runtime, text: &str) -> Vec<(String, Vec<String>)> {
    let Ok(settings) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        let handlers = groups.as_array().into_iter().flatten().filter_map(|group| group["hooks"].as_array());
        let own = handlers.flatten().filter_map(|handler| ours(runtime, handler));
        found.extend(own.map(|words| (event.clone(), words)));
    }
    found
}

/// Whether every event calls exactly this.
pub(super) fn is_complete(runtime: Runtime, text: &str, command: &HookCommand) -> bool {
    let wanted = serde_json::to_value(handler(runtime, command)).unwrap_or_default();
    let wanted = ours(runtime, &wanted).unwrap_or_default();
    let found = found(runtime, text);
    let has = |event: &&str| found.iter().filter(|(name, words)| name == event && *words == wanted).count() == 1;
    found.len() == events(runtime).len() && events(runtime).iter().all(has)
}

/// A text with our entries added at the end of what is there; it has none of ours yet.
pub(super) fn add(runtime: Runtime, text: &str, command: &HookCommand) -> Result<String, String> {
    let group = Group { hooks: [handler(runtime, command)] };
    let mut text = if text.trim().is_empty() { "{\n}\n".to_owned() } else { text.to_owned() };
    for event in events(runtime) {
        text = add_event(&text, event, &group)?;
    }
    Ok(text)
}

fn add_event(text: &str, event: &str, group: &Group) -> Result<String, String> {
    let root = json_text::parse(text)?;
    let json_text::Kind::Object(_) = root.kind else { return Err("it is not an object".to_owned()) };
    let unit = json_text::unit(text).to_owned();
    let Some(hooks) = root.member("hooks") else {
        let grown = json_text::push(text, &root, &["\"hooks\": {}".to_owned()]);
        return add_event(&grown, event, group);
    };
    let json_text::Kind::Object(_) = hooks.value.kind else { return Err("its hooks are not an object".to_owned()) };
    match hooks.value.member(event) {
        None => {
            let grown = json_text::push(text, &hooks.value, &[format!("\"{event}\": []")]);
            add_event(&grown, event, group)
        }
        Some(groups) if groups.value.items().is_some() => {
            Ok(json_text::push(text, &groups.value, &pretty(group, &unit)))
        }
        Some(_) => Err(format!("its hooks for {event} are not a list")),
    }
}

/// The lines of a value, indented from nothing.
fn pretty(group: &Group, unit: &str) -> Vec<String> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Writing what is ours into memory does not fail.
    let _ = group.serialize(&mut writer);
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

/// A text without our entries, and without what is empty then, unless `before` has it too.
pub(super) fn remove(runtime: Runtime, text: &str, before: Option<&str>) -> Result<String, String> {
    let mut text = text.to_owned();
    if text.trim().is_empty() {
        return Ok(text);
    }
    let before = before.and_then(|before| json_text::parse(before).ok());
    while let Some(less) = remove_one(runtime, &text, before.as_ref())? {
        text = less;
    }
    Ok(text)
}

fn remove_one(runtime: Runtime, text: &str, before: Option<&Node>) -> Result<Option<String>, String> {
    let root = json_text::parse(text)?;
    let Some(hooks) = root.member("hooks") else { return Ok(None) };
    let json_text::Kind::Object(events) = &hooks.value.kind else { return Ok(None) };
    let had_hooks = before.and_then(|before| before.member("hooks"));
    for (index, event) in events.iter().enumerate() {
        let Some(groups) = event.value.items() else { continue };
        for (at, group) in groups.iter().enumerate() {
            let Some(handlers) = group.member("hooks").and_then(|hooks| hooks.value.items()) else { continue };
            let is_ours = |handler: &Node| {
                let value = serde_json::from_str(&text[handler.span.clone()]).unwrap_or_default();
                ours(runtime, &value).is_some()
            };
            let Some(own) = handlers.iter().position(is_ours) else { continue };
            if handlers.len() > 1 {
                let list = &group.member("hooks").expect("it has handlers").value;
                return Ok(Some(json_text::take_out(text, list, own)));
            }
            let had_event = had_hooks.and_then(|hooks| hooks.value.member(&event.name));
            if groups.len() > 1 || had_event.is_some() {
                return Ok(Some(json_text::take_out(text, &event.value, at)));
            }
            if events.len() > 1 || had_hooks.is_some() {
                return Ok(Some(json_text::take_out(text, &hooks.value, index)));
            }
            return Ok(Some(take_member(text, &root, "hooks")));
        }
    }
    Ok(None)
}

fn take_member(text: &str, object: &Node, name: &str) -> String {
    let json_text::Kind::Object(members) = &object.kind else { return text.to_owned() };
    match members.iter().rposition(|member| member.name == name) {
        Some(index) => json_text::take_out(text, object, index),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/usr/local/bin/enjamb";

    fn command(program: &str) -> HookCommand {
        HookCommand { program: program.to_owned(), store: None }
    }

    const SETTINGS: &[&str] = &[
        "{}",
        "{\n}",
        "{\n  \"model\": \"opus\"\n}\n",
        "{\"model\":\"opus\",\"hooks\":{}}",
        "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n\t\t]\n\t},\n\t\"x\": 1\n}\n",
        "{\r\n    \"hooks\": {\r\n        \"PreToolUse\": []\r\n    }\r\n}\r\n",
    ];

    #[test]
    fn whatever_is_there_stays_and_ours_can_be_removed_again() {
        for runtime in [Runtime::ClaudeCode, Runtime::Codex] {
            for text in SETTINGS {
                let grown = add(runtime, text, &command(HERE)).unwrap();
                assert!(is_complete(runtime, &grown, &command(HERE)), "{grown}");
                assert!(!is_complete(runtime, &grown, &command("/elsewhere/enjamb")));
                assert_eq!(found(runtime, &grown).len(), events(runtime).len());
                let less = remove(runtime, &grown, Some(text)).unwrap();
                assert_eq!(less.replace(['\n', '\r'], ""), text.replace(['\n', '\r'], ""), "{grown}");
                if !text.starts_with("{\n}") {
                    assert_eq!(&less, text);
                }
            }
        }
    }

    #[test]
    fn the_command_line_is_frozen() {
        let text = add(Runtime::ClaudeCode, "", &command(HERE)).unwrap();
        assert!(
            text.starts_with("{\n  \"hooks\": {\n    \"SessionStart\": [\n      {\n        \"hooks\": [\n"),
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected =
            serde_json::json!({"type": "command", "command": HERE, "args": ["hook", "claude-code"], "timeout": 5});
        assert_eq!(value["hooks"]["Stop"][0]["hooks"][0], expected);
        let value: Value = serde_json::from_str(&add(Runtime::Codex, "", &command(HERE)).unwrap()).unwrap();
        let expected =
            serde_json::json!({"type": "command", "command": "/usr/local/bin/enjamb hook codex", "timeout": 3});
        assert_eq!(value["hooks"]["SessionEnd"][0]["hooks"][0], expected);
    }

    #[test]
    fn odd_places_are_quoted_and_recognized() {
        let command = HookCommand { program: "/my 'own'/enjamb".into(), store: Some("/a b".into()) };
        let text = add(Runtime::Codex, "", &command).unwrap();
        let words = found(Runtime::Codex, &text).remove(0).1;
        assert_eq!(words, ["/my 'own'/enjamb", "hook", "codex", "--store", "/a b"]);
        assert!(is_complete(Runtime::Codex, &text, &command));
    }

    #[test]
    fn handlers_of_others_are_never_taken_for_ours() {
        let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"enjamb-like hook codex"},
            {"type":"command","command":"/x/enjamb hook codex"},{"type":"command","command":"enjamb hook claude-code"}]}]}}"#;
        assert_eq!(found(Runtime::Codex, text).len(), 1);
        let less = remove(Runtime::Codex, text, None).unwrap();
        assert!(less.contains("enjamb-like") && less.contains("claude-code") && !less.contains("/x/enjamb"), "{less}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["[]", "{\"hooks\":[]}", "{\"hooks\":{\"Stop\":{}}}", "{\"hooks\":{\"Stop\":7}}", "{,}"] {
            assert!(add(Runtime::ClaudeCode, text, &command(HERE)).is_err(), "{text}");
        }
    }
}
