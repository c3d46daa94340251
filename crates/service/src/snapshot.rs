//! Snapshots made on purpose: a commit that holds what its chain comes to, so that a walk can end there.
//!
//! A snapshot has the commit it was made of as its parent. Walks to the root pass over it, so they give the same bytes as
//! without it; walks to the nearest place where a conversation can begin end at it.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use enjamb_core::chain::{self, CommitKind, Stop};
use enjamb_core::{CommitId, Timestamp};
use enjamb_ledger::{LedgerError, NewArtifact, StoredCommit};

use crate::checkpoint::Counted;
use crate::{Checkpoint, Checkpointed, Content, Materialize, Materialized, PutOptions, Result, ServiceError, Store};

/// Pieces that wait to be stored. A piece is at most one delta.
const PIECES_WAITING_MAX: usize = 4;

/// A snapshot to make.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub of: CommitId,
    /// How far back it reaches.
    pub reach: Reach,
    /// `None` for the summary of the commit it is made of.
    pub summary: Option<String>,
    pub created_at: Option<Timestamp>,
}

/// How far back a snapshot reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the nearest compaction or snapshot: whatever was materialized before comes out the same after.
    Compaction,
    /// To the first commit: what follows the snapshot has the whole history again, compactions or not.
    Root,
}

impl Reach {
    const fn stop(self) -> Stop {
        match self {
            Self::Compaction => Stop::Compaction,
            Self::Root => Stop::Root,
        }
    }
}

impl Store {
    /// Commits what a chain comes to as one artifact, in bounded memory. Whose it is and where it belongs it has from the
    /// commit that it is made of.
    pub fn snapshot(&self, request: &Snapshot) -> Result<Checkpointed> {
        let tip = self.show(&request.of)?;
        let format = self.one_format(&tip, request.reach.stop())?;
        let (artifact, done) = self.put_materialized(request)?;
        let checkpoint = Checkpoint {
            format,
            summary: request.summary.clone().or_else(|| tip.summary.clone()),
            created_at: request.created_at,
            ..Checkpoint::after(&tip, CommitKind::Snapshot, Content::Stored(artifact.id))
        };
        let counted = Counted { messages: done.messages, tokens: done.tokens, method: "sum".into() };
        self.checkpoint_counted(checkpoint, artifact, counted)
    }

    /// The format that all of a chain is in. Deltas of several do not join without loss, nor those of one that is unknown.
    fn one_format(&self, tip: &StoredCommit, stop: Stop) -> Result<String> {
        let mut links = self.links(&tip.link.id, &stop, usize::MAX)?;
        links.reverse();
        let kinds: Vec<_> = links.iter().map(|link| link.kind).collect();
        let format = &tip.commit.format;
        for (link, used) in links.iter().zip(chain::contributes(&stop, &kinds)) {
            let other = if used { self.show(&link.id)?.commit.format } else { format.clone() };
            if other != *format {
                return Err(ServiceError::MixedFormats { tip: tip.link.id, formats: [format.clone(), other] });
            }
        }
        match enjamb_formats::by_id(format) {
            Some(_) => Ok(format.clone()),
            None => Err(ServiceError::UnknownFormat(format.clone())),
        }
    }

    fn put_materialized(&self, request: &Snapshot) -> Result<(NewArtifact, Materialized)> {
        let wanted = Materialize { tip: Some(request.of), stop: request.reach.stop(), format: None };
        let (pieces, waiting) = sync_channel(PIECES_WAITING_MAX);
        thread::scope(|scope| {
            let putting = scope.spawn(|| self.put(&mut Pieces::new(waiting), &PutOptions::default()));
            let done = self.materialize(&wanted, &mut |piece| send(&pieces, Piece::Bytes(piece.to_vec())));
            if done.is_ok() {
                // If nobody takes it, putting has failed and says why.
                let _ = send(&pieces, Piece::End);
            }
            drop(pieces);
            let stored = putting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (done, stored) {
                // Materializing could not go on because nothing was taken any more.
                (Err(ServiceError::Ledger(LedgerError::Output(_))), Err(error)) => Err(error),
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                (Ok(done), Ok(stored)) => Ok((NewArtifact { id: stored.id, bytes: None }, done)),
            }
        })
    }
}

