//! Bodies between threads that block and connections that must not.

use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Pieces that wait on their way.
pub const PIECES: usize = 4;

/// A body that another thread, or task, is writing.
pub struct Receiving {
    first: Option<io::Result<Bytes>>,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl Receiving {
    /// A body of the pieces that come, after one that has come already.
    pub fn new(first: Option<io::Result<Bytes>>, pieces: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { first, pieces }
    }
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first.map(Frame::data)));
        }
        self.pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// What a body brings, for a thread that blocks until it comes.
pub struct Reading {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Reading {
    /// A reader, and where to send what it is to read.
    pub fn pair() -> (mpsc::Sender<io::Result<Bytes>>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES);
        (sender, Self { pieces, piece: Bytes::new() })
    }
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let read = self.piece.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.piece.split_to(read));
        Ok(read)
    }
}

/// What a future comes to at the first look or the second. A body that came with its head is handed over in between.
pub async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut is_second = false;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if std::mem::replace(&mut is_second, true) => Poll::Ready(None),
        Poll::Pending => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// Passes a body on, piece by piece. One that stalls, breaks off or is too long becomes an error, never an end.
pub async fn pass_on(body: axum::body::Body, to: mpsc::Sender<io::Result<Bytes>>, idle: Duration, bytes_max: u64) {
    use http_body_util::BodyExt;
    let mut body = body;
    let mut bytes = 0;
    loop {
        let piece = match tokio::time::timeout(idle, body.frame()).await {
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the body stalled")),
            Ok(None) => return,
            Ok(Some(Err(error))) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(data),
                Err(_) => continue,
            },
        };
        bytes += piece.as_ref().map_or(0, |data| data.len() as u64);
        let piece =
            if bytes > bytes_max { Err(io::Error::new(io::ErrorKind::FileTooLarge, "too long")) } else { piece };
        let is_end = piece.is_err();
        if to.send(piece).await.is_err() || is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use super::*;

    #[test]
    fn nobody_looks_a_third_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert_eq!(at_once(pin!(ready(1))).await, Some(1));
            assert_eq!(at_once(pin!(tokio::task::yield_now())).await, Some(()));
            assert_eq!(at_once(pin!(pending::<()>())).await, None);
        });
    }
}
