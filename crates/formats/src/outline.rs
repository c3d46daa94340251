//! Entries without their bulk: what a check asks of a transcript of any size, in little memory.
//!
//! Ids, kinds, places and the beginnings of texts stay; the rest of a text, images and whole records go. Blocks that no
//! provider takes because of their size are remembered by it.

use enjamb_core::Json;
use enjamb_core::conversation::{
    Block, Entry, Image, ImageSource, Raw, Reasoning, ToolCall, ToolResult, Verbatim, attribute,
};

use crate::narrative;

/// How much of each record a reader keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    #[default]
    Whole,
    /// Everything about each entry but the bulk of its blocks.
    Outline,
    /// Of what else is known about an entry, only what tells how it stands.
    Skeleton,
    /// What people said, and of what tools and assistants said how much it is.
    Measure,
}

/// Bytes of a text that stay in an outline: enough to tell by which words it begins.
const TEXT_BYTES_KEPT: usize = 160;
/// In a skeleton: enough to tell whether there are any, and whether they could be a cipher.
const FEW_BYTES_KEPT: usize = 40;

impl Detail {
    /// Leaves of an entry what is wanted.
    pub(crate) fn reduce(self, entry: &mut Entry) {
        if matches!(self, Self::Outline | Self::Skeleton) {
            let blocks = std::mem::take(&mut entry.blocks);
            entry.blocks = outlined(entry, blocks, self);
            entry.blocks.shrink_to_fit();
        }
        if self == Self::Skeleton {
            entry.attributes.retain(|name, _| STANDING.contains(&name.as_str()));
        }
    }
}

/// Attributes that a check asks for.
const STANDING: [&str; 5] = [attribute::CWD, attribute::COPIED, attribute::KEPT, HEAVY_TEXT, HEAVY_IMAGE];

/// Attribute under which the tokens are remembered that an entry has besides those of its blocks.
const LET_GO: &str = "let_go";

/// Notes that so many tokens more were let go of an entry.
pub(crate) fn note_let_go(entry: &mut Entry, tokens: u64) {
    let tokens = let_go(entry) + tokens;
    entry.set_attribute(LET_GO, (tokens > 0).then(|| tokens.to_string()));
}

pub(crate) fn let_go(entry: &Entry) -> u64 {
    entry.attribute(LET_GO).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Blocks smaller than this are taken by every provider.
const HEAVY_BYTES_MIN: usize = 4 << 20;

/// Attributes under which the bytes of an entry's largest text and image are remembered.
pub(crate) const HEAVY_TEXT: &str = "heavy_text";
pub(crate) const HEAVY_IMAGE: &str = "heavy_image";

/// The blocks in outline, and their sizes noted on the entry that they are for.
pub(crate) fn outlined(entry: &mut Entry, blocks: Vec<Block>, detail: Detail) -> Vec<Block> {
    let kept = if detail == Detail::Skeleton { FEW_BYTES_KEPT } else { TEXT_BYTES_KEPT };
    let mut heavy = Heavy { kept, ..Heavy::default() };
    let blocks = blocks.into_iter().map(|block| block_outline(block, &mut heavy)).collect();
    heavy.note(entry);
    blocks
}

/// Takes the notes of sizes away, where the blocks are whole again.
pub(crate) fn forget_sizes(entry: &mut Entry) {
    entry.attributes.remove(HEAVY_TEXT);
    entry.attributes.remove(HEAVY_IMAGE);
}

/// What is let go: how much of a text is not, and how large what goes was.
#[derive(Default)]
struct Heavy {
    kept: usize,
    text: usize,
    image: usize,
}

impl Heavy {
    fn note(&self, entry: &mut Entry) {
        for (name, bytes) in [(HEAVY_TEXT, self.text), (HEAVY_IMAGE, self.image)] {
            let before: usize = entry.attribute(name).and_then(|text| text.parse().ok()).unwrap_or_default();
            let bytes = bytes.max(before);
            entry.set_attribute(name, (bytes >= HEAVY_BYTES_MIN).then(|| bytes.to_string()));
        }
    }

    /// The first bytes of a text; of one that begins with nothing, those from its first word on.
    fn beginning(&self, mut text: String) -> String {
        if text.len() <= self.kept {
            return text;
        }
        if narrative::beginning(&text, self.kept).trim().is_empty() {
            text.drain(..text.len() - text.trim_start().len());
        }
        text.truncate(narrative::beginning(&text, self.kept).len());
        text.shrink_to_fit();
        text
    }
}

fn block_outline(block: Block, heavy: &mut Heavy) -> Block {
    match block {
        Block::Text(text) => Block::Text(weighed(text, heavy)),
        Block::Compaction { summary } => Block::Compaction { summary: weighed(summary, heavy) },
        Block::Reasoning(Reasoning { text, signature, encrypted, provider }) => Block::Reasoning(Reasoning {
            text: heavy.beginning(text),
            signature: signature.map(|text| heavy.beginning(text)),
            encrypted: encrypted.map(|text| heavy.beginning(text)),
            provider,
        }),
        Block::ToolCall(call) => {
            heavy.text = heavy.text.max(call.input.get().len());
            Block::ToolCall(ToolCall { input: stand_in(&call.input), ..call })
        }
        Block::ToolResult(ToolResult { call_id, content, is_error }) => {
            let content = content.into_iter().map(|part| block_outline(part, heavy)).collect();
            Block::ToolResult(ToolResult { call_id, content, is_error })
        }
        Block::Image(Image { media_type, source: ImageSource::Base64(text) }) => {
            heavy.image = heavy.image.max(text.len());
            Block::Image(Image { media_type, source: ImageSource::Base64(heavy.beginning(text)) })
        }
        Block::Image(image) => Block::Image(image),
        Block::Verbatim(Verbatim { format, kind, shown, .. }) => {
            Block::Verbatim(Verbatim { format, kind, content: Raw::Bytes(Vec::new()), shown })
        }
    }
}

fn weighed(text: String, heavy: &mut Heavy) -> String {
    heavy.text = heavy.text.max(text.len());
    heavy.beginning(text)
}

/// A value of the same kind.
fn stand_in(input: &Json) -> Json {
    let text = if input.is_object() { "{}" } else { "null" };
    Json::parse(text).expect("JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use enjamb_core::conversation::Role;

    #[test]
    fn bulk_goes_and_its_size_stays() {
        let image = Image { media_type: None, source: ImageSource::Base64("A".repeat(5 << 20)) };
        let content = vec![Block::Image(image), Block::Text("é".repeat(100))];
        let result = ToolResult { call_id: "t".to_owned(), content, is_error: false };
        let mut entry = Entry::new(Role::Tool, vec![Block::ToolResult(result)]);
        Detail::Outline.reduce(&mut entry);
        assert_eq!((entry.attribute(HEAVY_IMAGE), entry.attribute(HEAVY_TEXT)), (Some("5242880"), None));
        assert_eq!(entry.tool_results().map(ToolResult::text).collect::<String>(), "é".repeat(80));
    }

    #[test]
    fn a_text_that_begins_with_nothing_is_not_taken_for_none() {
        let mut entry = Entry::new(Role::User, vec![Block::Text(" ".repeat(500) + "words")]);
        Detail::Skeleton.reduce(&mut entry);
        assert_eq!(entry.text(), "words");
    }
}
