//! Where the store is: in this process, or behind a server (`--store http://…`, `https://…`, `unix://…`).
//!
//! What is asked for is an operation of the server's table, by name, and commands print the answer; whether a server gave it
//! or the store itself they need not know. A few commands move bytes of any size and do that for each way by themselves.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use enjamb_core::StreamId;
use enjamb_ledger::{Appended, FrameAt, StreamSummary};
use enjamb_server::{Address, Client, ClientError, Operations, Secret, Silence, Told, socket_of, view};
use enjamb_service::{Append, Stored};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Failure, Result};

/// The variable that holds the token for a server.
const TOKEN: &str = "ENJAMB_TOKEN";
/// Set, it says that the store is opened here though a server has it open too.
const DIRECT: &str = "ENJAMB_DIRECT";

/// How long a server on this machine, and one elsewhere, may take to say that it is there.
const HERE_WITHIN: Duration = Duration::from_secs(2);
const ELSEWHERE_WITHIN: Duration = Duration::from_secs(10);

impl Context<'_> {
    /// The operations of the store, which must be there.
    pub fn operations(&self) -> Result<Operations> {
        match self.remote()? {
            Some(remote) => Ok(Operations::there(remote.0)),
            None => Ok(Operations::here(self.open()?, self.actor())),
        }
    }

    /// The operations of the store, made if it is not there.
    pub fn operations_or_create(&self) -> Result<Operations> {
        match self.remote()? {
            Some(remote) => Ok(Operations::there(remote.0)),
            None => Ok(Operations::here(self.open_or_create()?, self.actor())),
        }
    }

    /// The server that has the store: one that is named, or one that runs on this machine.
    pub fn remote(&self) -> Result<Option<Remote>> {
        let by = self.actor();
        let acting = |client: Client| Remote(client.acting(&by.actor_id, &by.origin));
        let Some(address) = self.address() else {
            let dir = self.store_dir()?;
            return Ok(listening(&dir)?.map(acting));
        };
        let token = match std::env::var(TOKEN) {
            Err(_) => None,
            Ok(text) => {
                let bad = || Failure::usage(format!("{TOKEN} holds no token: those begin with enj_"));
                Some(Secret::parse(text.trim()).ok_or_else(bad)?)
            }
        };
        let client = Client::new(&address, token);
        match client.check(ELSEWHERE_WITHIN) {
            Ok(()) => Ok(Some(acting(client))),
            Err(Silence::Absent(error)) => Err(error.into()),
            Err(Silence::Stuck) => {
                Err(stuck(&self.named_store().unwrap_or_default().to_string_lossy(), ELSEWHERE_WITHIN))
            }
        }
    }

    pub fn address(&self) -> Option<Address> {
        Address::parse(self.named_store()?.to_str()?)
    }
}

/// The server at the socket of a store, if one listens to it. A server that was killed leaves a socket behind to which
/// nobody does; one that is stopped would let everybody wait, so that is said.
pub fn listening(dir: &Path) -> Result<Option<Client>> {
    let socket = socket_of(dir);
    let is_direct = std::env::var_os(DIRECT).is_some_and(|value| !value.is_empty());
    if is_direct || std::fs::symlink_metadata(&socket).is_err() {
        return Ok(None);
    }
    let client = Client::new(&Address::Socket(socket.clone()), None);
    match client.check(HERE_WITHIN) {
        Ok(()) => Ok(Some(client)),
        Err(Silence::Absent(_)) => Ok(None),
        Err(Silence::Stuck) => Err(stuck(&socket.to_string_lossy(), HERE_WITHIN)),
    }
}

fn stuck(at: &str, within: Duration) -> Failure {
    let detail = format!("a server is there and has not answered within {} s: it may be stopped", within.as_secs());
    let mut problem = ClientError::Unanswered { at: at.to_owned(), detail, sent: false }.problem();
    problem["help"] =
        format!("end that server or let it go on (kill -CONT), or set {DIRECT}=1 to open the store without it").into();
    Failure::Problem(problem)
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let mut problem = error.problem();
        if problem["code"] == "no-such-route" {
            problem["title"] = "the server does not know this: it is of another version".into();
            problem["help"] = format!("end that server, or set {DIRECT}=1 to open the store without it").into();
        }
        // Where it was asked for says nothing to who typed a command.
        let members = problem.as_object_mut();
        let _ = members.map(|members| ["instance", "request_id"].map(|name| members.remove(name)));
        Self::Problem(problem)
    }
}

