//! `enjamb mcp` as an agent's runtime starts it: lines of JSON in, lines of JSON out, and nothing else.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::runner::Enjamb;

/// Sends requests, numbered from 1, and returns the answers in that order.
fn session(enjamb: &Enjamb, requests: &[(&str, Value)]) -> Vec<Value> {
    let begin =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut input = format!("{}\n", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}));
    input.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    for (id, (method, params)) in requests.iter().enumerate() {
        let request = json!({"jsonrpc": "2.0", "id": id + 1, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
    }
    let answer = enjamb.run_with(&["mcp"], input).done();
    let mut answers: Vec<Value> = answer.out().lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.len(), requests.len() + 1, "{answers:?}");
    answers.remove(0);
    answers
}

#[test]
fn an_agent_commits_and_the_commands_see_it() {
    let enjamb = Enjamb::new();
    let content = "{\"role\":\"user\",\"content\":\"hi\"}\n";
    let arguments = json!({"content": content, "principal": "agent/a", "summary": "greeted"});
    let answers = session(&enjamb, &[("tools/call", json!({"name": "context_checkpoint", "arguments": arguments}))]);
    let id = answers[0]["result"]["structuredContent"]["commits"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(enjamb.json(&["show", "@"])["id"], id.as_str());
    let read = json!({"name": "context_materialize", "arguments": {"context": id}});
    let answers = session(&enjamb, &[("tools/call", read), ("tools/list", json!({}))]);
    assert!(answers[0]["result"]["structuredContent"]["text"].as_str().unwrap().contains("hi"), "{answers:?}");
    assert!(answers[1]["result"]["tools"].as_array().unwrap().len() >= 12);
}

#[test]
fn a_client_that_goes_away_at_once_is_no_failure() {
    let answer = Enjamb::with_store().run(&["mcp"]).done();
    assert_eq!((answer.out(), answer.err()), (String::new(), String::new()));
}
