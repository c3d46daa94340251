//! Writing a conversation entry by entry, so that it need not be in memory as a whole.

use enjamb_core::conversation::{Conversation, Entry};

use crate::fidelity::Fate;
use crate::format::{Format, Reading};

/// Takes the entries of a conversation in order, and writes what can be written.
pub trait Encoder {
    fn entry(&mut self, entry: Entry, out: &mut Vec<u8>);

    /// Writes the rest, and says what became of each block.
    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> Vec<Fate>;
}

/// What a conversation goes on from: one in the same format that stands before it.
#[derive(Clone, Copy)]
pub struct Before<'r>(pub(crate) &'r Reading);

/// For formats that are written as a whole.
pub(crate) struct Collecting<'f, F: Format + ?Sized> {
    format: &'f F,
    conversation: Conversation,
}

impl<'f, F: Format + ?Sized> Collecting<'f, F> {
    pub(crate) fn new(format: &'f F) -> Self {
        Self { format, conversation: Conversation::default() }
    }
}

impl<F: Format + ?Sized> Encoder for Collecting<'_, F> {
    fn entry(&mut self, entry: Entry, _: &mut Vec<u8>) {
        self.conversation.entries.push(entry);
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> Vec<Fate> {
        let encoded = self.format.encode(&self.conversation);
        out.extend(encoded.bytes);
        encoded.ledger
    }
}

/// A whole conversation, written entry by entry.
pub(crate) fn encode_all(mut encoder: Box<dyn Encoder + '_>, conversation: &Conversation) -> crate::Encoded {
    let mut bytes = Vec::new();
    for entry in &conversation.entries {
        encoder.entry(entry.clone(), &mut bytes);
    }
    let ledger = encoder.finish(&mut bytes);
    crate::Encoded { bytes, ledger }
}
