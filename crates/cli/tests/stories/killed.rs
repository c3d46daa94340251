//! A server that is killed while many append: what it acknowledged is there, and nothing is there twice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

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

/// Sends one frame with a key, and says whether it was acknowledged.
fn append(socket: &PathBuf, key: &str) -> bool {
    let send = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = format!(r#"{{"type":"x","key":"{key}"}}"#);
        write!(
            stream,
            "POST /v1/streams/note/n/frames HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             idempotency-key: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    send().is_ok_and(|answer| answer.starts_with("HTTP/1.1 20"))
}

/// Appends until told to stop, trying each frame again until it is acknowledged; returns how many there are.
fn client(socket: &PathBuf, number: usize, stop: &AtomicBool) -> usize {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = format!("c{number}-{done}");
        while !append(socket, &key) {
            std::thread::sleep(Duration::from_millis(10));
        }
        done += 1;
    }
    done
}

#[test]
fn a_killed_server_has_all_that_it_acknowledged_once() {
    let enjamb = Enjamb::with_store();
    let socket = enjamb.store().join("sock");
    let stop = AtomicBool::new(false);
    let mut child = start(&enjamb);
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
    let frames = enjamb.run(&["frames", "note/n"]).done().out();
    for (seq, line) in frames.lines().enumerate() {
        let frame: Value = serde_json::from_str(line).expect("a frame");
        assert_eq!(frame["seq"], seq, "no gap");
        *seen.entry(frame["key"].as_str().expect("a key").to_owned()).or_default() += 1;
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
    assert_eq!(seen.len(), done.iter().sum::<usize>(), "every frame was acknowledged in the end");
    enjamb.run(&["verify"]).done();
}
