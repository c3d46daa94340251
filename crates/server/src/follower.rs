//! Somebody who follows, on a connection of their own.
//!
//! A follower first reads the log page by page, then listens to the hub. One that falls behind the hub's ring reads the
//! log again; one that takes nothing for long, or is far behind, is told so (`event: lagged`) and cut off. A follower has
//! no buffers: what it is being sent is one piece, which all who follow the same share. So what a follower costs is
//! bounded, and no frame is left out or sent twice.

use std::sync::Arc;
use std::time::Duration;

use enjamb_ledger::Ledger;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, Interval, interval_at};

use crate::hub::Batch;
use crate::limit::Held;
use crate::right_of_way::RightOfWay;
use crate::space::Space;
use crate::sse::{Follow, Piece, Subject};

/// How often it is asked whether a caller may still listen.
const RECHECK: Duration = Duration::from_secs(1);

/// How long followers are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub heartbeat: Duration,
    /// A follower that takes nothing for so long is cut off.
    pub stuck: Duration,
    /// A follower so many frames behind is cut off.
    pub behind_max: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(15), stuck: Duration::from_secs(10), behind_max: 100_000 }
    }
}

/// Whether a caller may still listen; asked for tokens only, which can be taken away.
pub type Allowed = Box<dyn Fn() -> bool + Send + Sync>;

/// Somebody who follows.
pub struct Follower {
    pub space: Arc<Space>,
    pub follow: Follow,
    pub pace: Pace,
    pub allowed: Option<Allowed>,
    pub ending: watch::Receiver<bool>,
    /// Of appends, before this one if it is one of a crowd.
    pub right_of_way: Arc<RightOfWay>,
    /// Held for as long as it goes on.
    #[allow(dead_code, reason = "it is held, not read")]
    pub slot: Option<Held>,
}

/// Why following ended.
enum End {
    /// The other side is gone, we are ending, or the caller may listen no longer.
    Quiet,
    /// Too slow.
    Lagged,
}

type Step<T> = std::result::Result<T, End>;

impl Follower {
    /// Sends the head of an answer, and then events until one side has enough. One of a crowd is told with the others.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin, head: Vec<u8>, is_crowded: bool) {
        let mut line = Line { stream, follower: self, is_crowded };
        let greeting: &[u8] = if line.follower.follow.filter.seed { b"" } else { b"retry: 2000\n\n" };
        let begun = line.send(&[&head, greeting].concat()).await;
        let ended = match begun {
            Ok(()) => line.follow_on().await,
            ended => ended,
        };
        if let Err(End::Lagged) = ended {
            let last = line.follower.follow.next.saturating_sub(1);
            let told = format!("event: lagged\ndata: {{\"last_id\":{last}}}\n\n");
            // Whoever is gone does not miss it.
            let _ = line.send(told.as_bytes()).await;
        }
        let _ = line.stream.shutdown().await;
    }

    fn check_allowed(&self) -> Step<()> {
        if self.allowed.as_ref().is_none_or(|allowed| allowed()) { Ok(()) } else { Err(End::Quiet) }
    }

    /// Replaying a long history is no sign of being slow: only who is pushed out of the ring is looked at.
    fn check_behind(&self) -> Step<()> {
        let ledger = self.space.store.ledger();
        let end = match &self.follow.filter.subject {
            Subject::Everything { .. } => ledger.position().ok(),
            Subject::Stream(stream) => ledger.stream(stream).ok().flatten().map(|stream| stream.next_seq),
        };
        let behind = end.unwrap_or(0).saturating_sub(self.follow.next);
        if self.pace.behind_max > 0 && behind > self.pace.behind_max { Err(End::Lagged) } else { Ok(()) }
    }

    /// The next page of what is in the log, and whether there may be more.
    async fn page(&self) -> Step<(Piece, bool)> {
        let (space, follow) = (self.space.clone(), self.follow.clone());
        let Ok(_turn) = self.space.replays.acquire().await else { return Err(End::Quiet) };
        match tokio::task::spawn_blocking(move || space.pages.read(&space.store, &follow)).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(_)) | Err(_) => {
                tracing::error!(subject = ?self.follow.filter.subject, "cannot read the log for a follower");
                Err(End::Quiet)
            }
        }
    }
}

