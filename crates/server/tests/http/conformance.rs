//! One suite of operations, in this process and through a server: the answers have to be equal. Every operation that the
//! table has is part of it, or is named here with the reason why not.

use std::collections::{BTreeMap, BTreeSet};

use enjamb_core::Timestamp;
use enjamb_server::{Address, Client, Gives, Operations, Takes, routes};
use enjamb_service::{Actor, Env, Store};
use enjamb_testkit::home::Home as Stores;
use serde_json::{Map, Value, json};

use crate::harness::Home;

/// What is not an operation on a store, and what never ends.
const APART: &[&str] = &["meta", "openapi", "docs", "health", "ready", "metrics"];

/// Runs operations and keeps what was answered, with ids and times replaced by the order in which they came.
struct Run {
    operations: Operations,
    told: Vec<String>,
    done: BTreeSet<String>,
    names: BTreeMap<String, String>,
}

impl Run {
    fn new(operations: Operations) -> Self {
        Self { operations, told: Vec::new(), done: BTreeSet::new(), names: BTreeMap::new() }
    }

    fn call(&mut self, operation: &str, params: Value) -> Value {
        self.with(operation, params, &[])
    }

    fn with(&mut self, operation: &str, params: Value, headers: &[(&str, &str)]) -> Value {
        let answer = self.operations.call_with::<Value>(operation, params, headers);
        self.keep(operation, answer.map_err(|error| error.problem()))
    }

    fn send(&mut self, operation: &str, params: Value, kind: &str, body: &[u8]) -> Value {
        let answer = self.operations.upload::<Value>(operation, params, kind, body.to_vec());
        self.keep(operation, answer.map_err(|error| error.problem()))
    }

    fn bytes(&mut self, operation: &str, params: Value) {
        let answer = self.operations.bytes(operation, params).map(|(bytes, _)| bytes);
        let answer = answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned().into());
        self.keep(operation, answer.map_err(|error| error.problem()));
    }

    fn keep(&mut self, operation: &str, answer: Result<Value, Value>) -> Value {
        self.done.insert(operation.to_owned());
        let (sign, raw) = match answer {
            Ok(value) => ("=", value),
            Err(mut problem) => {
                let members = problem.as_object_mut().expect("a problem is an object");
                members.retain(|name, _| name != "instance" && name != "request_id");
                ("!", problem)
            }
        };
        let told = self.normal(&raw);
        self.told.push(format!("{operation} {sign} {told}"));
        raw
    }

    fn normal(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let row = |(name, value): (&String, &Value)| {
                    let depends = name.ends_with("_ms") || DEPENDS.contains(&name.as_str());
                    (name.clone(), if depends { Value::Null } else { self.normal(value) })
                };
                Value::Object(members.iter().map(row).collect::<Map<_, _>>())
            }
            Value::Array(list) => {
                let mut list: Vec<_> = list.iter().map(|value| self.normal(value)).collect();
                // Links between threads are in the order of ids, which are random.
                if list.iter().all(|value| value["to_seq"] != Value::Null || value["kind"] == "reference") {
                    list.sort_by_key(Value::to_string);
                }
                list.into()
            }
            Value::String(text) if text.parse::<Timestamp>().is_ok() => "a time".into(),
            Value::String(text) => self.renamed(text).into(),
            other => other.clone(),
        }
    }

    /// A text with every id in it replaced by its number.
    fn renamed(&mut self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut out = String::new();
        let mut word = String::new();
        for c in text.chars().chain(['\0']) {
            if is_word(c) {
                word.push(c);
                continue;
            }
            let (known, is_id) = (self.names.len(), is_id(&word));
            let name =
                if is_id { self.names.entry(word.clone()).or_insert_with(|| format!("id-{known}")) } else { &word };
            out.push_str(name);
            out.push(c);
            word.clear();
        }
        out.trim_end_matches('\0').to_owned()
    }
}