enum Piece {
    Bytes(Vec<u8>),
    End,
}

fn send(pieces: &SyncSender<Piece>, piece: Piece) -> io::Result<()> {
    pieces.send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Reads what another thread sends. What it did not end is an error, never a shorter whole.
struct Pieces {
    waiting: Receiver<Piece>,
    piece: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl Pieces {
    fn new(waiting: Receiver<Piece>) -> Self {
        Self { waiting, piece: io::Cursor::default(), ended: false }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || self.ended || buffer.is_empty() {
                return Ok(read);
            }
            match self.waiting.recv() {
                Ok(Piece::Bytes(bytes)) => self.piece = io::Cursor::new(bytes),
                Ok(Piece::End) => self.ended = true,
                Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    fn commit(store: &Store, parent: Option<CommitId>, kind: CommitKind, text: &str) -> CommitId {
        let delta = format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n").into_bytes();
        let request = Checkpoint::new(Content::Bytes(delta), "generic-v1", "p");
        store.checkpoint(Checkpoint { parent, kind, ..request }).unwrap().id
    }

    fn snapshot(store: &Store, of: CommitId) -> Checkpointed {
        let request = Snapshot { of, reach: Reach::Compaction, summary: None, created_at: None };
        store.snapshot(&request).unwrap()
    }

    fn read(store: &Store, tip: CommitId, stop: Stop) -> (Vec<u8>, Materialized) {
        let mut bytes = Vec::new();
        let request = Materialize { tip: Some(tip), stop, format: None };
        let done = store.materialize(&request, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        (bytes, done.unwrap())
    }

    #[test]
    fn wherever_a_chain_has_a_snapshot_it_holds_the_same() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let kinds = [CommitKind::Delta, CommitKind::Delta, CommitKind::Compaction, CommitKind::Delta];
        let (mut plain, mut with_snapshots) = (None, None);
        for (number, kind) in kinds.into_iter().enumerate() {
            let text = format!("number {number}");
            plain = Some(commit(&store, plain, kind, &text));
            let next = commit(&store, with_snapshots, kind, &text);
            with_snapshots = Some(snapshot(&store, next).id);
            let (plain, with_snapshots) = (plain.expect("made"), with_snapshots.expect("made"));
            for stop in [Stop::Compaction, Stop::Root] {
                let (expected, counted) = read(&store, plain, stop);
                let (found, counted_too) = read(&store, with_snapshots, stop);
                assert_eq!(String::from_utf8(found), String::from_utf8(expected), "{number} {stop}");
                let counts = |done: &Materialized| (done.messages, done.tokens);
                assert_eq!(counts(&counted_too), counts(&counted), "{number} {stop}");
            }
        }
    }

    #[test]
    fn a_snapshot_may_be_larger_than_any_record() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let long = "x".repeat(enjamb_core::limits::ARTIFACT_INLINE_BYTES_MAX / 2);
        let tip = (0..4).fold(None, |parent, _| Some(commit(&store, parent, CommitKind::Delta, &long)));
        let tip = tip.expect("a chain");
        let made = snapshot(&store, tip);
        assert_eq!(store.get_small(&made.artifact).unwrap(), read(&store, tip, Stop::Root).0);
        assert!(read(&store, made.id, Stop::Compaction).1.commits == 1);
    }

    #[test]
    fn what_was_not_ended_is_no_whole() {
        let (pieces, waiting) = sync_channel(9);
        for bytes in [&b"ab"[..], b"", b"c"] {
            send(&pieces, Piece::Bytes(bytes.to_vec())).unwrap();
        }
        let mut reader = Pieces::new(waiting);
        let mut three = [0; 3];
        reader.read_exact(&mut three).unwrap();
        assert_eq!(&three, b"abc");
        drop(pieces);
        assert_eq!(reader.read(&mut three).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
