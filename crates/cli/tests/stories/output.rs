//! What every answer promises: where it goes, whether it has colours, and what happens when nobody reads it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use crate::hostile::on_terminal;
use crate::runner::Enjamb;

const ESCAPE: &str = "\u{1b}";

#[test]
fn colours_are_for_terminals_that_want_them() {
    let enjamb = Enjamb::with_store();
    assert!(!enjamb.run(&["doctor"]).done().out().contains(ESCAPE), "none in a pipe");
    let colourful = |variables: &[(&str, &str)]| {
        let shown = on_terminal(&enjamb, &["doctor"], variables)?;
        assert!(shown.contains("✓") && shown.contains("directory"), "{shown}");
        Some(shown.contains(ESCAPE))
    };
    let Some(usual) = colourful(&[]) else {
        return println!("skipped: there is no `script` to make a terminal with");
    };
    assert!(usual, "a terminal gets them");
    assert_eq!(colourful(&[("NO_COLOR", "1")]), Some(false));
    assert_eq!(colourful(&[("TERM", "dumb")]), Some(false));
}

#[test]
fn tables_are_aligned_for_people_and_tabbed_for_programs() {
    let enjamb = Enjamb::new();
    enjamb.append("session/s1", r#"{"type":"x"}"#);
    assert_eq!(enjamb.run(&["streams"]).done().out().matches('\t').count(), 3);
    let Some(shown) = on_terminal(&enjamb, &["streams"], &[("NO_COLOR", "1")]) else {
        return println!("skipped: there is no `script` to make a terminal with");
    };
    let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "stream      frames  size   last");
    assert!(lines[1].starts_with("session/s1  1 ") && lines[1].ends_with(" s ago"), "{shown}");
}

#[test]
fn quiet_leaves_the_answer() {
    let enjamb = Enjamb::with_store();
    assert_eq!(enjamb.run(&["init", "-q"]).done().out(), "");
    assert!(enjamb.run_with(&["put", "-q"], "x").done().out().starts_with("art-"));
    assert_eq!(enjamb.run(&["verify", "-q"]).done().out(), "");
    let gc = enjamb.run(&["gc", "-q"]).done();
    assert_eq!((gc.out(), gc.err()), (String::new(), String::new()));
}

/// Reads a little of what a command says, closes the pipe, and returns how the command ended and what it complained.
fn close_early(mut child: Child) -> (Option<i32>, String) {
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    (child.wait().unwrap().code(), complaint)
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let enjamb = Enjamb::new();
    let lines: Vec<_> = (0..3_000).map(|n| format!(r#"{{"type":"x","n":{n},"pad":"{}"}}"#, "y".repeat(100))).collect();
    enjamb.run_with(&["append", "session/s1"], lines.join("\n")).done();
    let text = "a line of a large artifact\n".repeat(200_000);
    enjamb.run_with(&["put", "--tag", "large"], &text).done();
    enjamb.run_with(&["put", "--tag", "small"], &text[..1_000_000]).done();
    for arguments in [
        &["frames", "session/s1"][..],
        &["frames", "session/s1", "--json"],
        &["frames", "export"],
        &["get", "large"],
        &["get", "small"],
        &["get", "large", "--range", "1000000-"],
    ] {
        let ended = close_early(enjamb.command(arguments).spawn().unwrap());
        assert_eq!(ended, (Some(141), String::new()), "{arguments:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let enjamb = Enjamb::with_store();
    enjamb.run_with(&["put", "--tag", "t"], "bytes").done();
    enjamb.append("session/s", r#"{"type":"x"}"#);
    for arguments in [&["status"][..], &["get", "t"], &["frames", "session/s"], &["artifacts", "--json"], &["man"]] {
        let mut command = enjamb.command(arguments);
        command.stdout(Stdio::from(File::options().write(true).open("/dev/full").unwrap()));
        let answer = crate::runner::answer(command, b"");
        assert_eq!(answer.exit, Some(8), "{arguments:?}");
        assert!(answer.err().contains("No space left on device"), "{arguments:?}: {}", answer.err());
    }
}
