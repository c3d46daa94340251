//! What a conversation must give up to be written in a given format, decided in one place for all of them.
//!
//! A format describes what it has room for in a [`Palette`]. Adapting leaves only blocks that it can write, so that a
//! format's writer needs no decisions, and says of every block what became of it.

use enjamb_core::Json;
use enjamb_core::conversation::{
    Block, Conversation, Entry, Image, ImageSource, Reasoning, Role, Standing, ToolCall, ToolResult, Verbatim,
    attribute,
};

use crate::fidelity::{Encoded, Fate, Outcome};
use crate::json::Writer;
use crate::narrative;

/// What a format has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Formats whose verbatim blocks it can write as they are.
    pub(crate) own: Own,
    pub(crate) thoughts: Thoughts,
    pub(crate) images: Images,
    /// The media type of an image that is given by its URL.
    pub(crate) url_types: bool,
    pub(crate) results: Results,
    /// Messages of the system and of the developer.
    pub(crate) system: bool,
    /// Tool inputs that are not objects.
    pub(crate) free_input: bool,
    /// A flag on results that are errors.
    pub(crate) errors: bool,
    pub(crate) compaction: bool,
    /// Calls that the provider itself runs.
    pub(crate) server_calls: bool,
    /// History before a compaction.
    pub(crate) compacted: bool,
    /// What was abandoned or said on the side.
    pub(crate) off_line: bool,
    pub(crate) empty_text: EmptyText,
    /// Call ids of any characters.
    pub(crate) any_id: bool,
}

/// Adapts the entries of one conversation, in order.
pub(crate) struct Adapter {
    palette: Palette,
    is_blind: bool,
    entries: usize,
    pub(crate) ledger: Vec<Fate>,
}

