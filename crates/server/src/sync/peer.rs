//! A store that takes part: its operations of syncing, and how often it was asked.

use std::cell::Cell;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use enjamb_core::ArtifactId;
use enjamb_core::sync::{Node, Package, Point};
use enjamb_service::Want;
use serde_json::json;

use crate::client::ClientError;
use crate::operations::Operations;
use crate::view;

type Result<T> = std::result::Result<T, ClientError>;

/// Frames, or artifacts, that one request asks about.
const ASKED_MAX: usize = 1_000;

/// How often a store that is busy is asked again, and after how long at first.
const BUSY_MAX: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// A store to give or to take.
pub struct Peer<'o> {
    operations: &'o Operations,
    requests: Cell<u64>,
    bytes: Cell<u64>,
    /// Streams that it keeps to itself, as it said last.
    private: Cell<u64>,
}

/// What it took to ask a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub requests: u64,
    /// Bytes of packages and of large artifacts, given and taken.
    pub bytes: u64,
}

/// A page of frames, and where the next begins.
pub(super) struct Page {
    pub package: Package,
    pub next: u64,
    pub done: bool,
}

impl<'o> Peer<'o> {
    pub fn new(operations: &'o Operations) -> Self {
        Self { operations, requests: Cell::new(0), bytes: Cell::new(0), private: Cell::new(0) }
    }

    pub fn traffic(&self) -> Traffic {
        Traffic { requests: self.requests.get(), bytes: self.bytes.get() }
    }

    /// Streams that it keeps to itself, as far as it was asked.
    pub(super) fn private(&self) -> u64 {
        self.private.get()
    }

    pub fn name(&self) -> String {
        self.operations.name()
    }

    /// Asks whether the store is there.
    pub fn greet(&self) -> Result<()> {
        self.node("").map(drop)
    }

