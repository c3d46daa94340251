//! A server of ours on a store that is made anew, for the time of a trial.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Problem;
use crate::command::workspace_root;

pub(super) struct Serving {
    child: Child,
    pub(super) url: String,
    pub(super) token: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whether it was still there or not, it is not any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub(super) fn start(store: &Path) -> Result<Self, Problem> {
        if store.exists() {
            fs::remove_dir_all(store).map_err(|cause| format!("{}: {cause}", store.display()))?;
        }
        let mut command = Command::new(workspace_root().join("target/debug/enjamb"));
        command.arg("--store").arg(store).args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let spawned = command.env("HOME", store).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|cause| format!("enjamb serve: {cause}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line).map_err(|cause| format!("enjamb serve: {cause}"))?;
        }
        let url =
            line.split("\"url\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned();
        let token = fs::read_to_string(store.join("token")).map_err(|cause| format!("the token: {cause}"))?;
        Ok(Self { child, url, token: token.trim().to_owned() })
    }

    pub(super) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Appends a frame with a number in it.
    pub(super) fn append(&self, stream: &str, number: u32) -> Result<(), Problem> {
        let path = format!("/v1/streams/note/{stream}/frames");
        self.post(&path, &format!("{{\"type\":\"said\",\"n\":{number}}}")).map(drop)
    }

    /// Makes something of every kind, and returns what it is called where a path asks for it.
    pub(super) fn fill(&self) -> Result<Vec<(&'static str, String)>, Problem> {
        self.append("n", 0)?;
        let thread = member(&self.post("/v1/threads", "{\"title\":\"t\"}")?, "thread_id");
        let message = self.post(&format!("/v1/threads/{thread}/messages"), "{\"content\":\"hi\"}")?;
        let content = r#"{"role":"user","content":"hi"}\n"#.replace('"', "\\\"");
        let commit = format!("{{\"format\":\"generic-v1\",\"content\":\"{content}\",\"principal\":\"p\"}}");
        let commit = self.post("/v1/contexts", &commit)?;
        let (context, artifact) = (member(&commit, "id"), member(&commit, "artifact"));
        let compiled = self.post("/v1/compile", &format!("{{\"thread\":\"{thread}\"}}"))?;
        let packed = self.post("/v1/packs", &format!("{{\"from\":[\"{context}\"]}}"))?;
        Ok(vec![
            ("thread", thread),
            ("message", member(&message, "message_id")),
            ("context", context.clone()),
            ("other", context),
            ("artifact", artifact),
            ("bundle", member(&compiled, "bundle")),
            ("pack", member(&packed, "hash")),
        ])
    }

    fn post(&self, path: &str, body: &str) -> Result<String, Problem> {
        let broken = |cause: std::io::Error| format!("POST {path}: {cause}");
        let mut stream = TcpStream::connect(self.address()).map_err(broken)?;
        let (host, token, length) = (self.address(), &self.token, body.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .map_err(broken)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(broken)?;
        if answer.starts_with("HTTP/1.1 20") { Ok(answer) } else { Err(format!("POST {path}: {answer}")) }
    }
}

/// The first text of this name in an answer.
fn member(answer: &str, name: &str) -> String {
    let before = format!("\"{name}\":\"");
    let rest = answer.split_once(&before).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}
