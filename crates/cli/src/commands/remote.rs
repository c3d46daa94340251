//! Commands on a store that a server has: `--store http://…`, `https://…` or `unix://…`.
//!
//! What is asked for goes over the wire as an operation of the server's table; answers are read back into the types that
//! a store on this machine gives, so that they are printed by the same code.

use std::io::Read;

use enjamb_core::{CommitId, StreamId};
use enjamb_ledger::{Appended, FrameAt, StoredCommit, StreamSummary};
use enjamb_server::{Address, Client, ClientError, Secret, view};
use enjamb_service::{Append, Filter, Page, Stored};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Failure, Result};

/// The variable that holds the token for a server.
const TOKEN: &str = "ENJAMB_TOKEN";

impl Context<'_> {
    /// The server that has the store, if one is named.
    pub fn remote(&self) -> Result<Option<Remote>> {
        let Some(address) = self.address() else { return Ok(None) };
        let token = match std::env::var(TOKEN) {
            Err(_) => None,
            Ok(text) => {
                let bad = || Failure::usage(format!("{TOKEN} holds no token: those begin with enj_"));
                Some(Secret::parse(text.trim()).ok_or_else(bad)?)
            }
        };
        let by = self.actor();
        Ok(Some(Remote(Client::new(&address, token).acting(&by.actor_id, &by.origin))))
    }

    pub fn address(&self) -> Option<Address> {
        Address::parse(self.named_store()?.to_str()?)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Remote(error.problem())
    }
}

/// A store behind a server.
pub struct Remote(pub Client);

/// An answer that holds something no version of ours could have sent.
fn unreadable(what: &str) -> Failure {
    Failure::Usage { message: format!("the server's answer holds {what} that cannot be read"), help: None }
}

impl Remote {
    pub fn show(&self, revision: &str) -> Result<(StoredCommit, Vec<CommitId>)> {
        let found: view::Context = self.0.call("show", json!({"context": revision}))?;
        let children = found.children.iter().flatten().map(|id| id.parse().map_err(|_| unreadable("an id")));
        let children = children.collect::<Result<_>>()?;
        Ok((found.stored().ok_or_else(|| unreadable("a commit"))?, children))
    }

    /// Commits of the store, or along a chain, as `Store::list` has them.
    pub fn list(&self, from: Option<&str>, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page> {
        let found: view::Contexts = self.0.call(
            "log",
            json!({
                "from": from, "principal": filter.principal, "template": filter.template, "session": filter.session,
                "ticket": filter.ticket, "thread": filter.thread, "format": filter.format,
                "since": filter.since.map(|at| at.to_string()), "until": filter.until.map(|at| at.to_string()),
                "no_summary": filter.no_summary, "tips": filter.tips, "limit": limit, "cursor": after,
            }),
        )?;
        let commits = found.contexts.iter().map(|one| one.stored().ok_or_else(|| unreadable("a commit")));
        let next = found.next.map(|id| id.parse().map_err(|_| unreadable("an id"))).transpose()?;
        Ok(Page { commits: commits.collect::<Result<_>>()?, next })
    }

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
        let asked = json!({"kind": stream.kind.as_str(), "id": stream.id, "from_seq": from, "limit": limit});
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