impl Adapter {
    pub(crate) fn entry(&mut self, entry: &Entry) -> Option<Entry> {
        let index = self.entries;
        self.entries += 1;
        self.palette.entry(index, entry, self.is_blind, &mut self.ledger)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    All,
    These(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Thoughts {
    Any,
    /// Only those that this provider has signed or encrypted.
    Signed(&'static str),
    /// Only those of this provider.
    Of(&'static str),
    /// Their text, and this provider's signature.
    Plain(&'static str),
    None,
}

/// What a result may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Results {
    Parts,
    /// One text, and after it parts that are none.
    TextFirst,
    OneText,
}

/// Texts in which there is nothing to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EmptyText {
    Kept,
    /// Blank ones are kept, those without a character are not.
    OnlySpace,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    Anywhere,
    OutsideResults,
    Nowhere,
}

impl Palette {
    /// Room for everything.
    pub(crate) const WIDE: Self = Self {
        own: Own::All,
        thoughts: Thoughts::Any,
        images: Images::Anywhere,
        url_types: true,
        results: Results::Parts,
        system: true,
        free_input: true,
        errors: true,
        compaction: true,
        server_calls: true,
        compacted: true,
        off_line: true,
        empty_text: EmptyText::Kept,
        any_id: true,
    };

    pub(crate) fn encode(&self, source: &Conversation, write: impl FnOnce(&[Entry]) -> Vec<u8>) -> Encoded {
        let (entries, ledger) = self.adapted(source);
        Encoded { bytes: write(&entries), ledger }
    }

    /// The entries that there is room for, and what became of each block.
    pub(crate) fn adapted(&self, source: &Conversation) -> (Vec<Entry>, Vec<Fate>) {
        let mut adapter = self.adapter(source);
        let entries = source.entries.iter().filter_map(|entry| adapter.entry(entry)).collect();
        (entries, adapter.ledger)
    }

    /// For a conversation of which at least the outline is known.
    pub(crate) fn adapter(&self, outline: &Conversation) -> Adapter {
        let ledger = Vec::with_capacity(outline.entries.len());
        Adapter { palette: *self, is_blind: self.is_blind(outline), entries: 0, ledger }
    }

    /// True when the last compaction left a summary that only its provider can read. Whoever else goes on from there
    /// needs the history that it stands for.
    fn is_blind(&self, source: &Conversation) -> bool {
        let is_compaction = |entry: &&Entry| entry.blocks.iter().any(|block| matches!(block, Block::Compaction { .. }));
        let Some(last) = source.entries.iter().rev().find(is_compaction) else { return false };
        let is_foreign = |block: &Block| block.as_verbatim().is_some_and(|verbatim| !self.owns(verbatim));
        last.blocks.iter().any(is_empty_compaction) && last.blocks.iter().any(is_foreign)
    }

    fn entry(&self, index: usize, source: &Entry, is_blind: bool, ledger: &mut Vec<Fate>) -> Option<Entry> {
        let mut blocks = Vec::with_capacity(source.blocks.len());
        for (block, found) in source.blocks.iter().enumerate() {
            let seen = if is_blind { without_compaction(source, found) } else { None };
            let (written, outcome, reason) = match seen {
                Some(objection) => dropped(objection),
                None => self.placed(source, found, is_blind),
            };
            ledger.push(Fate { entry: index, block, outcome, reason });
            blocks.extend(written);
        }
        let moved = !self.system && is_system(source.role);
        let role = if moved { Role::User } else { source.role };
        let synthetic = source.synthetic || moved;
        (!blocks.is_empty()).then(|| restated(source, role, synthetic, blocks))
    }

    /// The block as it stands in its entry.
    fn placed(&self, entry: &Entry, block: &Block, is_blind: bool) -> Placed {
        let is_restored = is_blind && entry.standing == Standing::Compacted;
        if let Some(reason) = self.objection(entry.standing).filter(|_| !is_restored) {
            return dropped(reason);
        }
        let placed = self.block(block);
        if !self.system && is_system(entry.role) && placed.1 == Outcome::Kept && block.as_text().is_some() {
            return (placed.0, Outcome::Mapped, "a system message becomes a user message");
        }
        placed
    }

    fn objection(&self, standing: Standing) -> Option<&'static str> {
        match standing {
            Standing::Context => None,
            Standing::Compacted => (!self.compacted).then_some("a compaction stands for it"),
            Standing::Abandoned => (!self.off_line).then_some("on an abandoned branch"),
            Standing::Sidechain => (!self.off_line).then_some("said on a side chain"),
        }
    }

    fn block(&self, block: &Block) -> Placed {
        match block {
            Block::Text(text) if self.is_void(text) => dropped("empty text"),
            Block::Text(_) => kept(block),
            Block::Reasoning(reasoning) => self.reasoning(block, reasoning),
            Block::ToolCall(call) => self.call(call),
            Block::ToolResult(result) => self.result(result),
            Block::Image(_) if self.images == Images::Nowhere => rendered(block, "no place for images"),
            Block::Image(image) => match self.untyped(image) {
                Some(image) => (Some(Block::Image(image)), Outcome::Mapped, UNTYPED),
                None => kept(block),
            },
            Block::Compaction { .. } if self.compaction => kept(block),
            Block::Compaction { .. } => rendered(block, "a compaction becomes text"),
            Block::Verbatim(verbatim) => self.verbatim(block, verbatim),
        }
    }

    fn reasoning(&self, block: &Block, reasoning: &Reasoning) -> Placed {
        match self.thoughts.carry(reasoning) {
            Ok(carried) if carried == *reasoning => kept(block),
            Ok(carried) => (Some(Block::Reasoning(carried)), Outcome::Mapped, "reasoning without its seal"),
            Err(reason) => dropped(reason),
        }
    }

    fn call(&self, call: &ToolCall) -> Placed {
        if call.server && !self.server_calls {
            return rendered(&Block::ToolCall(call.clone()), "no place for calls that a provider ran");
        }
        let wraps = !self.free_input && !call.input.is_object();
        let input = if wraps { Writer::new().member("input", &call.input).json() } else { call.input.clone() };
        let id = self.id(&call.id);
        let (outcome, reason) = match (wraps, id == call.id) {
            (false, true) => (Outcome::Kept, ""),
            (true, _) => (Outcome::Mapped, "free text becomes an argument"),
            (false, false) => (Outcome::Mapped, "call id in other characters"),
        };
        (Some(Block::ToolCall(ToolCall { id, input, ..call.clone() })), outcome, reason)
    }

    fn result(&self, result: &ToolResult) -> Placed {
        let call_id = self.id(&result.call_id);
        let mut reason = if call_id == result.call_id { "" } else { "call id in other characters" };
        let mut content: Vec<Block> = Vec::with_capacity(result.content.len());
        for block in &result.content {
            let (block, change) = self.inside_result(block);
            content.extend(block);
            reason = change.unwrap_or(reason);
        }
        if result.is_error && !self.errors {
            content.insert(0, Block::Text(ERROR_MARK.to_owned()));
            reason = "the error flag becomes text";
        }
        if !self.results.hold(&content) {
            let is_text = |block: &Block| block.as_text().is_some();
            let (texts, rest): (Vec<Block>, Vec<Block>) = content.into_iter().partition(is_text);
            let whole = ToolResult { content: texts, ..result.clone() }.text();
            content = vec![Block::Text(whole)];
            content.extend(rest.into_iter().filter(|_| self.results == Results::TextFirst));
            reason = "parts of a result become one text";
        }
        let is_error = result.is_error && self.errors;
        let outcome = if reason.is_empty() { Outcome::Kept } else { Outcome::Mapped };
        (Some(Block::ToolResult(ToolResult { call_id, content, is_error })), outcome, reason)
    }

    /// A result's block, and why it changed if it did.
    fn inside_result(&self, block: &Block) -> (Option<Block>, Option<&'static str>) {
        match block {
            Block::Text(text) if self.is_void(text) => (None, Some("empty text")),
            Block::Text(_) => (Some(block.clone()), None),
            Block::Image(image) if self.images == Images::Anywhere => match self.untyped(image) {
                Some(image) => (Some(Block::Image(image)), Some(UNTYPED)),
                None => (Some(block.clone()), None),
            },
            Block::Verbatim(verbatim) if self.results != Results::OneText && self.owns(verbatim) => {
                (Some(block.clone()), None)
            }
            Block::Image(_)
            | Block::Verbatim(_)
            | Block::Reasoning(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Compaction { .. } => {
                (Some(Block::Text(narrative::brief(block))), Some("part of a result becomes text"))
            }
        }
    }

    /// The image without its media type, if it has to go without.
    fn untyped(&self, image: &Image) -> Option<Image> {
        let is_at_url = matches!(image.source, ImageSource::Url(_));
        let loses = !self.url_types && is_at_url && image.media_type.is_some();
        loses.then(|| Image { media_type: None, source: image.source.clone() })
    }

    fn verbatim(&self, block: &Block, verbatim: &Verbatim) -> Placed {
        if self.owns(verbatim) {
            kept(block)
        } else if verbatim.shown {
            rendered(block, "known to another format only")
        } else {
            dropped("another format's bookkeeping")
        }
    }

    /// A text that there is no room for because there is nothing in it.
    fn is_void(&self, text: &str) -> bool {
        match self.empty_text {
            EmptyText::Kept => false,
            EmptyText::OnlySpace => text.is_empty(),
            EmptyText::Dropped => text.trim().is_empty(),
        }
    }

    fn owns(&self, verbatim: &Verbatim) -> bool {
        match self.own {
            Own::All => true,
            Own::These(formats) => formats.contains(&verbatim.format.as_str()),
        }
    }

    fn id(&self, id: &str) -> String {
        if self.any_id { id.to_owned() } else { plain_id(id) }
    }
}

impl Results {
    /// Whether content can stay as it is.
    fn hold(self, content: &[Block]) -> bool {
        match self {
            Self::Parts => true,
            Self::TextFirst => content.iter().skip(1).all(|block| block.as_text().is_none()),
            Self::OneText => content.len() <= 1,
        }
    }
}

fn is_empty_compaction(block: &Block) -> bool {
    matches!(block, Block::Compaction { summary } if summary.trim().is_empty())
}

/// Why a block has no place in a history that is told as if it had not been compacted.
fn without_compaction(entry: &Entry, block: &Block) -> Option<&'static str> {
    if entry.attribute(attribute::COPIED).is_some() {
        Some("repeats an earlier message")
    } else if is_empty_compaction(block) {
        Some("a summary that only its provider can read")
    } else {
        None
    }
}

impl Thoughts {
    /// As much of a thought as can be carried, or why none of it can.
    fn carry(self, thought: &Reasoning) -> Result<Reasoning, &'static str> {
        let Reasoning { text, signature, encrypted, provider } = thought.clone();
        let signature = signature.filter(|signature| !signature.is_empty());
        let is_of = |wanted: &str| provider.as_deref() == Some(wanted);
        match self {
            Self::Any => Ok(thought.clone()),
            Self::Of(wanted) if is_of(wanted) => Ok(Reasoning { text, signature: None, encrypted, provider }),
            Self::Of(_) => Err("reasoning of another provider"),
            // What is encrypted has no text of its own.
            Self::Signed(wanted) if is_of(wanted) && encrypted.is_some() => {
                Ok(Reasoning { encrypted, provider, ..Reasoning::default() })
            }
            Self::Signed(wanted) if is_of(wanted) && signature.is_some() => {
                Ok(Reasoning { text, signature, encrypted: None, provider })
            }
            Self::Signed(_) => Err("reasoning without this provider's signature"),
            Self::Plain(wanted) if is_of(wanted) && signature.is_some() => {
                Ok(Reasoning { text, signature, encrypted: None, provider })
            }
            Self::Plain(_) if text.is_empty() => Err("reasoning that only its provider can read"),
            Self::Plain(_) => Ok(Reasoning { text, ..Reasoning::default() }),
            Self::None => Err("no place for reasoning"),
        }
    }
}

/// What says that a result is an error where nothing else can.
pub(crate) const ERROR_MARK: &str = "[error]";

const UNTYPED: &str = "the type of an image at a URL is left out";

type Placed = (Option<Block>, Outcome, &'static str);

fn kept(block: &Block) -> Placed {
    (Some(block.clone()), Outcome::Kept, "")
}

fn rendered(block: &Block, reason: &'static str) -> Placed {
    (Some(Block::Text(narrative::brief(block))), Outcome::Rendered, reason)
}

fn dropped(reason: &'static str) -> Placed {
    (None, Outcome::Dropped, reason)
}

fn is_system(role: Role) -> bool {
    match role {
        Role::System | Role::Developer => true,
        Role::User | Role::Assistant | Role::Tool => false,
    }
}

pub(crate) fn is_plain_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// An id of letters, digits, `_` and `-`. Ids that differ stay different.
pub(crate) fn plain_id(id: &str) -> String {
    if is_plain_id(id) {
        return id.to_owned();
    }
    let plain: String = id.chars().map(|found| if found.is_ascii_alphanumeric() { found } else { '_' }).collect();
    format!("{plain}_{}", &enjamb_core::Digest::of(id.as_bytes()).to_hex()[..8])
}

/// Entries of one side that follow each other, as one.
pub(crate) fn merged(entries: &[Entry], side: impl Fn(&Entry) -> Option<Role>) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries {
        match out.last_mut() {
            Some(last) if side(entry).is_some() && side(last) == side(entry) => {
                last.blocks.extend(entry.blocks.iter().cloned());
            }
            Some(_) | None => out.push(entry.clone()),
        }
    }
    out
}

/// An entry that says something else than its source, or as someone else; all that is known of it stays.
fn restated(source: &Entry, role: Role, synthetic: bool, blocks: Vec<Block>) -> Entry {
    Entry {
        role,
        blocks,
        synthetic,
        standing: source.standing,
        at: source.at,
        id: source.id.clone(),
        parent_id: source.parent_id.clone(),
        model: source.model.clone(),
        usage: source.usage,
        attributes: source.attributes.clone(),
    }
}

/// A `data:` URL of an image, or the URL that it is at.
pub(crate) fn image_url(image: &Image) -> String {
    match &image.source {
        ImageSource::Url(url) => url.clone(),
        ImageSource::Base64(text) => {
            format!("data:{};base64,{text}", image.media_type.as_deref().unwrap_or_default())
        }
    }
}

/// The image that such a URL tells of.
pub(crate) fn image_of_url(url: String) -> Image {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((media_type, text)) => {
            let media_type = (!media_type.is_empty()).then(|| media_type.to_owned());
            Image { media_type, source: ImageSource::Base64(text.to_owned()) }
        }
        None => Image { media_type: None, source: ImageSource::Url(url) },
    }
}

/// The text of a JSON string, for inputs that are free text.
pub(crate) fn free_text(input: &Json) -> Option<String> {
    crate::json::text(input.get())
}
