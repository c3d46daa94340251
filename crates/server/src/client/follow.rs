//! Following a stream behind a server: when the connection breaks, it goes on where it was.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::Value;

use super::{Client, ClientError, Download, Result};

/// How long after a break a new connection is tried, and how often in a row.
const PAUSE: Duration = Duration::from_millis(200);
const TRIES_MAX: u32 = 25;

/// Events as they come, each once and in order.
pub struct Follow {
    client: Client,
    operation: &'static str,
    params: Value,
    /// The id of the last event that was handed out.
    last: Option<String>,
    open: Option<BufReader<Owned>>,
}

/// An event: its id, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: String,
    pub json: String,
}

/// A download that is read by itself.
struct Owned(Download);

impl Read for Owned {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.body.as_reader().read(buffer)
    }
}

impl Client {
    /// Follows what an operation gives, after an event if one is named.
    pub fn follow(&self, operation: &'static str, params: Value, after: Option<u64>) -> Follow {
        let last = after.map(|id| id.to_string());
        Follow { client: self.clone(), operation, params, last, open: None }
    }
}

impl Follow {
    /// The next event. Waits for it, and connects anew when the connection breaks.
    pub fn wait(&mut self) -> Result<Event> {
        let mut tries = 0;
        loop {
            match self.read() {
                Ok(Some(event)) => {
                    self.last = Some(event.id.clone());
                    return Ok(event);
                }
                Err(refused @ ClientError::Refused(_)) => return Err(refused),
                Err(error) if tries == TRIES_MAX => return Err(error),
                Ok(None) | Err(_) => {
                    self.open = None;
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// One event of the connection there is; `None` when it ended.
    fn read(&mut self) -> Result<Option<Event>> {
        if self.open.is_none() {
            let headers: Vec<_> = self.last.as_deref().map(|last| ("last-event-id", last)).into_iter().collect();
            let download = self.client.download(self.operation, self.params.clone(), &headers)?;
            self.open = Some(BufReader::new(Owned(download)));
        }
        let Some(reader) = &mut self.open else { return Ok(None) };
        let broken = |error: std::io::Error| ClientError::Unanswered {
            at: String::new(),
            detail: error.to_string(),
            sent: false,
        };
        let mut event = Event { id: String::new(), json: String::new() };
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).map_err(broken)? == 0 {
                return Ok(None);
            }
            match line.trim_end_matches(['\r', '\n']).split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("data", data)) if event.json.is_empty() => event.json = data.to_owned(),
                Some(("data", data)) => event.json = format!("{}\n{data}", event.json),
                _ if line.trim().is_empty() && !event.id.is_empty() => return Ok(Some(event)),
                // A comment, or an event without an id: that we lagged, which the connection's end says again.
                _ if line.trim().is_empty() => event.json.clear(),
                _ => {}
            }
        }
    }
}
