//! The neutral form in which formats meet: what was said, thought, called and answered, in order.
//!
//! A conversation is plain data. It says nothing of how a runtime writes such things down; what a format has and no
//! other could understand travels as [`Verbatim`]. Bytes remain the truth: a conversation is a view of them.

mod files;

use std::collections::BTreeMap;

use crate::{Json, Timestamp};

pub use files::FilesTouched;

/// Entries in the order of their source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    pub entries: Vec<Entry>,
}

/// One message, or one record that a runtime keeps among its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub role: Role,
    pub blocks: Vec<Block>,
    pub standing: Standing,
    /// Written by the harness rather than by the one whose role it bears: reminders, environment, command output.
    pub synthetic: bool,
    pub at: Option<Timestamp>,
    pub id: Option<String>,
    pub parent_id: Option<String>,
    pub model: Option<String>,
    /// What the provider counted for the reply that ends with this entry.
    pub usage: Option<Usage>,
    /// What else the source says of the entry, under names that formats share: see [`attribute`].
    pub attributes: BTreeMap<String, String>,
}

/// Names of attributes that more than one format knows.
pub mod attribute {
    pub const CWD: &str = "cwd";
    pub const GIT_BRANCH: &str = "git_branch";
    /// The URL of the repository that was worked on.
    pub const REPOSITORY: &str = "repository";
    pub const SESSION_ID: &str = "session_id";
    /// The session that this one works for.
    pub const PARENT_SESSION: &str = "parent_session";
    /// What a reply cost, in dollars.
    pub const COST: &str = "cost";
    /// The provider's id of the reply that an entry belongs to.
    pub const MESSAGE_ID: &str = "message_id";
    /// Version of the runtime that wrote the entry.
    pub const VERSION: &str = "version";
    /// The runtime whose version that is.
    pub const RUNTIME: &str = "runtime";
    /// The entry stood before a compaction and was carried over it: the summary does not replace it.
    pub const KEPT: &str = "kept_by_compaction";
    /// The entry repeats one from before a compaction.
    pub const COPIED: &str = "copied_by_compaction";
    /// Who spoke, where a role is shared by several.
    pub const ACTOR: &str = "actor_id";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    User,
    Assistant,
    System,
    Developer,
    Tool,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Developer => "developer",
            Self::Tool => "tool",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::System, Self::Developer, Self::Tool]
            .into_iter()
            .find(|role| role.as_str() == name)
    }
}

/// Whether the model would see an entry if the conversation went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    #[default]
    Context,
    /// A later compaction's summary stands for it.
    Compacted,
    /// The user went back to before it.
    Abandoned,
    /// Said to or by another agent, recorded among this one's messages.
    Sidechain,
}

impl Standing {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Compacted => "compacted",
            Self::Abandoned => "abandoned",
            Self::Sidechain => "sidechain",
        }
    }
}

/// Tokens as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Written before the reply was complete: more output may have followed than was counted.
    pub provisional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    Text(String),
    Reasoning(Reasoning),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Image(Image),
    /// What stands for everything before it.
    Compaction {
        summary: String,
    },
    Verbatim(Verbatim),
}

/// What a model thought. Signed or encrypted thoughts are worth something only to the provider that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    pub text: String,
    pub signature: Option<String>,
    /// Thoughts that only the provider can read.
    pub encrypted: Option<String>,
    /// The provider whose signature or encryption it is, such as `anthropic`.
    pub provider: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// An object of arguments, or a string where the tool takes free text.
    pub input: Json,
    /// Run by the provider itself: no result is owed by the runtime.
    pub server: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub call_id: String,
    pub content: Vec<Block>,
    pub is_error: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub media_type: Option<String>,
    pub source: ImageSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// The image itself, in the base64 text that it was found in.
    Base64(String),
    Url(String),
}

/// What one format has and no other could understand, exactly as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim {
    /// The id of the format that can read it.
    pub format: String,
    /// What that format calls it.
    pub kind: String,
    pub content: Raw,
    /// The model saw it, so its loss would be a loss of understanding.
    pub shown: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    Json(Json),
    Bytes(Vec<u8>),
}