/// What depends on the machine, or on how ids and times fell.
const DEPENDS: &[&str] =
    &["store_id", "disk", "raw_bytes", "segment_bytes", "bytes_before", "bytes_after", "checks", "digest", "at"];

/// A digest, or a random id.
fn is_id(word: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if word.strip_prefix("workspace-").is_some_and(hex) {
        return true;
    }
    let digest = word.strip_prefix("ctx-").or_else(|| word.strip_prefix("art-")).unwrap_or(word);
    matches!(digest.len(), 32 | 64) && hex(digest) || word.len() == 36 && word.split('-').count() == 5
}

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

fn suite(run: &mut Run) {
    frames(run);
    artifacts(run);
    let tip = contexts(run);
    context_words(run, &tip);
    let thread = threads(run);
    compactions(run, &thread);
    bundles_and_packs(run, &thread, &tip);
    tasks_and_runs(run, &thread);
    workspaces(run);
    syncing(run);
    for (operation, params) in [
        ("status", json!({})),
        ("doctor", json!({})),
        ("verify", json!({})),
        ("gc", json!({})),
        ("gc", json!({"run": true})),
        ("maintain", json!({"rebuild_index": true})),
        ("secrets", json!({})),
        ("source", json!({"session": "nobody"})),
    ] {
        run.call(operation, params);
    }
    run.bytes("export", json!({"session": "nobody"}));
}

fn frames(run: &mut Run) {
    let stream = json!({"kind": "note", "id": "a/b"});
    let lines = b"{\"type\":\"x\",\"n\":1.50}\n{\"type\":\"y\"}\n";
    run.send("append", stream.clone(), "application/x-ndjson", lines);
    run.send(
        "append_any",
        json!({}),
        "application/json",
        b"{\"type\":\"z\",\"stream_kind\":\"note\",\"stream_id\":\"c\"}",
    );
    run.send("append_any", json!({}), "application/json", b"{\"type\":\"z\"}");
    run.call("stream", stream);
    run.call("streams", json!({"by_name": true}));
    run.call("frames", json!({"kind": "note", "id": "a/b", "raw": true}));
    run.call("frames", json!({"kind": "note", "id": "nothing"}));
}

fn artifacts(run: &mut Run) {
    let stored = run.send("put", json!({"ttl": "1h"}), "application/octet-stream", b"hello");
    let artifact = id(&stored["id"]);
    run.send("put_as", json!({"artifact": artifact}), "application/octet-stream", b"other");
    run.bytes("get", json!({"artifact": artifact}));
    run.bytes("get", json!({"artifact": "nothing"}));
    for (operation, params) in [
        ("artifact", json!({"artifact": artifact})),
        ("artifacts", json!({"limit": 1})),
        ("pin", json!({"artifact": artifact, "policy": "pin"})),
        ("pin", json!({"artifact": artifact, "policy": "whim"})),
        ("tag", json!({"name": "greeting", "artifact": artifact})),
        ("tagged", json!({"name": "greeting"})),
        ("tags", json!({})),
        ("untag", json!({"name": "greeting"})),
        ("untag", json!({"name": "greeting"})),
    ] {
        run.call(operation, params);
    }
}

/// A chain of three, the tip of which is returned.
fn contexts(run: &mut Run) -> String {
    let mut parent = Value::Null;
    for (at, words) in ["cap retries", "two sleeps", "why not one?"].into_iter().enumerate() {
        let said = json!({"role": if at == 1 { "assistant" } else { "user" }, "content": words.repeat(200)});
        let made = run.call(
            "checkpoint",
            json!({
                "content": format!("{said}\n"), "format": "generic-v1", "principal": "agent/a", "parent": parent,
                "session_id": "s1", "created_at": format!("2026-01-0{}T00:00:00Z", at + 1),
            }),
        );
        parent = made["commits"][0]["id"].clone();
    }
    run.call("checkpoint", json!({"content": "nonsense", "format": "claude-code-v9", "principal": "agent/a"}));
    id(&parent)
}

