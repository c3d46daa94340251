//! Where a transcript is cut into commits: before what a person asks, and around compactions.
//!
//! A piece is judged by its own window of the file alone, so that reading on from any cut gives the same commits.

use std::ops::Range;

use enjamb_core::chain::CommitKind;
use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing, attribute};
use enjamb_formats::Reading;

/// Pieces that one window gives at most: all of them and the frame that names them fit one batch.
pub(super) const PIECES_MAX: usize = 400;

/// Consecutive bytes of a window that become one commit.
#[derive(Debug)]
pub(super) struct Piece {
    pub range: Range<usize>,
    pub kind: CommitKind,
    pub trigger: &'static str,
    /// Begins with what a person asks.
    pub is_turn: bool,
    pub conversation: Conversation,
}

/// What a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Turn,
    Compaction,
    /// What follows a compaction: the turn that it interrupted goes on.
    After,
}

/// Cuts a window, whose items end at `ends`, into pieces. The last one may go on after the window, so unless the file ends
/// here it is left for the next window, if there is any other.
pub(super) fn pieces(reading: Reading, ends: &[usize], at_end: bool) -> Vec<Piece> {
    let Some(&len) = ends.last() else { return Vec::new() };
    let mut starts = starts(&reading, ends);
    if starts.first().is_none_or(|(at, _)| *at > 0) {
        starts.insert(0, (0, Start::After));
    }
    let mut kept = starts.len();
    if !at_end && kept > 1 {
        kept -= 1;
    }
    kept = kept.min(PIECES_MAX);
    let mut pieces: Vec<Piece> = (0..kept)
        .map(|index| {
            let (begin, start) = starts[index];
            let (end, next) = starts.get(index + 1).map_or((len, None), |(at, start)| (*at, Some(*start)));
            let kind = if start == Start::Compaction { CommitKind::Compaction } else { CommitKind::Delta };
            let (trigger, is_turn) = (trigger(start, next), start == Start::Turn);
            Piece { range: begin..end, kind, trigger, is_turn, conversation: Conversation::default() }
        })
        .collect();
    share_out(reading, &mut pieces);
    pieces
}

fn trigger(start: Start, next: Option<Start>) -> &'static str {
    match (start, next) {
        (Start::Compaction, _) | (_, Some(Start::Compaction)) => "compaction",
        (_, Some(Start::Turn)) => "turn_boundary",
        (_, Some(Start::After)) | (_, None) => "explicit",
    }
}

/// The line starts at which something begins, in order, each once.
fn starts(reading: &Reading, ends: &[usize]) -> Vec<(usize, Start)> {
    let line_start = |offset: u64| match ends.partition_point(|end| *end as u64 <= offset) {
        0 => 0,
        index => ends[index - 1],
    };
    let mut placed: Vec<(usize, &Entry)> =
        reading.placed().map(|(at, entry)| (line_start(at.offset()), entry)).collect();
    placed.sort_by_key(|(at, _)| *at);
    let all_aside = placed.iter().all(|(_, entry)| !entry.is_message() || entry.standing == Standing::Sidechain);
    let mut starts: Vec<(usize, Start)> = Vec::new();
    for (at, entry) in placed {
        let last = starts.last().copied();
        if last.is_some_and(|(last, _)| last == at) {
            continue;
        }
        match last {
            _ if is_compaction(entry) => starts.push((at, Start::Compaction)),
            _ if begins_turn(entry, all_aside) => starts.push((at, Start::Turn)),
            Some((_, Start::Compaction)) => starts.push((at, Start::After)),
            _ => {}
        }
    }
    starts
}

fn is_compaction(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| match block {
        Block::Compaction { .. } => true,
        Block::Verbatim(verbatim) => matches!(verbatim.kind.as_str(), "system/compact_boundary" | "part/compaction"),
        _ => false,
    })
}

/// A person's words, on whatever branch. Only in a subagent's own file does the side chain count.
fn begins_turn(entry: &Entry, all_aside: bool) -> bool {
    let has_words = || entry.blocks.iter().filter_map(Block::as_text).any(|text| !text.trim().is_empty());
    entry.role == Role::User
        && !entry.synthetic
        && (all_aside || entry.standing != Standing::Sidechain)
        && entry.attribute(attribute::COPIED).is_none()
        && has_words()
}

/// Gives each piece the entries that stand in it.
fn share_out(reading: Reading, pieces: &mut [Piece]) {
    let placed = reading.origins.into_iter().zip(reading.conversation.entries);
    for (at, entry) in placed {
        let offset = at.offset() as usize;
        let index = pieces.partition_point(|piece| piece.range.end <= offset);
        if let Some(piece) = pieces.get_mut(index) {
            piece.conversation.entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts lines of Claude Code: `u` asks, `a` answers, `b` is a boundary and `s` its summary.
    fn check(script: &str, at_end: bool, expected: &str) {
        let line = |(index, kind): (usize, char)| match kind {
            'u' => format!(r#"{{"type":"user","uuid":"{index}","message":{{"role":"user","content":"why?"}}}}"#),
            'a' => {
                format!(
                    r#"{{"type":"assistant","uuid":"{index}","message":{{"id":"m{index}","content":[{{"type":"text","text":"so"}}]}}}}"#
                )
            }
            'b' => format!(r#"{{"type":"system","subtype":"compact_boundary","uuid":"{index}"}}"#),
            's' => format!(
                r#"{{"type":"user","uuid":"{index}","isCompactSummary":true,"message":{{"role":"user","content":"so far"}}}}"#
            ),
            other => panic!("{other}"),
        };
        let text: String = script.chars().enumerate().map(|at| line(at) + "\n").collect();
        let format = enjamb_formats::by_id("claude-code-v1").unwrap();
        let reading = format.read(text.as_bytes()).unwrap();
        let ends = format.split(text.as_bytes()).unwrap();
        let kinds: Vec<String> = pieces(reading, &ends, at_end)
            .iter()
            .map(|piece| {
                let lines = text[piece.range.clone()].lines().count();
                let begin = text[..piece.range.start].lines().count();
                let sign = if piece.kind == CommitKind::Compaction { "!" } else { "" };
                format!("{sign}{}", &script[begin..begin + lines])
            })
            .collect();
        assert_eq!(kinds.join(" "), expected, "{script}");
    }

    #[test]
    fn a_turn_is_what_is_asked_and_all_that_follows() {
        check("uaauau", true, "uaa ua u");
        check("uaauau", false, "uaa ua");
        check("aauaa", true, "aa uaa");
        check("aaaa", false, "aaaa");
        check("", true, "");
    }

    #[test]
    fn a_compaction_is_a_piece_of_its_own() {
        check("uabsaaua", true, "ua !bs aa ua");
        check("uabs", true, "ua !bs");
        check("bsua", true, "!bs ua");
    }
}
