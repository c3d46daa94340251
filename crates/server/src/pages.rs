//! Pages of the log for followers who catch up. A page that is full never changes, so many who come at once share it.

use std::collections::VecDeque;
use std::sync::Mutex;

use enjamb_ledger::Ledger;
use enjamb_service::Store;

use crate::problem::Result;
use crate::sse::{Filter, Follow, Live, Piece, Subject};

/// Frames of a page, and their bytes, as far as whole frames allow. Who takes nothing holds up one of these.
const FRAMES: usize = 64;
const BYTES: usize = 16 << 10;
/// Pages that are kept for whoever comes next.
const KEPT_MAX: usize = 32;

struct Kept {
    filter: Filter,
    next: u64,
    piece: Piece,
}

#[derive(Default)]
pub struct Pages(Mutex<VecDeque<Kept>>);

impl Pages {
    /// The next frames of what is followed, at most a page of them, and whether there may be more.
    pub fn read(&self, store: &Store, follow: &Follow) -> Result<(Piece, bool)> {
        if let Some(piece) = self.known(follow) {
            return Ok((piece, true));
        }
        let (piece, more) = page(store, follow)?;
        if more {
            let kept = Kept { filter: follow.filter.clone(), next: follow.next, piece: piece.clone() };
            let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            all.truncate(KEPT_MAX - 1);
            all.push_front(kept);
        }
        Ok((piece, more))
    }

    fn known(&self, follow: &Follow) -> Option<Piece> {
        let all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = all.iter().find(|kept| kept.next == follow.next && kept.filter == follow.filter);
        found.map(|kept| kept.piece.clone())
    }
}

fn page(store: &Store, follow: &Follow) -> Result<(Piece, bool)> {
    let ledger = store.ledger();
    let mut found: Vec<Live> = Vec::new();
    let mut bytes = 0;
    match &follow.filter.subject {
        Subject::Everything { .. } => {
            ledger.each_frame(follow.next, &mut |number, frame| {
                bytes += frame.json.len();
                found.push(Live::of(number, frame));
                Ok(found.len() < FRAMES && bytes < BYTES)
            })?;
        }
        Subject::Stream(stream) => {
            for frame in ledger.frames(stream, follow.next, FRAMES)? {
                if bytes >= BYTES {
                    break;
                }
                bytes += frame.json.len();
                found.push(Live::new(0, stream.clone(), frame.seq, frame.json));
            }
        }
    }
    let more = found.len() >= FRAMES || bytes >= BYTES;
    let mut piece = follow.filter.cut(&found, follow.next);
    // Frames that are no part of what is followed are passed over for good.
    if let (Subject::Everything { .. }, Some(last)) = (&follow.filter.subject, found.last()) {
        piece.last = Some(last.number);
    }
    Ok((piece, more))
}
