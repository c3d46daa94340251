//! A server to be measured: a real one, as a process of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::failure::{Failure, Result};

/// A server under load; one of ours ends when this is dropped.
pub struct Serving {
    child: Option<Child>,
    address: String,
    token: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Whether it was still there or not, it is not any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn broken(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::usage(format!("{what}: {error}"))
}

impl Serving {
    /// A server that is there already.
    pub fn at(address: &str) -> Self {
        Self { child: None, address: address.to_owned(), token: "none".to_owned() }
    }

    pub fn start(store: &Path) -> Result<Self> {
        let failed = broken("the server");
        let program = std::env::current_exe().map_err(&failed)?;
        let mut command = Command::new(program);
        command.arg("--store").arg(store).args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(&failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line).map_err(&failed)?;
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = told["url"].as_str().and_then(|url| url.strip_prefix("http://")).unwrap_or_default().to_owned();
        let token = std::fs::read_to_string(store.join("token")).map_err(&failed)?.trim().to_owned();
        Ok(Self { child: Some(child), address, token })
    }

    pub fn stream(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).map_err(broken("a connection (ulimit -n says how many)"))?;
        stream.set_nodelay(true).map_err(broken("a connection"))?;
        Ok(stream)
    }

    /// A request that appends to a stream, up to the length of its body.
    pub fn append_head(&self, stream: &str) -> String {
        let line = format!("POST /v1/streams/bench/{stream}/frames HTTP/1.1\r\n");
        format!("{line}{}content-type: application/json\r\n", self.caller())
    }

    /// Begins to follow a stream.
    pub fn follow(&self, stream: &str) -> Result<TcpStream> {
        let mut connection = self.stream()?;
        let request = format!("GET /v1/streams/bench/{stream}/events HTTP/1.1\r\n{}\r\n", self.caller());
        connection.write_all(request.as_bytes()).map_err(broken("a follower"))?;
        Ok(connection)
    }

    fn caller(&self) -> String {
        format!("host: {}\r\nauthorization: Bearer {}\r\n", self.address, self.token)
    }

    /// Memory that it holds now, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let id = self.child.as_ref().map_or(0, Child::id);
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

pub fn at(sorted: &[f64], part: f64) -> f64 {
    sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6
}