fn context_words(run: &mut Run, tip: &str) {
    for (operation, params) in [
        ("log", json!({"principal": "agent/a", "limit": 2})),
        ("log", json!({"no_summary": true})),
        ("log", json!({"cursor": "nothing"})),
        ("history", json!({"context": tip})),
        ("show", json!({"context": "@-"})),
        ("show", json!({"context": "ctx-ffffffff"})),
        ("children", json!({"context": "@-"})),
        ("tips", json!({"context": "@~2"})),
        ("account", json!({"context": tip, "format": "claude-code-v1"})),
        ("diff", json!({"context": tip, "other": "@-"})),
        ("merge_base", json!({"context": tip, "other": "@-"})),
        ("find", json!({"name": "@"})),
        ("find", json!({"name": "nobody"})),
        ("resolve", json!({"principal": "agent/a", "at": "2026-01-02T12:00:00Z"})),
        ("current", json!({"session": ["s1"]})),
        ("current", json!({"session": ["s2"]})),
        ("note", json!({"context": tip, "summary": "retries", "tags": ["x"]})),
        ("note", json!({"context": tip})),
        ("link", json!({"context": tip, "ticket": "PAY-1"})),
        ("unlink", json!({"context": tip, "ticket": "PAY-1"})),
        ("unlink", json!({"context": tip, "ticket": "PAY-1"})),
        ("fork", json!({"context": tip, "name": "side"})),
        ("ref", json!({"name": "side"})),
        ("move_ref", json!({"name": "side", "commit": "@-"})),
        ("refs", json!({})),
        ("delete_ref", json!({"name": "side"})),
        ("snapshot", json!({"context": tip, "created_at": "2026-01-05T00:00:00Z"})),
        ("summarize", json!({})),
    ] {
        run.call(operation, params);
    }
    run.bytes("materialize", json!({"context": tip, "format": "narrative-v1"}));
    let compacted =
        run.call("compact_chain", json!({"context": tip, "keep_turns": 0, "summary": "retries were capped"}));
    run.call("chain_loss", json!({"context": compacted["commit"]["id"]}));
    run.with("fork", json!({"context": tip, "name": "side"}), &[("if-none-match", "*")]);
    run.with(
        "move_ref",
        json!({"name": "side", "commit": "@"}),
        &[("if-match", &format!("\"ctx-{}\"", "0".repeat(32)))],
    );
}

fn threads(run: &mut Run) -> String {
    let thread =
        id(&run.call("create_thread", json!({"workspace": "/w", "title": "slow", "ensure": true}))["thread_id"]);
    let asked = json!({"thread": thread, "content": "why is checkout slow?"});
    let message = id(&run.with("post", asked.clone(), &[("idempotency-key", "k1")])["message_id"]);
    run.with("post", asked, &[("idempotency-key", "k1")]);
    run.call("post", json!({"thread": thread, "content": "two sleeps"}));
    let other = id(&run.call("branch", json!({"thread": thread, "from_message_id": message}))["thread_id"]);
    for (operation, params) in [
        ("thread", json!({"thread": thread})),
        ("thread", json!({"thread": "nobody"})),
        ("handoff", json!({"thread": thread, "summary_markdown": "two sleeps"})),
        ("reference", json!({"thread": other, "other": thread})),
        ("update_thread", json!({"thread": other, "add_tags": ["urgent"], "archived": true})),
        ("threads", json!({"archived": true})),
        ("search_threads", json!({"q": "sleeps"})),
        ("search_threads", json!({})),
        ("pin_message", json!({"thread": thread, "message": message})),
        ("pins", json!({"thread": thread})),
        ("unpin_message", json!({"thread": thread, "message": message})),
        ("set_cursor", json!({"thread": thread, "cursor": {"previous_response_id": "r1"}})),
        ("cursors", json!({"thread": thread})),
        ("rotate_cursor", json!({"thread": thread})),
        ("rotate_cursor", json!({"thread": thread})),
        ("decisions", json!({"thread": thread})),
    ] {
        run.call(operation, params);
    }
    run.call("thread_map", json!({"edges_only": true}));
    thread
}

