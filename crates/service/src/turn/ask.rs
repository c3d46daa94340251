//! One request and its answer: a thread asks and reads, and whoever waits for it can give up at any moment.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Provider;
use crate::http::HttpError;
use crate::{Result, ServiceError};

/// How often somebody who waits looks whether to go on.
const GLANCE: Duration = Duration::from_millis(25);
/// Pieces of an answer that wait to be taken.
const PIECES_MAX: usize = 64;
const PIECE_BYTES: usize = 64 << 10;

/// What comes of a request.
#[derive(Debug)]
pub(super) enum Piece {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    /// Nobody was asked.
    Unsent(String),
    /// The connection failed after somebody was asked.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Head {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub request_id: Option<String>,
    pub content_type: Option<String>,
}

/// Why nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing for too long.
    Idle,
    /// Somebody said to stop.
    Cancelled,
}

/// A request that was sent.
pub(super) struct Asked {
    pieces: Receiver<Piece>,
}

impl Asked {
    pub fn send(provider: &Provider, body: Vec<u8>) -> Result<Self> {
        let (tell, pieces) = sync_channel(PIECES_MAX);
        let (http, url, headers) = (provider.http.clone(), provider.address.url.clone(), provider.headers()?);
        let asking = move || match http.open(&url, headers, &body) {
            Ok(opened) => {
                let head = Head {
                    status: opened.status,
                    retry_after: opened.retry_after,
                    request_id: opened.request_id,
                    content_type: opened.content_type,
                };
                if tell.send(Piece::Head(head)).is_ok() {
                    read(opened.body, &tell);
                }
            }
            Err(HttpError::NotSent(detail)) => drop(tell.send(Piece::Unsent(detail))),
            Err(HttpError::Unanswered(detail)) => drop(tell.send(Piece::Failed(detail))),
        };
        let spawned = thread::Builder::new().name("enjamb-ask".into()).spawn(asking);
        spawned.map_err(|source| ServiceError::File { path: "a thread".into(), source })?;
        Ok(Self { pieces })
    }

    /// The next piece; within `patience`, unless somebody says to stop.
    pub fn next(&self, patience: Duration, cancel: &AtomicBool) -> std::result::Result<Piece, Silence> {
        let until = Instant::now() + patience;
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(Silence::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left.min(GLANCE)) {
                Ok(piece) => return Ok(piece),
                Err(RecvTimeoutError::Timeout) if left > GLANCE => {}
                Err(RecvTimeoutError::Timeout) => return Err(Silence::Idle),
                Err(RecvTimeoutError::Disconnected) => return Ok(Piece::Failed("whoever asked is gone".into())),
            }
        }
    }
}

fn read(mut body: impl Read, tell: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let piece = match body.read(&mut buffer) {
            Ok(0) => Piece::End,
            Ok(read) => Piece::Bytes(buffer[..read].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Piece::Failed(error.to_string()),
        };
        let is_last = !matches!(piece, Piece::Bytes(_));
        // Nobody waits for it any more when the run was called off.
        if tell.send(piece).is_err() || is_last {
            return;
        }
    }
}

/// Waits, unless somebody says to stop.
pub(super) fn wait(pause: Duration, cancel: &AtomicBool) -> std::result::Result<(), Silence> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if cancel.load(Ordering::Relaxed) {
            return Err(Silence::Cancelled);
        }
        thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}
