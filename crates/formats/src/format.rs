//! What every format can do.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Conversation, Entry, attribute};

use crate::check;
use crate::checker::Checker;
use crate::encoder::{Before, Collecting, Encoder};
use crate::fidelity::Encoded;
use crate::framing::{DamageReport, Framing, Item, Piece, Unframed, Weight};
use crate::inspection::{Damage, Inspection, Look};
use crate::json;
use crate::label::Label;
use crate::outline::{Detail, note_let_go};
use crate::position::{FormatError, Position};
use crate::problem::Problem;
use crate::reader::{Collected, ItemReader};
use crate::tokens::TokenCounting;
use crate::unrolled::UnrolledLine;

/// What stands for a text that only its measure is asked of.
const STAND_IN: &str = "…";

/// A runtime's or a provider's way to write a conversation down.
///
/// Bytes are refused only when they lack the format's framing. Whatever the framing holds is kept: a record or a block
/// that is not known becomes [`enjamb_core::conversation::Verbatim`] and is counted.
pub trait Format: Sync {
    /// The name that commits bear, such as `claude-code-v1`.
    fn id(&self) -> &'static str;

    fn framing(&self) -> Framing;

    /// What the items of a delta say.
    fn understand(&self, items: &[Item<'_>]) -> Reading;

    /// As [`Format::understand`], for who asks who spoke, when, and how much: tokens are counted alike, by bytes. A format
    /// overrides this when it need not read for that what tools and assistants said.
    fn measure(&self, items: &[Item<'_>]) -> Reading {
        self.understand(items)
    }

    /// Reads items one at a time. A format overrides this when it need not see them all at once.
    fn reader(&self, detail: Detail) -> Box<dyn ItemReader + '_> {
        Box::new(Collected::new(self, detail))
    }

    /// A conversation in this format, and what became of each of its blocks.
    fn encode(&self, conversation: &Conversation) -> Encoded;

    /// Writes entry by entry what the outline tells of, after what stands before it. A format overrides this when it
    /// need not see all entries at once, or when what comes later must be linked to what came before.
    fn encoder(&self, _outline: &Conversation, _before: Option<Before<'_>>) -> Box<dyn Encoder + '_> {
        Box::new(Collecting::new(self))
    }

    /// What the runtime or the provider would object to if the conversation went on from here, besides what was found
    /// while reading. All want each call to have its result.
    fn check(&self, reading: &Reading) -> Vec<Problem> {
        check::pairing(reading)
    }

    /// The lines that a document amounts to, where the runtime writes one anew each time; none for anything else. They
    /// say nothing that changes when the document is only added to.
    fn unroll(&self, _document: &[u8]) -> Option<Vec<UnrolledLine>> {
        None
    }

    /// Whether a delta may say something else of what an earlier one told: then deltas are understood only together.
    fn revises(&self) -> bool {
        false
    }

    /// What a line tells of, in formats in which a later line replaces an earlier one that tells of the same.
    fn line_key(&self, line: &str) -> String {
        line.to_owned()
    }

    fn content_type(&self) -> &'static str {
        self.framing().content_type()
    }

    /// How many messages a commit says its delta has. The items of a CBOR array are all messages, known or not.
    fn message_count(&self, reading: &Reading) -> u64 {
        match self.framing() {
            Framing::CborArray => reading.records,
            Framing::JsonLines | Framing::JsonArray => reading.conversation.message_count(),
        }
    }

    /// What the bytes say, damage included.
    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let found = self.framing().items(bytes).map_err(|cause| not(self.id(), cause))?;
        let mut reading = self.understand(&found.items);
        reading.records = found.items.len() as u64;
        reading.damage = found.damage;
        Ok(reading)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Conversation, FormatError> {
        Ok(self.read(bytes)?.conversation)
    }

    /// As [`Format::inspect_with`], tokens counted exactly and damage refused.
    fn inspect(&self, delta: &[u8]) -> Result<Inspection, FormatError> {
        self.inspect_with(delta, Look::default())
    }

    fn inspect_with(&self, delta: &[u8], look: Look) -> Result<Inspection, FormatError> {
        let reading = self.read(delta)?;
        match (look.damage, reading.damage.first.first()) {
            (Damage::Refuse, Some(first)) => {
                Err(FormatError { format: self.id(), position: first.at, reason: first.sentence.clone() })
            }
            (Damage::Refuse, None) | (Damage::Keep, _) => {
                Ok(Inspection::of(self.message_count(&reading), reading, look.counting))
            }
        }
    }

    /// Everything that would keep the conversation from going on, damage included, in order of place.
    fn validate(&self, bytes: &[u8]) -> Vec<Problem> {
        Checker::check(self, bytes)
    }

    /// Offsets at which a delta may be cut so that both sides are deltas. The last is the end of the last item.
    fn split(&self, bytes: &[u8]) -> Result<Vec<usize>, FormatError> {
        self.framing().split(bytes).map_err(|cause| not(self.id(), cause))
    }

    /// Those offsets of [`Format::split`] at which a turn ends, because a person's prompt follows or nothing does.
    fn turns(&self, bytes: &[u8]) -> Result<Vec<usize>, FormatError> {
        let ends = self.split(bytes)?;
        let reading = self.read(bytes)?;
        let prompts = reading.placed().filter(|(_, entry)| entry.is_prompt());
        let before = |at: Position| ends[..ends.partition_point(|end| *end as u64 <= at.offset())].last();
        let turns: BTreeSet<usize> = prompts.filter_map(|(at, _)| before(at)).chain(ends.last()).copied().collect();
        Ok(turns.into_iter().collect())
    }

    /// The delta in parts that end at offsets that [`Format::split`] gave.
    fn cut<'a>(&self, bytes: &'a [u8], ends: &[usize]) -> Result<Vec<Cow<'a, [u8]>>, FormatError> {
        self.framing().cut(bytes, ends).map_err(|cause| not(self.id(), cause))
    }

