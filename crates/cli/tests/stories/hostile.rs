//! Stored text is hostile. It reaches a pipe byte for byte, and a terminal only where it can do no harm.

use std::process::Command;

use enjamb_core::provider::Dialect;
use enjamb_testkit::provider::{LoopbackProvider, Script, Speech};
use serde_json::json;

use crate::runner::{Enjamb, answer};
use crate::turns::configured;

/// Everything that moves a cursor, sets a title, hides or reorders text, in the order of the code points.
const HOSTILE: &str = "\u{7}\u{8}\r\u{b}\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]8;;http://x\u{7}\u{7f}\u{9b}31m\u{90}q\u{9c}\
    \u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{202e}evil\u{202c}\u{2066}\u{feff}\u{fff9}\u{e0041}";
/// As much of it as a name may hold: control characters are refused there.
const HOSTILE_NAME: &str = "a\u{ad}\u{200b}\u{202e}evil\u{202c}\u{2066}\u{feff}\u{e0041}";
/// What our own styles consist of.
const STYLES: [&str; 4] = ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m"];

/// Runs the command with a terminal for its output; `None` where there is no `script` to make one.
pub fn on_terminal(enjamb: &Enjamb, arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    let quote = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let words: Vec<_> = [env!("CARGO_BIN_EXE_enjamb")].iter().chain(arguments).map(|word| quote(word)).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("exec {}", words.join(" ")), "/dev/null"]);
    enjamb.settle(&mut command);
    command.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").envs(variables.iter().copied());
    if Command::new("script").arg("--version").output().is_err() {
        return None;
    }
    let shown = answer(command, b"").stdout;
    Some(String::from_utf8(shown).expect("a terminal is shown text").replace("\r\n", "\n"))
}

