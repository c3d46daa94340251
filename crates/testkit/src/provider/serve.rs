//! The server: one script a request, in order.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::{Script, Step};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// In lower case.
    pub head: String,
    pub body: Value,
}

/// A server that goes on until its process ends.
pub struct LoopbackProvider {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl LoopbackProvider {
    /// Says one thing after another; when there is nothing left to say it answers 500.
    pub fn saying(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (scripts, told) = (Arc::new(Mutex::new(VecDeque::from(scripts))), Arc::clone(&asked));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (scripts, told) = (Arc::clone(&scripts), Arc::clone(&told));
                // Whoever asked may be gone; then there is nobody to answer.
                thread::spawn(move || drop(answer(connection, &scripts, &told)));
            }
        });
        Self { port, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no holder panics").clone()
    }
}

fn answer(
    mut connection: TcpStream,
    scripts: &Mutex<VecDeque<Script>>,
    told: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(1, connection.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let head = head.to_lowercase();
    let nothing_left = || Script::refusal(500, r#"{"error":{"message":"nothing left to say"}}"#);
    let script = scripts.lock().expect("no holder panics").pop_front().unwrap_or_else(nothing_left);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    // A byte that was sent and not read is enough for hanging up to reset the connection.
    let mut body = vec![0; length.unwrap_or(0_usize).saturating_sub(usize::from(script.leaves_body))];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    told.lock().expect("no holder panics").push(Asked { head, body });
    play(&mut connection, script)
}

/// Sends an answer in chunks, so that whoever reads it can tell a whole one from one that broke off.
fn play(connection: &mut TcpStream, script: Script) -> std::io::Result<()> {
    write!(connection, "HTTP/1.1 {} X\r\nconnection: close\r\ntransfer-encoding: chunked\r\n", script.status)?;
    for (name, value) in &script.headers {
        write!(connection, "{name}: {value}\r\n")?;
    }
    connection.write_all(b"\r\n")?;
    for step in script.steps {
        match step {
            Step::Bytes(bytes) if bytes.is_empty() => {}
            Step::Bytes(bytes) => {
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                connection.write_all(&chunk)?;
            }
            Step::Pause(pause) => thread::sleep(pause),
            Step::HangUp => return Ok(()),
        }
    }
    connection.write_all(b"0\r\n\r\n")
}
