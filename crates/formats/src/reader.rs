//! Reading item by item, so that a transcript need not be in memory as a whole.

use crate::format::{Format, Reading};
use crate::framing::{Content, Item};
use crate::outline::{Detail, outline};

/// Takes the items of a transcript in order, and says at the end what they were.
pub trait ItemReader {
    fn item(&mut self, item: &Item<'_>);

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

    fn finish(self: Box<Self>) -> Reading {
        let mut reading = self.format.understand(&self.items);
        if self.detail == Detail::Outline {
            reading.conversation.entries.iter_mut().for_each(outline);
        }
        reading
    }
}
