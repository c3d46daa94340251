//! What a workspace was when it was last looked through, so that a file that was not written to is not read again.
//!
//! A derived file beside the log: it may be lost at any time, and is believed only if it has its digest and tells of a
//! checkpoint that is in the log. As with git's index, a file that was written to at about the time when it was looked at
//! is not believed: a later write in the same tick of the clock would leave no trace.

use std::io;
use std::path::Path;

use enjamb_core::workspace::{Node, NodeKind};
use enjamb_core::{Digest, Timestamp};
use enjamb_ledger::private;

use super::scan::{Found, Stat};

const MAGIC: &[u8; 16] = b"enjamb stats 1\n\0";
/// Clocks of file systems tick more slowly than ours.
const TICK_NS: i64 = 20_000_000;
/// Some have only every other second.
const COARSE_TICK_NS: i64 = 2_000_000_000;
const ENTRY_BYTES: usize = 2 + 1 + 1 + 4 + 8 + 8 + 8 + 8 + Digest::LEN;

/// A workspace as it was, in the order of paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// The checkpoint that holds all of it.
    pub checkpoint: String,
    pub entries: Vec<StatEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatEntry {
    pub path: Vec<u8>,
    pub node: Node,
    pub stat: Stat,
    /// Whether a file with this stat has these bytes.
    pub settled: bool,
}

impl StatEntry {
    /// The bytes that a file still has, if that can be told without reading it.
    pub(super) fn known(&self, found: &Found) -> Option<Digest> {
        let same = self.settled && self.node.kind == found.kind && self.stat == found.stat;
        same.then_some(self.node.id)
    }
}

/// Whether a later write would have left a trace in the stat of a file that was looked at no earlier than `looked`.
pub(super) fn is_settled(stat: &Stat, looked: Timestamp) -> bool {
    let last = stat.modified_ns.max(stat.changed_ns);
    let tick = if last % 1_000_000_000 == 0 { COARSE_TICK_NS } else { TICK_NS };
    last.saturating_add(tick) < looked.as_micros().saturating_mul(1_000)
}

impl Stats {
    /// What was noted; nothing when there is nothing, or not what was written.
    pub(super) fn read(path: &Path) -> Self {
        std::fs::read(path).ok().and_then(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }

    /// Notes it. Nothing depends on its being there, so nobody waits for the disk.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("new");
        let mut file = private::create(&unfinished)?;
        io::Write::write_all(&mut file, &self.encode())?;
        drop(file);
        std::fs::rename(unfinished, path)
    }

    fn encode(&self) -> Vec<u8> {
        let paths: usize = self.entries.iter().map(|entry| entry.path.len()).sum();
        let mut bytes = Vec::with_capacity(64 + self.entries.len() * ENTRY_BYTES + paths);
        bytes.extend_from_slice(MAGIC);
        put_text(&mut bytes, self.checkpoint.as_bytes());
        for entry in &self.entries {
            put_text(&mut bytes, &entry.path);
            bytes.extend_from_slice(&[entry.node.kind as u8, u8::from(entry.settled)]);
            bytes.extend_from_slice(&entry.stat.mode.to_le_bytes());
            for number in
                [entry.stat.size, entry.stat.modified_ns as u64, entry.stat.changed_ns as u64, entry.stat.inode]
            {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(entry.node.id.as_bytes());
        }
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, digest) = bytes.split_last_chunk::<{ Digest::LEN }>()?;
        let mut rest = body.strip_prefix(MAGIC)?;
        if Digest::of(body).as_bytes() != digest {
            return None;
        }
        let checkpoint = String::from_utf8(take_text(&mut rest)?.to_vec()).ok()?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            entries.push(take_entry(&mut rest)?);
        }
        Some(Self { checkpoint, entries })
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    // No path of a file system is longer.
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = u16::from_le_bytes(*take(rest)?);
    let (text, after) = rest.split_at_checked(len.into())?;
    *rest = after;
    Some(text)
}

fn take_entry(rest: &mut &[u8]) -> Option<StatEntry> {
    let path = take_text(rest)?.to_vec();
    let [kind, settled] = *take(rest)?;
    let kind = [NodeKind::File, NodeKind::Link, NodeKind::Dir].into_iter().find(|known| *known as u8 == kind)?;
    let mode = u32::from_le_bytes(*take(rest)?);
    let size = u64::from_le_bytes(*take(rest)?);
    let modified_ns = i64::from_le_bytes(*take(rest)?);
    let changed_ns = i64::from_le_bytes(*take(rest)?);
    let inode = u64::from_le_bytes(*take(rest)?);
    let id = Digest::from_bytes(*take(rest)?);
    let stat = Stat { mode, size, modified_ns, changed_ns, inode };
    Some(StatEntry { path, node: Node { kind, mode, size, id }, stat, settled: settled == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        let stat = Stat { mode: 0o644, size: 3, modified_ns: -5, changed_ns: 7, inode: 9 };
        let node = Node { kind: NodeKind::File, mode: 0o644, size: 3, id: Digest::of(b"abc") };
        let entry = |path: &[u8], settled| StatEntry { path: path.to_vec(), node, stat, settled };
        Stats { checkpoint: "c1".into(), entries: vec![entry(b"a", true), entry(b"b\xff", false)] }
    }

    #[test]
    fn what_was_noted_is_read_back_and_nothing_else() {
        let bytes = stats().encode();
        assert_eq!(Stats::decode(&bytes), Some(stats()));
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(Stats::decode(&broken), None, "byte {at} is flipped");
            assert_eq!(Stats::decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn what_was_written_just_now_is_not_believed() {
        let looked = Timestamp::from_micros(10_000_000);
        let at = |modified_ns: i64, changed_ns: i64| {
            is_settled(&Stat { modified_ns, changed_ns, ..Stat::default() }, looked)
        };
        assert!(at(9_900_000_001, 9_900_000_001));
        assert!(!at(9_990_000_001, 1), "within a tick");
        assert!(!at(1, 9_990_000_001), "only the inode changed");
        assert!(!at(11_000_000_001, 1), "from the future");
        assert!(!at(9_000_000_000, 1), "a clock of whole seconds");
        assert!(at(7_000_000_000, 1));
    }
}
