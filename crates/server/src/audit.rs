//! Who did what: frames in the stream `audit/access`, for whoever comes with a token.
//!
//! What the owner does is not told: they could open the store without us. Records are gathered and appended many at a
//! time, so that an answer does not wait for them; a kill may lose those of the last moment.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use enjamb_core::StreamId;
use enjamb_service::{Append, DraftLine, Store};
use serde::Serialize;

pub use enjamb_service::AUDIT_KIND as KIND;

const STREAM: &str = "audit/access";
/// Records that wait to be written. Whoever comes when it is full waits as well.
const WAITING_MAX: usize = 4_096;
const GATHER: Duration = Duration::from_millis(100);
const TOGETHER_MAX: usize = 500;

/// One thing that somebody did.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub operation: String,
    pub path: String,
    pub status: u16,
    pub token_id: Option<String>,
    pub principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_actor: Option<String>,
    pub request_id: String,
}

impl Entry {
    /// Somebody at the unix socket who is not its owner.
    pub fn refused(uid: Option<u32>) -> Self {
        Self {
            operation: "connect".into(),
            path: "sock".into(),
            status: 403,
            token_id: None,
            principal: None,
            claimed_actor: uid.map(|uid| format!("uid {uid}")),
            request_id: String::new(),
        }
    }
}

pub struct Audit {
    store: Arc<Store>,
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    sender: SyncSender<Entry>,
    thread: JoinHandle<()>,
}

impl Audit {
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, writer: Mutex::default() }
    }

    /// Notes an entry, and waits while too many wait to be written.
    pub fn note(&self, entry: Entry) {
        // An error says that the writer is gone, which only happens when the server ends.
        let _ = self.sender().send(entry);
    }

    /// Notes an entry, unless too many wait to be written; then it is given back.
    pub fn try_note(&self, entry: Entry) -> Option<Entry> {
        match self.sender().try_send(entry) {
            Err(TrySendError::Full(entry)) => Some(entry),
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
        }
    }

    /// The way to the writer, who begins with the first entry.
    fn sender(&self) -> SyncSender<Entry> {
        let mut writer = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        writer.get_or_insert_with(|| Writer::start(self.store.clone())).sender.clone()
    }

    /// Writes what waits, and returns when it is on disk.
    pub fn finish(&self) {
        let writer = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(Writer { sender, thread }) = writer {
            drop(sender);
            // It has said itself what went wrong.
            let _ = thread.join();
        }
    }
}

impl Writer {
    fn start(store: Arc<Store>) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        Self { sender, thread: std::thread::spawn(move || write_all(&store, &receiver)) }
    }
}

fn write_all(store: &Store, entries: &Receiver<Entry>) {
    while let Ok(first) = entries.recv() {
        let mut all = vec![first];
        std::thread::sleep(GATHER);
        while all.len() < TOGETHER_MAX {
            match entries.recv_timeout(Duration::ZERO) {
                Ok(entry) => all.push(entry),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Err(error) = store.append(batch(&all)) {
            tracing::error!(%error, entries = all.len(), "cannot write the audit stream");
        }
    }
}

fn batch(entries: &[Entry]) -> Append {
    let line = |(number, entry): (usize, &Entry)| {
        let mut json = serde_json::to_value(entry).expect("an entry is texts and numbers");
        json["type"] = "access_recorded".into();
        DraftLine { line: number as u64 + 1, json: json.to_string().into_bytes() }
    };
    let stream: Option<StreamId> = STREAM.parse().ok();
    Append { lines: entries.iter().enumerate().map(line).collect(), stream, ..Append::default() }
}
