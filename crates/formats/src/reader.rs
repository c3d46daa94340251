//! Reading item by item, so that a transcript need not be in memory as a whole.

use enjamb_core::conversation::Block;

use crate::format::{Format, Reading};
use crate::framing::{Content, Item};
use crate::outline::Detail;

/// Takes the items of a transcript in order, and says at the end what they were.
pub trait ItemReader {
    fn item(&mut self, item: &Item<'_>);

    /// Takes the blocks of an entry that was read, by its number in the order of reading. None where entries are known
    /// only at the end.
    fn blocks(&mut self, entry: usize) -> Option<Vec<Block>>;

    /// What the items so far were.
    fn so_far(&self) -> Reading;

    fn finish(self: Box<Self>) -> Reading;
}

/// For formats that must see all of their items at once.
pub(crate) struct Collected<'f, F: Format + ?Sized> {
    format: &'f F,
    detail: Detail,
    items: Vec<Item<'static>>,
}

impl<'f, F: Format + ?Sized> Collected<'f, F> {
    pub(crate) fn new(format: &'f F, detail: Detail) -> Self {
        Self { format, detail, items: Vec::new() }
    }
}

impl<F: Format + ?Sized> ItemReader for Collected<'_, F> {
    fn item(&mut self, item: &Item<'_>) {
        let content = match &item.content {
            Content::Json(text) => Content::Json(text.clone().into_owned().into()),
            Content::Cbor(bytes) => Content::Cbor(bytes.to_vec().into()),
        };
        self.items.push(Item { at: item.at, range: item.range.clone(), content });
    }

    fn blocks(&mut self, _: usize) -> Option<Vec<Block>> {
        None
    }

    fn so_far(&self) -> Reading {
        let mut reading = self.format.understand(&self.items);
        reading.conversation.entries.iter_mut().for_each(|entry| self.detail.reduce(entry));
        reading
    }

    fn finish(self: Box<Self>) -> Reading {
        self.so_far()
    }
}
