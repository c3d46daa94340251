//! What a task has written: how much, how much of it is kept, and what has not been told of yet.

use std::fs::File;

use enjamb_core::ArtifactId;
use enjamb_core::frame::{OutputStream, TaskOutputDelta};
use serde_json::{Value, json};

use super::dir::TaskDir;
use crate::{PutOptions, Result, Store};

/// Bytes of output that a frame shows.
const PREVIEW_BYTES_MAX: usize = 8 << 10;

/// One output of a task.
pub(super) struct Output {
    pub stream: OutputStream,
    pub total: u64,
    pub stored: u64,
    /// Where what has not been told of begins.
    told: u64,
    preview: Vec<u8>,
}

/// Some bytes that were written at once.
pub(super) struct Part {
    pub len: u64,
    pub kept: u64,
    /// The first of them, as many as a frame may show.
    pub head: Vec<u8>,
}

impl Part {
    pub(super) fn of(bytes: &[u8], kept: u64) -> Self {
        Self { len: bytes.len() as u64, kept, head: bytes[..bytes.len().min(PREVIEW_BYTES_MAX)].to_vec() }
    }
}

impl Output {
    pub(super) fn new(stream: OutputStream) -> Self {
        Self { stream, total: 0, stored: 0, told: 0, preview: Vec::new() }
    }

    pub(super) fn add(&mut self, part: &Part) {
        self.total += part.len;
        self.stored += part.kept;
        let room = PREVIEW_BYTES_MAX - self.preview.len();
        self.preview.extend_from_slice(&part.head[..room.min(part.head.len())]);
    }

    /// A frame about what came since the last one; nothing when nothing did.
    pub(super) fn delta(&mut self, task: &str) -> Option<TaskOutputDelta> {
        if self.total == self.told {
            return None;
        }
        let (offset, bytes) = (self.told, self.total - self.told);
        self.told = self.total;
        let chunk = String::from_utf8_lossy(&std::mem::take(&mut self.preview)).into_owned();
        let path = format!("tasks/{task}/{}", self.stream.as_str());
        let log = json!({"log": {
            "id": null, "path": path, "offset_bytes": offset, "bytes": bytes, "bytes_total": self.total,
            "bytes_stored": self.stored, "truncated": self.stored < self.total,
        }});
        Some(TaskOutputDelta {
            task_id: task.to_owned(),
            stream: self.stream.clone(),
            chunk,
            artifacts: Some(log.into()),
        })
    }
}

impl Store {
    /// Stores what a task wrote, and says where. Totals are known to whoever counted them.
    pub(super) fn keep_log(&self, dir: &TaskDir, stream: &OutputStream, total: Option<u64>) -> Result<Option<Value>> {
        let mut file = match File::open(dir.log(stream)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|source| dir.failed(source))?,
        };
        let stored = self.put(&mut file, &PutOptions::default())?;
        let total = total.unwrap_or(stored.len).max(stored.len);
        Ok(Some(log_json(&stored.id, total, stored.len)))
    }
}

fn log_json(id: &ArtifactId, total: u64, stored: u64) -> Value {
    json!({
        "id": id.to_hex(), "path": null, "bytes_total": total, "bytes_stored": stored, "truncated": stored < total,
        "error": null,
    })
}