fn is_harmless(c: char) -> bool {
    let hidden = ['\u{ad}', '\u{61c}', '\u{feff}', '\u{fff9}', '\u{e0041}'].contains(&c);
    let reordering = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    c == '\n' || c == '\t' || !(c.is_control() || hidden || reordering)
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A store in which all that can be hostile is.
fn hostile() -> Enjamb {
    let enjamb = Enjamb::new();
    let frame = format!(r#"{{"type":{},"text":{}}}"#, json_string(HOSTILE_NAME), json_string(HOSTILE));
    // JSON escapes the C0 controls; written out, the others stand in the frame as they are.
    enjamb.append(&format!("session/{HOSTILE_NAME}"), &frame);
    enjamb.append("session/plain", &frame);
    enjamb.run_with(&["put", "--tag", HOSTILE_NAME], HOSTILE).done();
    enjamb
}

#[test]
fn nothing_stored_takes_hold_of_a_terminal() {
    let enjamb = hostile();
    let stream = format!("session/{HOSTILE_NAME}");
    let bad = enjamb.file("bad.jsonl", format!("{{\"type\":{HOSTILE}\n"));
    let odd = enjamb.file("odd\u{1b}[2J\u{202e}name\n", "x");
    let missing = format!("missing{HOSTILE}");
    let refused = format!(r#"{{"job_id":{}}}"#, json_string(HOSTILE));
    let requests: &[&[&str]] = &[
        &["status"],
        &["status", "--json"],
        &["streams"],
        &["streams", "--json"],
        &["frames", &stream],
        &["frames", "session/plain"],
        &["frames", "session/plain", "--json"],
        &["frames", &missing],
        &["frames", "session/none\u{202e}"],
        &["frames", "import", &bad],
        &["frames", "export"],
        &["artifacts"],
        &["artifacts", "--json"],
        &["tag"],
        &["tag", HOSTILE_NAME, "--json"],
        &["tag", HOSTILE, HOSTILE_NAME],
        &["get", HOSTILE_NAME],
        &["get", &missing],
        &["put", &odd, &odd],
        &["put", &missing],
        &["put", &missing, "--json"],
        &["append", "continuity/t", "--type", "continuity_job_ended", "--data", &refused],
        &["append", "session/s", "--type", HOSTILE, "--key", HOSTILE],
        &[HOSTILE],
        &["put", "--id", HOSTILE],
        &["put", "--id", HOSTILE, "--json"],
        &["--store", &missing, "streams"],
        &["backup", HOSTILE_NAME],
    ];
    for arguments in requests {
        let Some(mut shown) = on_terminal(&enjamb, arguments, &[]) else {
            return println!("skipped: there is no `script` to make a terminal with");
        };
        STYLES.iter().for_each(|style| shown = shown.replace(style, ""));
        let harm: Vec<_> = shown.chars().filter(|c| !is_harmless(*c)).collect();
        assert!(harm.is_empty(), "{arguments:?} shows {harm:?}:\n{}", shown.escape_debug());
        assert!(!shown.is_empty(), "{arguments:?}");
    }
}

/// What a provider streams, a tool writes and a task says, each on a terminal that shows colours.
#[test]
fn nothing_that_is_run_takes_hold_of_a_terminal() {
    let enjamb = Enjamb::new();
    let loud = enjamb.file("loud", HOSTILE);
    let say = |text: &str| Speech::new(Dialect::Responses).text(text);
    let call = Speech::new(Dialect::Responses).call("c", "loud", "{}").call("d", HOSTILE, "{}").end(1, 1);
    let refusal = json!({"error": {"message": HOSTILE}}).to_string();
    let server = LoopbackProvider::saying(vec![
        Script::events(say(HOSTILE).end(1, 1)).byte_by_byte(),
        Script::events(say("and ").text(HOSTILE).end(1, 1)),
        Script::events(call),
        Script::events(say("done").end(1, 1)),
        Script::refusal(401, &refusal),
    ]);
    configured(&enjamb, &server, &format!("[tool.loud]\ncommand = [\"cat\", \"{loud}\"]\neffect = \"read-only\"\n"));
    let thread = enjamb.run(&["thread", "create", "--workspace", &enjamb.path("")]).done().line();
    let task = enjamb.run(&["task", "run", "--title", HOSTILE, "--", "cat", &loud]).done().line();
    let shell = enjamb.run(&["task", "run", "--pty", "--shell", &format!("cat {loud}")]).done().line();
    for task in [&task, &shell] {
        enjamb.run(&["task", "status", task, "--wait"]).done();
    }
    let post = ["thread", "post", &thread, HOSTILE, "--run"];
    let requests: &[&[&str]] = &[
        &post,
        &[&post[..], &["--json"]].concat(),
        &post,
        &post,
        &["task", "output", &task],
        &["task", "output", &shell, "--follow"],
        &["task", "status", &task],
        &["task", "status", &task, "--json"],
        &["task", "list"],
        &["task", "events", &task],
        &["task", "run", "--", HOSTILE],
        &["task", "status", HOSTILE],
        &["task", "signal", &task, HOSTILE],
        &["tool", "check", HOSTILE, "{}"],
    ];
    for arguments in requests {
        let Some(mut shown) = on_terminal(&enjamb, arguments, &[("CLICOLOR_FORCE", "1")]) else {
            return println!("skipped: there is no `script` to make a terminal with");
        };
        STYLES.iter().for_each(|style| shown = shown.replace(style, ""));
        let harm: Vec<_> = shown.chars().filter(|c| !is_harmless(*c)).collect();
        assert!(harm.is_empty(), "{arguments:?} shows {harm:?}:\n{}", shown.escape_debug());
        assert!(!shown.is_empty(), "{arguments:?}");
    }
    assert_eq!(server.asked().len(), 5, "all was said");
}

#[test]
fn a_pipe_gets_every_byte_as_it_is() {
    let enjamb = hostile();
    let bytes: Vec<u8> = (0..=255).chain(HOSTILE.bytes()).collect();
    let id = enjamb.put(&bytes);
    let whole = format!(
        r#"{{"id":"i","session_id":"raw","stream_kind":"session","timestamp_ms":1,"seq":0,"type":"x","text":"{}"}}"#,
        "\u{9b}31m\u{202e}\u{7f}\\u001b[2J"
    );
    let whole = whole.replacen(r#""timestamp_ms""#, r#""stream_id":"raw","timestamp_ms""#, 1);
    enjamb.append("session/raw", &whole);
    for variables in [&[][..], &[("CLICOLOR_FORCE", "1")], &[("NO_COLOR", "1")]] {
        let run = |arguments: &[&str]| {
            let mut command = enjamb.command(arguments);
            command.envs(variables.iter().copied());
            answer(command, b"").done().stdout
        };
        assert_eq!(run(&["get", &id]), bytes);
        assert_eq!(run(&["frames", "session/raw"]), format!("{whole}\n").into_bytes());
        assert!(run(&["frames", "export"]).ends_with(format!("{whole}\n").as_bytes()));
    }
}

#[test]
fn a_name_cannot_pass_for_two_lines() {
    let enjamb = Enjamb::with_store();
    let said = enjamb.run(&["put", "nowhere\nerror: all is lost"]).exits(3).err();
    let (first, rest) = said.split_once('\n').unwrap();
    assert!(first.ends_with("No such file or directory (os error 2)"), "{said}");
    assert_eq!(rest.lines().count(), 1, "the help: {said}");
    let odd = enjamb.file("odd\nart-0000\t3\tname", "x");
    assert_eq!(enjamb.run(&["put", &odd, &odd]).done().out().lines().count(), 2);
}
