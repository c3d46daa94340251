//! A server that is killed while many write: what it acknowledged is there, and nothing is there twice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::runner::Enjamb;

const CLIENTS: usize = 8;

fn kills() -> u64 {
    std::env::var("ENJAMB_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn start(enjamb: &Enjamb) -> Child {
    let mut child = enjamb.command(&["serve", "--listen", "127.0.0.1:0", "--json"]).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says where it listens");
    assert!(line.contains("\"socket\""), "{line}");
    child
}

/// A write under a key: where it goes, under which condition, and what it says.
struct Asked {
    line: String,
    condition: &'static str,
    body: Value,
}

/// Appends, and writes whose ids the server makes, or which it refuses to do twice.
fn write_of(number: usize, key: &str) -> Asked {
    let write = |line: String, condition, body| Asked { line, condition, body };
    match number % 4 {
        0 => write("POST /v1/streams/note/n/frames".into(), "", json!({"type": "x", "key": key})),
        1 => write("POST /v1/threads".into(), "", json!({"title": key})),
        2 => {
            let delta = json!({"content": key, "format": "text-v0", "principal": "bot", "summary": key});
            write("POST /v1/contexts".into(), "", delta)
        }
        _ => write(format!("PUT /v1/refs/{key}"), "if-none-match: *\r\n", json!({"commit": "root"})),
    }
}

/// Sends one write with a key, and says whether it was acknowledged.
fn send(socket: &PathBuf, key: &str, write: &Asked) -> bool {
    let Asked { line, condition, body } = write;
    let send = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = body.to_string();
        write!(
            stream,
            "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{condition}\
             idempotency-key: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = send().unwrap_or_default();
    // Whoever was killed said nothing, or that it was busy; a refusal would never become an acknowledgement.
    assert!(!answer.starts_with("HTTP/1.1 4"), "{key}: {answer}");
    answer.starts_with("HTTP/1.1 20")
}

/// Writes until told to stop, trying each again until it is acknowledged; returns how many there are.
fn client(socket: &PathBuf, number: usize, stop: &AtomicBool) -> usize {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = format!("c{number}-{done}");
        let write = write_of(number, &key);
        while !send(socket, &key, &write) {
            std::thread::sleep(Duration::from_millis(10));
        }
        done += 1;
    }
    done
}

/// The keys of everything that was written, each as often as it is there.
fn written(enjamb: &Enjamb) -> Vec<String> {
    let named = |name: &str, value: &Value| value[name].as_str().map(str::to_owned);
    let in_frames = |stream: &str, name: &str| -> Vec<String> {
        let frames = enjamb.run(&["frames", stream]).done().out();
        let frames: Vec<Value> = frames.lines().map(|line| serde_json::from_str(line).expect("a frame")).collect();
        assert!(frames.iter().enumerate().all(|(seq, frame)| frame["seq"] == seq), "no gap");
        frames.iter().filter_map(|frame| named(name, frame)).collect()
    };
    let threads: Value = serde_json::from_str(&enjamb.run(&["thread", "list", "--json"]).done().out()).expect("a list");
    let threads = threads["threads"].as_array().expect("a list").iter().filter_map(|one| named("title", one)).collect();
    let mut refs = in_frames("context/~refs", "name");
    refs.retain(|name| name != "root");
    [in_frames("note/n", "key"), threads, in_frames("context/bot", "summary"), refs].concat()
}

#[test]
fn a_killed_server_has_all_that_it_acknowledged_once() {
    let enjamb = Enjamb::with_store();
    let socket = enjamb.store().join("sock");
    let stop = AtomicBool::new(false);
    let mut child = start(&enjamb);
    let first = json!({"content": "first", "format": "text-v0", "principal": "root"});
    assert!(send(&socket, "first", &Asked { line: "POST /v1/contexts".into(), condition: "", body: first }));
    assert!(send(
        &socket,
        "root",
        &Asked { line: "PUT /v1/refs/root".into(), condition: "", body: json!({"commit": "@"}) }
    ));
    let done: Vec<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| (number, &socket, &stop)).collect();
        let clients: Vec<_> = clients
            .into_iter()
            .map(|(number, socket, stop)| scope.spawn(move || client(socket, number, stop)))
            .collect();
        for round in 0..kills() {
            // At other moments each time, and early ones too.
            std::thread::sleep(Duration::from_millis(40 + (round * 73) % 260));
            child.kill().expect("it can be killed");
            child.wait().expect("it is gone");
            child = start(&enjamb);
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client ends")).collect()
    });
    child.kill().expect("it can be killed");
    child.wait().expect("it is gone");
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for key in written(&enjamb) {
        *seen.entry(key).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for (number, done) in done.iter().enumerate() {
        for index in 0..*done {
            assert!(
                seen.contains_key(&format!("c{number}-{index}")),
                "c{number}-{index} was acknowledged and is not there"
            );
        }
    }
    assert_eq!(seen.len(), done.iter().sum::<usize>(), "every write was acknowledged in the end");
    enjamb.run(&["verify"]).done();
}