fn compactions(run: &mut Run, thread: &str) {
    for words in ["it sleeps twice for each retry ".repeat(80), "so cap them ".repeat(80)] {
        run.call("post", json!({"thread": thread, "content": words}));
    }
    let of = |more: Value| {
        let mut params = json!({"thread": thread, "stride_messages": 2});
        more.as_object().into_iter().flatten().for_each(|(name, value)| params[name] = value.clone());
        params
    };
    run.call("cut_points", of(json!({"limit": 2})));
    run.call("compaction_status", of(json!({})));
    run.call("compact", of(json!({"summary_markdown": "asked", "to_seq": 2})));
    run.call("compact_auto", of(json!({"dry_run": true})));
    let left = run.call("compact_schedule", of(json!({"execute": false})));
    let job = left["job_id"].clone();
    run.call("jobs", json!({"thread": thread}));
    run.call("run_job", json!({"thread": thread, "job": job}));
    run.call("cancel_job", json!({"thread": thread, "job": job}));
    run.call("thread_loss", json!({"thread": thread}));
}

fn bundles_and_packs(run: &mut Run, thread: &str, tip: &str) {
    let compiled = run.call("compile", json!({"thread": thread, "run": null}));
    let bundle = json!({"bundle": compiled["bundle"]});
    run.call("compile", json!({"from": tip, "explain": true, "dry_run": true, "run": "r"}));
    run.call("compile", json!({}));
    run.call("bundle", bundle.clone());
    run.call("audit", bundle);
    run.bytes("render", json!({"bundle": compiled["bundle"], "target": "anthropic"}));
    run.bytes("render", json!({"bundle": compiled["bundle"], "target": "nobody"}));
    let packed = run.call("pack", json!({"from": [tip]}));
    let hash = packed["packs"][0]["hash"].clone();
    run.call("packs", json!({}));
    run.call("pack_record", json!({"pack": hash}));
    run.bytes("packed", json!({"pack": hash, "format": "md"}));
    run.send("unpack", json!({}), "application/octet-stream", b"nonsense");
}