/// Writes the bytes that an operation gives, and says how many they were and what was told of them.
pub fn pass_on(operations: &Operations, operation: &str, asked: Value, out: &mut dyn Write) -> Result<(u64, Told)> {
    let (mut written, mut failed) = (0, None);
    let told = operations.download(operation, asked, &mut |part| {
        written += part.len() as u64;
        out.write_all(part).map_err(|error| {
            let kind = error.kind();
            failed = Some(error);
            kind.into()
        })
    });
    // When it is our own output that failed, nobody else is to blame.
    match failed {
        Some(error) => Err(error.into()),
        None => {
            let told = told?;
            out.flush()?;
            Ok((written, told))
        }
    }
}

/// A store behind a server.
pub struct Remote(pub Client);

/// An answer that holds something no version of ours could have sent.
pub fn unreadable(what: &str) -> Failure {
    Failure::Usage { message: format!("the answer holds {what} that cannot be read"), help: None }
}

impl Remote {
    pub fn streams(&self, kind: Option<&str>, by_name: bool, limit: usize) -> Result<Vec<StreamSummary>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let left = limit.saturating_sub(all.len()).min(1000);
            let asked = json!({"kind": kind, "by_name": by_name, "limit": left, "cursor": cursor});
            let page: view::Streams = self.0.call("streams", asked)?;
            for stream in &page.streams {
                all.push(stream.summary().ok_or_else(|| unreadable("a stream"))?);
            }
            cursor = page.next;
            if cursor.is_none() || all.len() >= limit {
                return Ok(all);
            }
        }
    }

    /// A page of a stream's frames from a seq on.
    pub fn frames(&self, stream: &StreamId, from: u64, limit: usize) -> Result<Vec<view::Frame>> {
        let asked =
            json!({"kind": stream.kind.as_str(), "id": stream.id, "from_seq": from, "limit": limit, "raw": true});
        let page: view::Frames = self.0.call("frames", asked)?;
        Ok(page.frames)
    }

    pub fn append(&self, request: &Append) -> Result<Appended> {
        let mut body = Vec::new();
        for line in &request.lines {
            // A frame on several lines would be taken for several frames; between members a space says the same.
            body.extend(line.json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
            body.push(b'\n');
        }
        let expected = request.expected_seq.map(|seq| format!("\"{seq}\""));
        let mut headers = vec![("content-type", "application/x-ndjson")];
        headers.extend(expected.as_deref().map(|seq| ("if-match", seq)));
        headers.extend(request.idempotency_key.as_deref().map(|key| ("idempotency-key", key)));
        let (operation, params) = match &request.stream {
            Some(stream) => ("append", json!({"kind": stream.kind.as_str(), "id": stream.id})),
            None => ("append_any", json!({})),
        };
        let done: view::AppendedFrames = self.0.upload(operation, params, &headers, &mut body.as_slice())?;
        let place = |place: &view::FramePlace| {
            let stream = place.stream.parse().map_err(|_| unreadable("a stream"))?;
            Ok(FrameAt { stream, seq: place.seq })
        };
        Ok(Appended { frames: done.frames.iter().map(place).collect::<Result<_>>()?, replayed: done.replayed })
    }

    pub fn put(&self, source: &mut dyn Read, expected: Option<String>, ttl: Option<&str>) -> Result<Stored> {
        let operation = if expected.is_some() { "put_as" } else { "put" };
        let headers = [("content-type", "application/octet-stream")];
        let done: view::StoredArtifact =
            self.0.upload(operation, json!({"artifact": expected, "ttl": ttl}), &headers, source)?;
        let id = done.id.parse().map_err(|_| unreadable("an id"))?;
        Ok(Stored { id, len: done.bytes, known: done.known })
    }

    /// Does an operation and gives its answer as it came.
    pub fn call(&self, operation: &str, params: Value) -> Result<Value> {
        Ok(self.0.call(operation, params)?)
    }
}