impl Conversation {
    /// Entries that say something, whether or not the model still sees them.
    pub fn messages(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_message())
    }

    pub fn message_count(&self) -> u64 {
        self.messages().count() as u64
    }

    pub fn block_count(&self) -> u64 {
        self.entries.iter().map(|entry| entry.blocks.len() as u64).sum()
    }

    /// What a person first asked.
    pub fn first_prompt(&self) -> Option<String> {
        self.entries.iter().find_map(Entry::prompt)
    }

    pub fn last_user_text(&self) -> Option<String> {
        self.entries.iter().rev().find_map(Entry::prompt)
    }

    pub fn last_assistant_text(&self) -> Option<String> {
        let spoken = self.entries.iter().rev().filter(|entry| entry.role == Role::Assistant && entry.is_current());
        spoken.map(Entry::text).find(|text| !text.trim().is_empty())
    }

    /// Names of the tools called and how often each was, by name.
    pub fn tool_names(&self) -> BTreeMap<&str, u64> {
        let mut names = BTreeMap::new();
        for call in self.tool_calls() {
            *names.entry(call.name.as_str()).or_default() += 1;
        }
        names
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.entries.iter().flat_map(Entry::tool_calls)
    }

    /// Paths that well-known tools were asked to read or write.
    pub fn files_touched(&self) -> FilesTouched {
        FilesTouched::of(self.tool_calls())
    }

    /// First and last instant that any entry bears.
    pub fn time_span(&self) -> Option<(Timestamp, Timestamp)> {
        let times = self.entries.iter().filter_map(|entry| entry.at);
        times.fold(None, |span, at| match span {
            Some((first, last)) => Some((at.min(first), at.max(last))),
            None => Some((at, at)),
        })
    }

    /// Models that replied, in order of appearance.
    pub fn models(&self) -> Vec<String> {
        let mut models: Vec<String> = Vec::new();
        for model in self.entries.iter().filter_map(|entry| entry.model.as_ref()) {
            if !models.contains(model) {
                models.push(model.clone());
            }
        }
        models
    }

    /// The whole history: what compactions replaced counts as context again.
    #[must_use]
    pub fn uncompacted(mut self) -> Self {
        for entry in self.entries.iter_mut().filter(|entry| entry.standing == Standing::Compacted) {
            entry.standing = Standing::Context;
        }
        self
    }
}

impl Entry {
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self {
            role,
            blocks,
            standing: Standing::Context,
            synthetic: false,
            at: None,
            id: None,
            parent_id: None,
            model: None,
            usage: None,
            attributes: BTreeMap::new(),
        }
    }

    /// A record that says nothing in the conversation.
    pub fn record(verbatim: Verbatim) -> Self {
        Self::new(Role::System, vec![Block::Verbatim(verbatim)])
    }

    /// True unless every block is something that only one format understands.
    pub fn is_message(&self) -> bool {
        self.blocks.iter().any(|block| !matches!(block, Block::Verbatim(_)))
    }

    /// On the main line of the conversation, compacted away or not.
    pub fn is_current(&self) -> bool {
        match self.standing {
            Standing::Context | Standing::Compacted => true,
            Standing::Abandoned | Standing::Sidechain => false,
        }
    }

    /// Its text blocks, with an empty line between them.
    pub fn text(&self) -> String {
        joined_text(&self.blocks)
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(Block::as_tool_call)
    }

    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(Block::as_tool_result)
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    pub fn set_attribute(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.attributes.insert(name.to_owned(), value.into());
        }
    }

    /// True when a person typed it, on the main line, for the first time.
    pub fn is_prompt(&self) -> bool {
        let is_typed = self.role == Role::User && !self.synthetic && self.is_current();
        let has_words = || self.blocks.iter().filter_map(Block::as_text).any(|text| !text.trim().is_empty());
        is_typed && self.attribute(attribute::COPIED).is_none() && has_words()
    }

    fn prompt(&self) -> Option<String> {
        self.is_prompt().then(|| self.text())
    }
}

impl ToolResult {
    /// What the tool said, without images.
    pub fn text(&self) -> String {
        joined_text(&self.content)
    }
}

impl Block {
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        if let Self::ToolCall(call) = self { Some(call) } else { None }
    }

    pub fn as_tool_result(&self) -> Option<&ToolResult> {
        if let Self::ToolResult(result) = self { Some(result) } else { None }
    }

    pub fn as_verbatim(&self) -> Option<&Verbatim> {
        if let Self::Verbatim(verbatim) = self { Some(verbatim) } else { None }
    }
}

fn joined_text(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n\n")
}

#[cfg(test)]
mod tests;