/// A follower and the connection that it is at the end of.
struct Line<S> {
    stream: S,
    follower: Follower,
    is_crowded: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    async fn follow_on(&mut self) -> Step<()> {
        loop {
            while self.read_page().await? {}
            let (hub, is_crowded) = (self.follower.space.hub.clone(), self.is_crowded);
            let listening = tokio::task::spawn_blocking(move || hub.listen(is_crowded)).await;
            let Ok(Ok(mut live)) = listening else { return Err(End::Quiet) };
            // What came between the last page and the listening.
            if !self.read_page().await? {
                self.listen(&mut live).await?;
            }
        }
    }

    /// Sends a page of what is in the log, and says whether there may be more.
    async fn read_page(&mut self) -> Step<bool> {
        let (piece, more) = self.follower.page().await?;
        self.pass_on(piece).await?;
        self.follower.check_allowed()?;
        Ok(more)
    }

    /// Sends what the hub tells. Returns when the log has to be read again.
    async fn listen(&mut self, live: &mut broadcast::Receiver<Arc<Batch>>) -> Step<()> {
        let mut beat = every(self.follower.pace.heartbeat);
        let mut check = self.follower.allowed.as_ref().map(|_| every(RECHECK));
        loop {
            tokio::select! {
                // Mostly there is something to send, and then what comes after it need not be asked.
                biased;
                () = tick(&mut check) => self.follower.check_allowed()?,
                told = live.recv() => match told {
                    Ok(batch) if batch.is_gap() => return self.follower.check_behind(),
                    Ok(batch) => {
                        let follow = &self.follower.follow;
                        let piece = batch.piece(&follow.filter, follow.next);
                        drop(batch);
                        if self.is_crowded {
                            // It holds up the thread, which all of the crowd share, and nobody else.
                            self.follower.right_of_way.give_way();
                        }
                        self.pass_on(piece).await?;
                    }
                    Err(RecvError::Lagged(_)) => return self.follower.check_behind(),
                    Err(RecvError::Closed) => return Err(End::Quiet),
                },
                _ = beat.tick() => self.send(b": ping\n\n").await?,
                _ = self.follower.ending.changed() => return Err(End::Quiet),
                () = gone(&mut self.stream) => return Err(End::Quiet),
            }
        }
    }

    async fn pass_on(&mut self, piece: Piece) -> Step<()> {
        if *self.follower.ending.borrow() {
            return Err(End::Quiet);
        }
        let follow = &mut self.follower.follow;
        follow.next = piece.last.map_or(follow.next, |last| last + 1);
        if piece.events.is_empty() { Ok(()) } else { self.send(&piece.events).await }
    }

    /// Sends some bytes. Who takes them, but not soon enough, is told so; for who takes none at all, the connection
    /// itself breaks off.
    async fn send(&mut self, bytes: &[u8]) -> Step<()> {
        let began = Instant::now();
        tokio::select! {
            biased;
            wrote = self.stream.write_all(bytes) => wrote.map_err(|_| End::Quiet)?,
            _ = self.follower.ending.wait_for(|ending| *ending) => return Err(End::Quiet),
        }
        // What is encrypted may wait for more to come.
        self.stream.flush().await.map_err(|_| End::Quiet)?;
        if began.elapsed() > self.follower.pace.stuck { Err(End::Lagged) } else { Ok(()) }
    }
}

/// Returns when the other side has closed the connection. It has nothing more to say, so whatever it says is passed over.
async fn gone(stream: &mut (impl AsyncRead + Unpin)) {
    let mut some = [0; 64];
    while stream.read(&mut some).await.is_ok_and(|read| read > 0) {}
}

fn every(period: Duration) -> Interval {
    interval_at(Instant::now() + period, period)
}

async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}
