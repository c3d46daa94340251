//! Settings as they are listed, refused and trusted.

use std::fs;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

/// A home with a file of settings, and a repository in it.
fn configured(user: &str, repository: &str) -> Enjamb {
    let enjamb = Enjamb::new();
    fs::create_dir_all(enjamb.home().join(".config/enjamb")).unwrap();
    enjamb.file(".config/enjamb/config.toml", user);
    if !repository.is_empty() {
        enjamb.file(".enjamb.toml", repository);
    }
    enjamb
}

#[test]
fn settings_are_listed_with_where_they_come_from() {
    let enjamb = configured("[run]\nevery_turns = 3\n", "[template.r]\ndriver = \"codex\"\n");
    check(
        &enjamb.run(&["config", "list"]).done().out(),
        "\nrun.checkpoint\tturn\nrun.every_turns\t3\ntemplate.r.driver\tcodex\n",
    );
    check(
        &enjamb.run(&["config", "list", "--show-origin"]).done().out(),
        "\nrun.checkpoint\tturn\tdefault\nrun.every_turns\t3\t[..]/.config/enjamb/config.toml:2\n\
         template.r.driver\tcodex\t[..]/.enjamb.toml:2\n",
    );
    let mut command = enjamb.command(&["config", "list", "--json"]);
    command.env("ENJAMB_RUN_CHECKPOINT", "session-end");
    let expected = json!({
        "schema": "enjamb.cli.config/1", "not_trusted": [],
        "settings": [
            {"key": "run.checkpoint", "value": "session-end", "origin": "$ENJAMB_RUN_CHECKPOINT"},
            {"key": "run.every_turns", "value": 3, "origin": "[..]config.toml:2"},
            {"key": "template.r.driver", "value": "codex", "origin": "[..]/.enjamb.toml:2"},
        ],
    });
    check_json(&crate::runner::answer(command, b"").document(), &expected);
}

#[test]
fn what_is_wrong_is_refused_with_file_line_key_and_a_suggestion() {
    let enjamb = configured("[run]\nevery_turn = 3\n", "");
    let answer = enjamb.run(&["config", "list"]).exits(2);
    check(
        &answer.err(),
        "\nerror: [..]/.config/enjamb/config.toml:2: there is no setting run.every_turn\n\
         help:  did you mean run.every_turns?\n",
    );
    enjamb.file(".config/enjamb/config.toml", "[run]\nevery_turns = 65536\n");
    let problem = enjamb.run(&["config", "list", "--json"]).exits(2).problem();
    assert_eq!(problem["code"], "bad-config");
    let title = problem["title"].as_str().unwrap();
    assert!(title.ends_with("config.toml:2: run.every_turns is 65536, not a number from 1 to 10000"), "{title}");
}

#[test]
fn a_repository_says_what_is_run_only_once_it_is_trusted() {
    let enjamb = configured("", "[template.r]\ncommand = \"agent\"\nenv = { KEY = \"hush\" }\n");
    let answer = enjamb.run(&["config", "list"]).done();
    assert!(!answer.out().contains("template.r"), "{}", answer.out());
    assert!(answer.err().contains("template.r.command does not hold: enjamb config trust"), "{}", answer.err());
    check(
        &enjamb.run(&["config", "trust"]).done().out(),
        "\n[..]/.enjamb.toml is trusted\n  template.r.command  agent\n  template.r.env  KEY (values not shown)\n",
    );
    let listed = enjamb.run(&["config", "list"]).done().out();
    assert!(listed.contains("template.r.command\tagent") && !listed.contains("hush"), "{listed}");
    enjamb.run(&["config", "trust", "--revoke"]).done();
    assert!(!enjamb.run(&["config", "list"]).done().out().contains("agent"));
}