/// A task that somebody else ran, and told of.
fn tasks_and_runs(run: &mut Run, thread: &str) {
    let task = "5d1c90ab-7a41-4b1e-9f53-2d1f6a0c9e10";
    let log = run.send("put", json!({}), "application/octet-stream", b"what it said")["id"].clone();
    let hex = id(&log).trim_start_matches("art-").to_owned();
    let logs = json!({"logs": {"stdout": {"id": hex, "bytes_total": 12, "bytes_stored": 12}}});
    let lines = [
        json!({"type": "tool_task_spawned", "task_id": task, "tool_name": "exec", "args": {"argv": ["echo", "x"]}, "execution_mode": "pipes"}),
        json!({"type": "tool_task_status", "task_id": task, "status": "running"}),
        json!({"type": "tool_task_status", "task_id": task, "status": "exited", "exit_code": 3, "artifacts": logs}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    run.send("append", json!({"kind": "task", "id": task}), "application/x-ndjson", lines.as_bytes());
    let one = json!({"task": &task[..8]});
    run.call("tasks", json!({}));
    run.call("task", one.clone());
    run.call("task", json!({"task": "nobody"}));
    run.bytes("task_output", json!({"task": task, "offset": 5, "length": 2}));
    run.bytes("task_output", json!({"task": task, "stream": "pty"}));
    for (operation, params) in [
        ("run_task", json!({"shell": "exit"})),
        ("run_task", json!({})),
        ("cancel_task", one),
        ("write_task", json!({"task": task, "chunk_b64": "not base64"})),
        ("resize_task", json!({"task": task, "rows": 0, "cols": 1})),
        ("signal_task", json!({"task": task, "signal": "HUH"})),
        ("start_run", json!({"thread": thread, "content": "why?"})),
        ("run", json!({"thread": thread, "run": "nobody"})),
        ("cancel_run", json!({"thread": thread, "run": "nobody"})),
    ] {
        run.call(operation, params);
    }
}

fn workspaces(run: &mut Run) {
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("w"), dir.path().join("w/a.txt"));
    std::fs::create_dir(&root).unwrap();
    let keep = |run: &mut Run, words: &str| {
        std::fs::write(&file, words).unwrap();
        let made = run.operations.call::<Value>("checkpoint_workspace", json!({"root": root, "label": words})).unwrap();
        run.done.insert("checkpoint_workspace".into());
        id(&made["checkpoint"])
    };
    let (one, two) = (keep(run, "one"), keep(run, "two"));
    std::fs::write(&file, "three").unwrap();
    run.call("checkpoint_workspace", json!({"root": "/nowhere/at/all"}));
    run.call("workspace_diff", json!({"checkpoint": one, "to": two}));
    run.call("workspace_diff", json!({"checkpoint": one, "to": "ffffffff"}));
    run.call("workspace_changes", json!({"checkpoint": two}));
    run.call("rewind_workspace", json!({"root": root, "checkpoint": one, "dry_run": true}));
    run.call("rewind_workspace", json!({"root": root}));
    let rewound = run.operations.call::<Value>("rewind_workspace", json!({"root": root, "checkpoint": one})).unwrap();
    assert_eq!((std::fs::read_to_string(&file).unwrap(), &rewound["dry_run"]), ("one".to_owned(), &json!(false)));
    let listed = run.operations.call::<Value>("workspace_checkpoints", json!({"limit": 2})).unwrap();
    assert_eq!(listed["checkpoints"].as_array().map(Vec::len), Some(2), "{listed}");
    run.call("workspace_checkpoints", json!({"root": "/elsewhere"}));
    run.call("workspace_checkpoint", json!({"checkpoint": "ffffffff"}));
    let shown = run.operations.call::<Value>("workspace_checkpoint", json!({"checkpoint": two})).unwrap();
    assert_eq!(shown["label"], "two");
}

/// Whole transfers are tests of their own: what they tell differs from store to store.
fn syncing(run: &mut Run) {
    let points = json!({"points": [{"stream": "note/nobody", "seq": 0, "chain": "7".repeat(64)}]});
    let artifacts = json!({"artifacts": [format!("art-{}", "7".repeat(64))]});
    run.call("sync_heads", json!({"prefix": "not hex"}));
    run.call("sync_known", points.clone());
    run.call("sync_points", points);
    run.call("sync_missing", artifacts.clone());
    run.bytes("sync_artifacts", artifacts);
    run.bytes("sync_frames", json!({"wants": []}));
    run.send("sync_receive", json!({}), "application/octet-stream", b"no package");
}

#[test]
fn operations_answer_the_same_in_this_process_and_through_a_server() {
    let stores = Stores::new();
    let by = Actor { actor_id: "dana".into(), origin: "test".into() };
    let mut here = Run::new(Operations::here(Store::create(&stores.store(), Env::system()).unwrap(), by));
    let home = Home::new();
    let client = Client::new(&Address::Socket(home.stores.store().join("sock")), None).acting("dana", "test");
    let mut there = Run::new(Operations::there(client));
    suite(&mut here);
    suite(&mut there);
    for (here, there) in here.told.iter().zip(&there.told) {
        assert_eq!(there, here);
    }
    assert_eq!(here.told.len(), there.told.len());
    let part = |route: &enjamb_server::Route| !route.seed && route.gives != Gives::Events;
    let all: BTreeSet<_> =
        routes().iter().filter(|route| part(route)).map(|route| route.operation.to_owned()).collect();
    let apart: BTreeSet<_> = APART.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(here.done, &all - &apart, "every operation is part of the suite");
    assert!(routes().iter().any(|route| route.takes == Takes::Bytes));
}
