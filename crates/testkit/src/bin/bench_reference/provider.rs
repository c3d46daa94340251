//! A provider that sends as many events as it is asked for, as fast as they are taken. Its first word is the time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Problem;

/// Bytes that are sent at once.
const CHUNK_BYTES: usize = 32 << 10;
/// How long a first word takes at the least, so that all who wait for it do wait.
const BEFORE_FIRST: Duration = Duration::from_millis(5);

/// Says where it is, and serves until its input ends.
pub(crate) fn serve() -> Result<String, Problem> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(std::io::stdout(), "http://{}/v1/responses", listener.local_addr()?)?;
    std::io::stdout().flush()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || drop(answer(connection)));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(String::new())
}

fn answer(mut connection: TcpStream) -> Result<(), Problem> {
    connection.set_nodelay(true)?;
    let events = asked(&mut BufReader::new(connection.try_clone()?))?;
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
    connection.write_all(head.as_bytes())?;
    thread::sleep(BEFORE_FIRST);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    connection.write_all(event(&format!("@{now} ")).as_bytes())?;
    let mut waiting = String::with_capacity(CHUNK_BYTES * 2);
    for at in 1..events {
        waiting.push_str(&event(&format!("word {at} ")));
        if waiting.len() >= CHUNK_BYTES {
            connection.write_all(waiting.as_bytes())?;
            waiting.clear();
        }
    }
    let usage = r#""usage":{"input_tokens":1,"output_tokens":1}"#;
    waiting.push_str(&format!("data: {{\"type\":\"response.completed\",\"response\":{{\"id\":\"r\",{usage}}}}}\n\n"));
    Ok(connection.write_all(waiting.as_bytes())?)
}

/// An event as providers send it, with the members that nobody here needs.
fn event(text: &str) -> String {
    let members = r#""content_index":0,"item_id":"msg_0123456789abcdef","logprobs":[],"output_index":0"#;
    let name = "response.output_text.delta";
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{members},\"delta\":\"{text}\"}}\n\n")
}

/// The number of events that the model's name asks for.
fn asked(reader: &mut impl BufRead) -> Result<u64, Problem> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: serde_json::Value = serde_json::from_slice(&body)?;
    let events = body["model"].as_str().and_then(|model| model.strip_prefix("events-")).ok_or("which model?")?;
    Ok(events.parse()?)
}
