//! Help that helps: every command has examples, and the examples are right.

use crate::runner::Enjamb;

#[test]
fn every_command_has_examples_that_parse() {
    let enjamb = Enjamb::new();
    let mut left: Vec<Vec<String>> = listed(&help(&enjamb, &[])).into_iter().map(|name| vec![name]).collect();
    assert!(left.len() >= 19, "{left:?}");
    while let Some(command) = left.pop() {
        let help = help(&enjamb, &command);
        left.extend(listed(&help).into_iter().map(|name| [command.clone(), vec![name]].concat()));
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{command:?} has no example:\n{help}");
        examples.iter().for_each(|example| check_example(&enjamb, example));
    }
    assert!(!enjamb.store().exists(), "help makes nothing");
}

/// A group of arguments that commands share may have words of its own, which are not those of the command.
#[test]
fn a_command_says_of_itself_what_the_list_says_of_it() {
    let enjamb = Enjamb::new();
    let all = help(&enjamb, &[]);
    for name in listed(&all) {
        let said = help(&enjamb, std::slice::from_ref(&name));
        let listed = under(&all, "Commands:").find(|line| line.split_whitespace().next() == Some(&name)).unwrap();
        let (_, listed) = listed.trim().split_once(' ').unwrap();
        assert!(said.starts_with(listed.trim()), "{name}: {listed}\n{said}");
    }
}

#[test]
fn the_version_is_an_answer() {
    let answer = Enjamb::new().run(&["--version"]).done();
    assert_eq!(answer.out(), format!("enjamb {}\n", env!("CARGO_PKG_VERSION")));
}

fn help(enjamb: &Enjamb, command: &[String]) -> String {
    let words: Vec<_> = command.iter().map(String::as_str).chain(["--help"]).collect();
    enjamb.run(&words).done().out()
}

/// The lines under a heading, up to the next blank one.
fn under<'h>(help: &'h str, heading: &str) -> impl Iterator<Item = &'h str> {
    let rest = help.lines().skip_while(move |line| *line != heading).skip(1);
    rest.take_while(|line| !line.is_empty())
}

/// The names of the commands that a help lists. What explains one goes on further to the right.
fn listed(help: &str) -> Vec<String> {
    let names =
        under(help, "Commands:").filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The examples of a help, each on one line again where it was wrapped.
fn examples(help: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    for line in under(help, "Example:").map(str::trim) {
        match examples.last_mut() {
            Some(last) if !line.contains("enjamb ") && line != "enjamb" => *last = format!("{last} {line}"),
            _ => examples.push(line.to_owned()),
        }
    }
    examples
}

/// Has clap read the words of an example, without running it; and checks what clap does not.
fn check_example(enjamb: &Enjamb, example: &str) {
    let command = example.split(" | ").find(|part| part.starts_with("enjamb")).expect(example);
    let words = words(command);
    let words: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
    // What follows -- is for another program.
    let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    enjamb.run(&[&words[..own], &["--help"], &words[own..]].concat()).done();
    for hex in words.iter().filter_map(|word| word.strip_prefix("art-")) {
        assert!(hex.len() >= 4 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()), "{example}: {hex} names nothing");
    }
}

/// The words of a command as a shell reads them, up to a redirection, or to the two spaces that begin a remark.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        let word = words.last_mut().expect("there is always one");
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ' ' && word.is_empty() => break,
            None if c == ' ' => words.push(String::new()),
            None if c == '<' || c == '>' => break,
            _ => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn words_are_read_as_a_shell_does() {
    for (command, expected) in [
        ("enjamb tag    all tags", &["enjamb", "tag"][..]),
        ("enjamb x --data '{\"a\":\"b c\"}'", &["enjamb", "x", "--data", "{\"a\":\"b c\"}"]),
        ("enjamb get art-3f2a > file", &["enjamb", "get", "art-3f2a"]),
    ] {
        assert_eq!(words(command), expected);
    }
}