    /// What a delta adds to the header of the whole.
    fn weigh(&self, delta: &[u8]) -> Result<Weight, FormatError> {
        self.framing().weigh(delta).map_err(|cause| not(self.id(), cause))
    }

    fn head(&self, total: Weight) -> Vec<u8> {
        self.framing().head(total)
    }

    /// What to write for one delta after others of the given weight.
    fn piece<'a>(&self, delta: &'a [u8], written: Weight) -> Result<Piece<'a>, FormatError> {
        self.framing().piece(delta, written).map_err(|cause| not(self.id(), cause))
    }

    fn tail(&self) -> &'static [u8] {
        self.framing().tail()
    }
}

fn not(format: &'static str, Unframed { at, reason }: Unframed) -> FormatError {
    FormatError { format, position: at, reason }
}

/// What a format made of a delta.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub conversation: Conversation,
    /// Where each entry begins, in the order of the entries.
    pub origins: Vec<Position>,
    /// Kinds of records and blocks that the format does not know, and how many of each.
    pub unknown: BTreeMap<String, u64>,
    /// Items of the delta, messages or not.
    pub records: u64,
    /// What each item says it is, where whoever measured them noted it.
    pub labels: Vec<Label>,
    /// Places that hold no item.
    pub damage: DamageReport,
    /// What is wrong with the records of this format, beyond the conversation that they hold.
    pub findings: Vec<Problem>,
    /// Where each unknown kind was first met.
    pub(crate) unknown_at: BTreeMap<String, Position>,
    /// The item that is being read.
    pub(crate) here: Option<Position>,
    pub(crate) detail: Detail,
    /// Tokens of the record that is being read, which its blocks do not hold.
    pub(crate) let_go: u64,
    /// For each entry, in the order of reading, where its last record begins.
    pub(crate) ends: Vec<u64>,
    /// For each entry, its number in the order of reading; empty where that is the order of the entries.
    pub(crate) read_as: Vec<usize>,
    /// Attributes that several entries share, and which of them each has, in the order of reading.
    pub(crate) attribute_sets: Vec<BTreeMap<String, String>>,
    pub(crate) attribute_set_of: Vec<usize>,
    /// The record that the next one would follow, in formats whose records form a tree.
    pub(crate) leaf: Option<String>,
    /// The directory that was named last, and where, once entries do not tell.
    pub(crate) cwd: Option<(Position, String)>,
}

