//! Help that helps: every command has examples, and the examples are right.

use crate::runner::Enjamb;

const COMMANDS: &[&str] = &[
    "init",
    "status",
    "append",
    "frames",
    "frames import",
    "frames export",
    "streams",
    "put",
    "get",
    "artifacts",
    "tag",
    "pin",
    "verify",
    "gc",
    "maintain",
    "backup",
    "restore",
    "doctor",
    "demo",
    "completions bash",
    "man",
];

#[test]
fn every_command_is_listed_and_has_examples_that_parse() {
    let enjamb = Enjamb::new();
    let overview = enjamb.run(&["--help"]).done().out();
    for command in COMMANDS {
        let words: Vec<_> = command.split(' ').collect();
        assert!(overview.contains(&format!("\n  {} ", words[0])), "{command} is not in the overview");
        let help = enjamb.run(&[words.as_slice(), &["--help"]].concat()).done().out();
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{command} has no example:\n{help}");
        examples.iter().for_each(|example| check_example(&enjamb, example));
    }
    assert!(!enjamb.store().exists(), "help makes nothing");
}

#[test]
fn no_command_is_left_out_here() {
    let overview = Enjamb::new().run(&["--help"]).done().out();
    let listed = overview.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed {
        let name = line.split_whitespace().next().unwrap();
        assert!(COMMANDS.iter().any(|command| command.split(' ').next() == Some(name)), "{name} is not tested");
    }
}

#[test]
fn the_version_is_an_answer() {
    let answer = Enjamb::new().run(&["--version"]).done();
    assert_eq!(answer.out(), format!("enjamb {}\n", env!("CARGO_PKG_VERSION")));
}

/// The lines under `Example:`, up to the next blank one.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Example:").skip(1).take_while(|line| !line.is_empty());
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Has clap read the words of an example, without running it; and checks what clap does not.
fn check_example(enjamb: &Enjamb, example: &str) {
    let command = example.split(" | ").find(|part| part.starts_with("enjamb")).expect(example);
    // Two spaces begin a remark, and the rest of the line is the shell's.
    let command = command.split("  ").next().unwrap().split(" > ").next().unwrap();
    let words: Vec<_> = command.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    enjamb.run(&[words.as_slice(), &["--help"]].concat()).done();
    let ids = words.iter().filter_map(|word| word.strip_prefix("art-"));
    for hex in ids {
        assert!(hex.len() >= 4 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()), "{example}: {hex} names nothing");
    }
}