    /// Asks once more when the store says that it is asked too much.
    fn patiently<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        let mut pause = PAUSE;
        for _ in 0..BUSY_MAX {
            match ask() {
                Err(ClientError::Refused(problem)) if matches!(problem["status"].as_u64(), Some(429 | 503)) => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                other => return other,
            }
        }
        ask()
    }

    fn count(&self, bytes: u64) {
        self.requests.set(self.requests.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// A failure to make sense of what the store says.
    fn senseless(&self, detail: impl Into<String>) -> ClientError {
        ClientError::Unanswered { at: self.name(), detail: detail.into(), sent: false }
    }

    pub(super) fn node(&self, prefix: &str) -> Result<(Node, u64)> {
        let prefix = (!prefix.is_empty()).then_some(prefix);
        let told: view::SyncNode = self.patiently(|| self.operations.call("sync_heads", json!({"prefix": prefix})))?;
        self.count(0);
        self.private.set(told.private);
        let node = told.node().ok_or_else(|| self.senseless("what it says of its streams cannot be read"))?;
        Ok((node, told.position))
    }

    pub(super) fn known(&self, points: &[Point]) -> Result<Vec<bool>> {
        let mut known = Vec::with_capacity(points.len());
        for some in points.chunks(ASKED_MAX) {
            let some: Vec<_> = some.iter().map(view::SyncPoint::of).collect();
            let told: view::SyncKnown =
                self.patiently(|| self.operations.call("sync_known", json!({"points": some})))?;
            self.count(0);
            if told.known.len() != some.len() {
                return Err(self.senseless("it does not say of each frame whether it is there"));
            }
            known.extend(told.known);
        }
        Ok(known)
    }

    /// Frames on the ways back from tips.
    pub(super) fn points(&self, tips: &[Point]) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for some in tips.chunks(ASKED_MAX) {
            let some: Vec<_> = some.iter().map(view::SyncPoint::of).collect();
            let told: view::SyncPoints =
                self.patiently(|| self.operations.call("sync_points", json!({"points": some})))?;
            self.count(0);
            for point in told.points.iter().flatten() {
                points.push(point.point().ok_or_else(|| self.senseless("it names what is no frame"))?);
            }
        }
        Ok(points)
    }

    pub(super) fn frames(&self, wants: Option<&[Want]>, after: u64) -> Result<Page> {
        let wants: Option<Vec<_>> = wants.map(|wants| wants.iter().map(view::SyncWant::of).collect());
        let asked = json!({"wants": wants, "after": after});
        let (bytes, told) = self.patiently(|| self.operations.bytes("sync_frames", asked.clone()))?;
        self.count(bytes.len() as u64);
        let package = self.package(&bytes)?;
        let next = told.number("enjamb-next");
        let done = told.get("enjamb-done") == Some("true");
        if !done && next <= after {
            return Err(self.senseless("its pages do not end"));
        }
        Ok(Page { package, next, done })
    }

    fn package(&self, bytes: &[u8]) -> Result<Package> {
        Package::read(bytes).map_err(|error| self.senseless(error.to_string()))
    }

    pub(super) fn missing(&self, ids: &[ArtifactId]) -> Result<Vec<ArtifactId>> {
        let mut missing = Vec::new();
        for some in ids.chunks(ASKED_MAX) {
            let asked = json!({"artifacts": texts(some)});
            let told: view::SyncMissing = self.patiently(|| self.operations.call("sync_missing", asked.clone()))?;
            self.count(0);
            for text in &told.missing {
                missing.push(text.parse().map_err(|_| self.senseless("it misses what is no artifact"))?);
            }
        }
        Ok(missing)
    }

    /// The bytes of artifacts, none of them large. Each is what its id says.
    pub(super) fn artifacts(&self, ids: &[ArtifactId]) -> Result<Vec<Vec<u8>>> {
        let asked = json!({"artifacts": texts(ids)});
        let (bytes, _) = self.patiently(|| self.operations.bytes("sync_artifacts", asked.clone()))?;
        self.count(bytes.len() as u64);
        let artifacts = self.package(&bytes)?.artifacts;
        let foreign = artifacts.iter().map(|bytes| ArtifactId::of(bytes)).find(|id| !ids.contains(id));
        match foreign {
            Some(id) => Err(self.senseless(format!("it gave {id}, which nobody asked for"))),
            None => Ok(artifacts),
        }
    }

    pub(super) fn receive(&self, package: Vec<u8>) -> Result<view::SyncReceived> {
        let len = package.len() as u64;
        let received = self.patiently(|| {
            self.operations.upload("sync_receive", json!({}), "application/octet-stream", package.clone())
        })?;
        self.count(len);
        Ok(received)
    }

    /// Hands pieces of an artifact on as they come.
    pub(super) fn read(&self, id: &ArtifactId, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut len = 0;
        self.operations.download("get", json!({"artifact": id.to_string()}), &mut |part| {
            len += part.len() as u64;
            out(part);
            Ok(())
        })?;
        self.count(len);
        Ok(())
    }

    /// Brings a large artifact from another store, through a file, so that memory stays small.
    pub(super) fn fetch_large(&self, from: &Peer<'_>, id: &ArtifactId) -> Result<()> {
        let trouble = |error: std::io::Error| self.senseless(format!("a temporary file: {error}"));
        let mut file = tempfile::tempfile().map_err(trouble)?;
        let (mut failed, mut len) = (None, 0);
        from.read(id, &mut |part| {
            len += part.len() as u64;
            if failed.is_none() {
                failed = file.write_all(part).err();
            }
        })?;
        failed.map_or(Ok(()), |error| Err(trouble(error)))?;
        file.seek(SeekFrom::Start(0)).map_err(trouble)?;
        let asked = json!({"artifact": id.to_string()});
        let _: view::StoredArtifact = self.operations.upload_from("put_as", asked, file)?;
        self.count(len);
        Ok(())
    }
}

fn texts(ids: &[ArtifactId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