impl Reading {
    /// The reading of a format whose items are each one entry.
    pub(crate) fn one_by_one<'i>(items: &'i [Item<'_>], read: impl Fn(&'i Item<'_>, &mut Self) -> Entry) -> Self {
        let mut reading = Self::default();
        for item in items {
            reading.here = Some(item.at);
            let entry = read(item, &mut reading);
            reading.push(item.at, entry);
        }
        reading
    }

    pub(crate) fn push(&mut self, at: Position, mut entry: Entry) {
        self.detail.reduce(&mut entry);
        match self.detail {
            Detail::Whole => {}
            Detail::Measure => note_let_go(&mut entry, std::mem::take(&mut self.let_go)),
            Detail::Outline => self.share_attributes(&mut entry),
            Detail::Skeleton => {
                self.cwd = entry.attributes.remove(attribute::CWD).map(|cwd| (at, cwd)).or(self.cwd.take())
            }
        }
        self.conversation.entries.push(entry);
        self.origins.push(at);
        self.ends.push(at.offset());
    }

    /// What a tool or an assistant said. Where only its measure is asked for, a mark stands for it.
    pub(crate) fn bulk(&mut self, raw: &str) -> Option<String> {
        let measured = if self.is_let_go(raw) { json::text_len(raw) } else { None };
        match measured {
            Some(len) => {
                self.let_go(len, STAND_IN);
                Some(STAND_IN.to_owned())
            }
            None => json::text(raw),
        }
    }

    /// What a tool was told, in the same way.
    pub(crate) fn bulk_json(&mut self, raw: &str) -> Json {
        const NOTHING: &str = "{}";
        if !self.is_let_go(raw) {
            return json::json(raw);
        }
        self.let_go(raw.len() - memchr::memchr2_iter(b'\n', b'\r', raw.as_bytes()).count(), NOTHING);
        json::json(NOTHING)
    }

    /// Whether more is let go than what stands for it.
    fn is_let_go(&self, raw: &str) -> bool {
        const LITTLE: usize = 64;
        self.detail == Detail::Measure && raw.len() > LITTLE
    }

    fn let_go(&mut self, len: usize, stand_in: &str) {
        let tokens = |len| TokenCounting::of_bytes(len as u64);
        self.let_go += tokens(len).saturating_sub(tokens(stand_in.len()));
    }

    /// Most entries say of themselves what the one before said. That is held once.
    fn share_attributes(&mut self, entry: &mut Entry) {
        if self.attribute_sets.last() == Some(&entry.attributes) {
            entry.attributes = BTreeMap::new();
        } else {
            self.attribute_sets.push(entry.attributes.clone());
        }
        self.attribute_set_of.push(self.attribute_sets.len() - 1);
    }

    /// What an entry says of itself, by its number in the order of reading.
    pub(crate) fn attributes_of(&self, entry: usize) -> BTreeMap<String, String> {
        let set = self.attribute_set_of.get(entry).and_then(|set| self.attribute_sets.get(*set));
        set.cloned().unwrap_or_default()
    }

    /// The directory that was worked in last, and where that is said.
    pub(crate) fn last_cwd(&self) -> Option<(Position, String)> {
        let named = self.placed().filter_map(|(at, entry)| Some((at, entry.attribute(attribute::CWD)?.to_owned())));
        self.cwd.clone().or_else(|| named.last())
    }

    /// Takes the blocks of an entry, and lets go of what else it holds.
    pub(crate) fn take_blocks(&mut self, entry: usize) -> Option<Vec<Block>> {
        let entry = self.conversation.entries.get_mut(entry)?;
        let husk = Entry::new(entry.role, Vec::new());
        Some(std::mem::replace(entry, husk).blocks)
    }

    pub(crate) fn count_unknown(&mut self, kind: impl Into<String>) {
        let kind = kind.into();
        if let (Some(at), false) = (self.here, self.unknown_at.contains_key(&kind)) {
            self.unknown_at.insert(kind.clone(), at);
        }
        *self.unknown.entry(kind).or_default() += 1;
    }

    /// Entries with their places.
    pub fn placed(&self) -> impl Iterator<Item = (Position, &Entry)> {
        self.origins.iter().copied().zip(&self.conversation.entries)
    }
}
