//! What a window comes to by itself: its pieces, what each says, its digest, its secrets. Nothing here asks the store, so
//! it can be done ahead of time.

use std::ops::Range;

use enjamb_core::ArtifactId;
use enjamb_core::chain::CommitKind;
use enjamb_core::redact::secrets;
use enjamb_ledger::segment::{Cut, cut};

use super::cut::{Piece, pieces};
use super::told::Told;
use super::window::{self, Record, Understood};

pub(super) struct Judged {
    pub bytes: Vec<u8>,
    pub pieces: Vec<JudgedPiece>,
    /// Lines of the window, counted from one, that hold something else than a record, and what.
    pub damage: Vec<(u64, String)>,
    /// How many lines the pieces have.
    pub lines: u64,
}

/// Bytes that become a commit.
pub(super) struct JudgedPiece {
    pub range: Range<usize>,
    pub kind: CommitKind,
    pub trigger: &'static str,
    pub is_turn: bool,
    /// `None` where the bytes were not understood.
    pub told: Option<Told>,
    pub records: Vec<Record>,
    pub content: Content,
}

/// What is told of bytes, whatever they say.
pub(super) struct Content {
    pub artifact: ArtifactId,
    pub bytes: u64,
    /// The rule of each secret.
    pub secrets: Vec<&'static str>,
    /// The pieces that they are stored as.
    pub cuts: Vec<Cut>,
}

impl Content {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let secrets = secrets(bytes).into_iter().map(|secret| secret.rule).collect();
        Self { artifact: ArtifactId::of(bytes), bytes: bytes.len() as u64, secrets, cuts: cut(bytes) }
    }
}

impl Judged {
    /// Where what was judged ends: what follows belongs to the next window.
    pub(super) fn end(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.range.end)
    }
}

pub(super) fn judge(format: &str, bytes: Vec<u8>, at_end: bool) -> Judged {
    let understood = enjamb_formats::by_id(format).and_then(|format| window::understand(format, &bytes));
    let Some(Understood { reading, records, ends, damage }) = understood else { return opaque(bytes) };
    let pieces = pieces(reading, &ends, at_end);
    let end = pieces.last().map_or(0, |piece| piece.range.end);
    let damage = damage.into_iter().filter(|(at, ..)| *at < end).map(|(_, line, detail)| (line, detail)).collect();
    let mut records = records.into_iter().peekable();
    let judged = pieces.into_iter().map(|piece| {
        let Piece { range, kind, trigger, is_turn, conversation } = piece;
        let records = std::iter::from_fn(|| records.next_if(|record| record.at < range.end)).collect();
        let content = Content::of(&bytes[range.clone()]);
        JudgedPiece { range, kind, trigger, is_turn, told: Some(Told::of(&conversation)), records, content }
    });
    let pieces = judged.collect();
    let lines = count_lines(&bytes[..end]);
    Judged { bytes, pieces, damage, lines }
}

/// A window that no format reads is one piece.
fn opaque(bytes: Vec<u8>) -> Judged {
    let piece = JudgedPiece {
        range: 0..bytes.len(),
        kind: CommitKind::Delta,
        trigger: "explicit",
        is_turn: false,
        told: None,
        records: Vec::new(),
        content: Content::of(&bytes),
    };
    let lines = count_lines(&bytes);
    Judged { bytes, pieces: vec![piece], damage: Vec::new(), lines }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
