//! Replaying a stream: every frame in order, its place in the chain checked and what it says decoded.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use enjamb_core::frame::Frame;
use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Ledger, StoredFrame};

use crate::{Result, Store};

/// Pages that are read before they are asked for.
const PAGES_AHEAD: usize = 2;

type Page = Result<Vec<StoredFrame>>;

impl Store {
    /// Hands out the frames of a span of a stream, as far as there are any, and says how many there were. What is long is
    /// read by one thread and decoded by another; a few pages are in memory at a time.
    pub fn replay(
        &self,
        stream: &StreamId,
        span: Range<u64>,
        visit: &mut dyn FnMut(Frame) -> Result<()>,
    ) -> Result<u64> {
        let first = self.page(stream, &span)?;
        let count = first.len() as u64;
        let is_all = first.len() < limits::PAGE_ROWS_MAX;
        decode(first, visit)?;
        if is_all {
            return Ok(count);
        }
        let (send, pages) = sync_channel(PAGES_AHEAD);
        let rest = span.start + count..span.end;
        std::thread::scope(|scope| {
            scope.spawn(move || self.read_ahead(stream, rest, &send));
            Ok(count + each(pages, visit)?)
        })
    }

    fn read_ahead(&self, stream: &StreamId, mut span: Range<u64>, send: &SyncSender<Page>) {
        while !span.is_empty() {
            let page = self.page(stream, &span);
            let count = page.as_ref().map_or(0, Vec::len);
            span.start += count as u64;
            // Nobody listens any more when what was read before could not be used.
            if send.send(page).is_err() || count < limits::PAGE_ROWS_MAX {
                return;
            }
        }
    }

    fn page(&self, stream: &StreamId, span: &Range<u64>) -> Page {
        let limit = span.end.saturating_sub(span.start).min(limits::PAGE_ROWS_MAX as u64);
        Ok(self.ledger.frames(stream, span.start, limit as usize)?)
    }
}

fn each(pages: Receiver<Page>, visit: &mut dyn FnMut(Frame) -> Result<()>) -> Result<u64> {
    let mut count = 0;
    for page in pages {
        let page = page?;
        count += page.len() as u64;
        decode(page, visit)?;
    }
    Ok(count)
}

fn decode(page: Vec<StoredFrame>, visit: &mut dyn FnMut(Frame) -> Result<()>) -> Result<()> {
    page.into_iter().try_for_each(|stored| visit(Frame::parse(&stored.json)?))
}

#[cfg(test)]
mod tests {
    use enjamb_core::StreamKind;
    use enjamb_core::frame::{Body, OutputTextDelta};

    use enjamb_testkit::home::Home;

    use super::*;
    use crate::{Env, ServiceError};

    #[test]
    fn every_frame_of_a_span_comes_once_and_in_order() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let stream = StreamId::new(StreamKind::Session, "s").unwrap();
        let frames = 2 * limits::PAGE_ROWS_MAX as u64 + 500;
        let said: Vec<Body> = (0..frames).map(|at| OutputTextDelta { delta: at.to_string() }.into()).collect();
        said.chunks(500).for_each(|some| drop(store.append_bodies(&stream, some, Vec::new()).unwrap()));
        let seqs = |span: Range<u64>| {
            let mut seqs = Vec::new();
            let count = store.replay(&stream, span, &mut |frame| {
                seqs.push(frame.seq);
                Ok(())
            });
            assert_eq!(count.unwrap(), seqs.len() as u64);
            seqs
        };
        assert_eq!(seqs(0..u64::MAX), (0..frames).collect::<Vec<_>>());
        assert_eq!(seqs(7..2_003), (7..2_003).collect::<Vec<_>>());
        assert_eq!((seqs(5..5), seqs(frames..u64::MAX)), (Vec::new(), Vec::new()));
        let mut left = 1_700;
        let stopped = store.replay(&stream, 0..u64::MAX, &mut |_| {
            left -= 1;
            if left == 0 { Err(ServiceError::UnknownFormat("x".into())) } else { Ok(()) }
        });
        assert!(stopped.is_err() && left == 0, "who cannot go on is not handed more");
    }
}
