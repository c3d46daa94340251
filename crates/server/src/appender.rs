//! Appends of requests: one thread stores, with one sync, what came while it stored what came before.
//!
//! A request that only appends waits for nothing but the disk, so it needs no thread to wait on: it leaves its batch here
//! and goes on when it is told that the batch is on disk.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use enjamb_ledger::{Appended, Batch, Ledger};
use enjamb_service::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Batches that are stored together; those who come first are not to wait for all who come after.
const TOGETHER_MAX: usize = 256;

type Stored = enjamb_ledger::Result<Appended>;

struct Waiting {
    batch: Batch,
    answer: oneshot::Sender<Stored>,
}

struct Writer {
    queue: Sender<Waiting>,
    thread: JoinHandle<()>,
}

/// Who stores what requests append to one store. How many wait is bounded by how many requests run.
pub struct Appender {
    store: Arc<Store>,
    writer: Mutex<Option<Writer>>,
}

impl Appender {
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, writer: Mutex::default() }
    }

    /// Hands in a batch; the answer comes when it is on disk, or never if the writer died of it.
    pub fn append(&self, batch: Batch) -> oneshot::Receiver<Stored> {
        let (answer, answered) = oneshot::channel();
        let mut writer = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let writer = writer.get_or_insert_with(|| Writer::start(self.store.clone()));
        // Where nobody takes it the answer is dropped, which whoever waits for it sees.
        let _ = writer.queue.send(Waiting { batch, answer });
        answered
    }

    /// Stores what waits, and returns when it is on disk.
    pub fn finish(&self) {
        let writer = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(Writer { queue, thread }) = writer {
            drop(queue);
            // Those who waited for it have been told.
            let _ = thread.join();
        }
    }
}

impl Writer {
    fn start(store: Arc<Store>) -> Self {
        let (queue, waiting) = channel();
        let requests = Handle::try_current().ok();
        Self { queue, thread: std::thread::spawn(move || store_all(&store, &waiting, requests.as_ref())) }
    }
}

fn store_all(store: &Store, waiting: &Receiver<Waiting>, requests: Option<&Handle>) {
    while let Ok(first) = waiting.recv() {
        let came = std::iter::once(first).chain(waiting.try_iter().take(TOGETHER_MAX - 1));
        let (batches, answers): (Vec<_>, Vec<_>) = came.map(|one| (one.batch, one.answer)).unzip();
        let stored = store.ledger().append_all(batches);
        match requests {
            // From here each of them would be a thread to be woken, while the next to be stored wait. From one of those
            // threads it is merely one more thing to do.
            Some(requests) if answers.len() > 1 => drop(requests.spawn(async { tell(answers, stored) })),
            _ => tell(answers, stored),
        }
    }
}

fn tell(answers: Vec<oneshot::Sender<Stored>>, stored: Vec<Stored>) {
    for (answer, stored) in answers.into_iter().zip(stored) {
        // Whoever has gone away in the meantime does not miss it.
        let _ = answer.send(stored);
    }
}

#[cfg(test)]
mod tests {
    use enjamb_service::{Append, DraftLine, Env};
    use enjamb_testkit::home::Home;

    use super::*;

    #[test]
    fn each_is_told_of_its_own() {
        let home = Home::new();
        let store = Arc::new(Store::create(&home.store(), Env::system()).unwrap());
        let appender = Appender::new(store.clone());
        let batch = |expected_seq| {
            let lines = vec![DraftLine { line: 1, json: br#"{"type":"said"}"#.to_vec() }];
            let stream = "note/a".parse().ok();
            store.append_batch(Append { lines, stream, expected_seq, ..Append::default() }).unwrap()
        };
        let wanted = [None, Some(9), None, Some(2)];
        let answers: Vec<_> = wanted.into_iter().map(|expected| appender.append(batch(expected))).collect();
        appender.finish();
        let told = answers.into_iter().map(|answer| match answer.blocking_recv().unwrap() {
            Ok(appended) => Ok(appended.frames[0].seq),
            Err(error) => Err(error.code()),
        });
        assert_eq!(told.collect::<Vec<_>>(), [Ok(0), Err("seq-conflict"), Ok(1), Ok(2)]);
        assert!(appender.append(batch(Some(3))).blocking_recv().unwrap().is_ok(), "it begins again");
        appender.finish();
    }
}
