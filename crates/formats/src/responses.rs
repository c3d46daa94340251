//! `open-responses-v1`: a JSON array of items, as the Responses API takes them; and the items that Codex's rollouts
//! share with it.
//!
//! Items are flat: a message, a call, an output and a thought are each one item. Ids of items are not written: they mean
//! something only to the account that made them, and an unknown one is refused.

use std::collections::HashSet;

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Conversation, Entry, Raw, Reasoning, Role, ToolCall, ToolResult, Verbatim};

use crate::adapt::{EmptyText, Own, Palette, Thoughts, free_text, image_of_url, image_url};
use crate::anthropic::{array, raw_json, verbatim};
use crate::chat::arguments;
use crate::check;
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};
use crate::problem::Problem;

pub(crate) const ID: &str = "open-responses-v1";
pub(crate) const PROVIDER: &str = "openai";

pub(crate) struct OpenResponses;

pub(crate) const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::Of(PROVIDER),
    url_types: false,
    errors: false,
    empty_text: EmptyText::OnlySpace,
    compaction: false,
    server_calls: false,
    compacted: false,
    off_line: false,
    ..Palette::WIDE
};

/// Items that the model did not see, or cannot be told of.
const UNSEEN: &[&str] = &["compaction", "context_compaction", "ghost_snapshot", "item_reference"];
/// Items that are known and have no meaning of their own in a conversation.
const KNOWN: &[&str] = &[
    "additional_tools",
    "agent_message",
    "code_interpreter_call",
    "compaction",
    "computer_call",
    "computer_call_output",
    "context_compaction",
    "file_search_call",
    "ghost_snapshot",
    "image_generation_call",
    "item_reference",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];
/// What marks the kind of a message's part, as against that of an item.
const PART: &str = "part/";

impl Format for OpenResponses {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonArray
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        Reading::one_by_one(items, |item, reading| read_item(item.json(), reading))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE.encode(conversation, |entries| {
            let mut writer = ItemWriter::default();
            let items: Vec<Json> = entries.iter().flat_map(|entry| writer.items(entry)).collect();
            json::write_array(&items)
        })
    }

    fn check(&self, reading: &Reading) -> Vec<Problem> {
        check::responses(reading)
    }
}

pub(crate) fn read_item(text: &str, reading: &mut Reading) -> Entry {
    let object = Object::parse(text);
    let kind = object.as_ref().and_then(|object| object.text("type"));
    let kind = kind.unwrap_or_else(|| "message".to_owned());
    let known = object.as_ref().and_then(|object| known_item(&kind, object, reading));
    let mut entry = known.unwrap_or_else(|| {
        if !KNOWN.contains(&kind.as_str()) {
            reading.count_unknown(format!("item {kind}"));
        }
        let shown = !UNSEEN.contains(&kind.as_str());
        Entry::new(Role::Assistant, vec![Block::Verbatim(verbatim(ID, &kind, text, shown))])
    });
    entry.id = object.and_then(|object| object.text("id"));
    entry
}

fn known_item(kind: &str, item: &Object<'_>, reading: &mut Reading) -> Option<Entry> {
    let call = |input: Json| {
        let (id, name) = (item.text("call_id")?, item.text("name").unwrap_or_else(|| "local_shell".to_owned()));
        Some(Entry::new(Role::Assistant, vec![Block::ToolCall(ToolCall { id, name, input, server: false })]))
    };
    match kind {
        "message" => {
            let role = Role::from_name(&item.text("role")?)?;
            Some(Entry::new(role, read_parts(item.get("content"), reading)))
        }
        "reasoning" => Some(Entry::new(Role::Assistant, vec![Block::Reasoning(read_thought(item))])),
        "function_call" => call(arguments(item)),
        "custom_tool_call" => call(json::json_text(&item.text_or_empty("input"))),
        "local_shell_call" => call(item.json("action")?),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            Some(Entry::new(Role::Tool, vec![Block::ToolResult(read_output(item, reading)?)]))
        }
        _ => None,
    }
}

fn read_parts(raw: Option<&str>, reading: &mut Reading) -> Vec<Block> {
    let Some(raw) = raw else { return Vec::new() };
    if let Some(text) = json::text(raw) {
        return vec![Block::Text(text)];
    }
    json::array(raw).unwrap_or_default().into_iter().map(|part| read_part(part, reading)).collect()
}

fn read_part(raw: &str, reading: &mut Reading) -> Block {
    let object = Object::parse(raw);
    let kind = object.as_ref().and_then(|object| object.text("type")).unwrap_or_else(|| "untyped".to_owned());
    let known = object.and_then(|part| match kind.as_str() {
        "input_text" | "output_text" | "text" => part.text("text").map(Block::Text),
        "refusal" => part.text("refusal").map(Block::Text),
        "input_image" => part.text("image_url").map(|url| Block::Image(image_of_url(url))),
        _ => None,
    });
    known.unwrap_or_else(|| {
        reading.count_unknown(format!("part {kind}"));
        Block::Verbatim(verbatim(ID, &format!("{PART}{kind}"), raw, true))
    })
}

fn read_thought(item: &Object<'_>) -> Reasoning {
    let texts = |key: &str| -> Vec<String> {
        let parts = item.array(key).unwrap_or_default();
        parts.into_iter().filter_map(|part| Object::parse(part)?.text("text")).collect()
    };
    let (summary, content) = (texts("summary"), texts("content"));
    let told = if summary.is_empty() { content } else { summary };
    Reasoning {
        text: told.join("\n\n"),
        signature: None,
        encrypted: item.text("encrypted_content"),
        provider: Some(PROVIDER.to_owned()),
    }
}

/// A string, an array of parts, or the object that early versions wrote.
fn read_output(item: &Object<'_>, reading: &mut Reading) -> Option<ToolResult> {
    let call_id = item.text("call_id")?;
    let legacy = item.object("output");
    let raw = match &legacy {
        Some(output) => output.get("content"),
        None => item.get("output"),
    };
    let is_error = legacy.as_ref().is_some_and(|output| output.get("success") == Some("false"));
    let mut content = read_parts(raw, reading);
    content.retain(|block| block.as_text() != Some(""));
    Some(ToolResult { call_id, content, is_error })
}

/// Writes items one after the other, and remembers which calls were given free text: their outputs differ in type.
#[derive(Default)]
pub(crate) struct ItemWriter {
    custom: HashSet<String>,
}

impl ItemWriter {
    pub(crate) fn items(&mut self, entry: &Entry) -> Vec<Json> {
        let mut items = Vec::new();
        let mut parts: Vec<&Block> = Vec::new();
        for block in &entry.blocks {
            if is_part(block) {
                parts.push(block);
                continue;
            }
            items.extend(message(entry.role, &std::mem::take(&mut parts)));
            items.push(self.item(block));
        }
        items.extend(message(entry.role, &parts));
        items
    }

    /// Remembers a call of a custom tool that was written before: its output has a name of its own.
    pub(crate) fn note_custom(&mut self, call_id: &str) {
        self.custom.insert(call_id.to_owned());
    }

    fn item(&mut self, block: &Block) -> Json {
        match block {
            Block::Reasoning(reasoning) => thought(reasoning),
            Block::ToolCall(call) => self.call(call),
            Block::ToolResult(result) => self.output(result),
            Block::Verbatim(verbatim) => raw_json(verbatim),
            Block::Text(_) | Block::Image(_) | Block::Compaction { .. } => {
                unreachable!("these are parts of a message")
            }
        }
    }

    fn call(&mut self, call: &ToolCall) -> Json {
        match free_text(&call.input) {
            Some(input) => {
                self.custom.insert(call.id.clone());
                let item = Writer::of("custom_tool_call").member("call_id", &call.id).member("name", &call.name);
                item.member("input", &input).json()
            }
            None => Writer::of("function_call")
                .member("call_id", &call.id)
                .member("name", &call.name)
                .member("arguments", call.input.get())
                .json(),
        }
    }

    fn output(&self, result: &ToolResult) -> Json {
        let is_custom = self.custom.contains(&result.call_id);
        let output = match result.content.as_slice() {
            [] => json::json_text(""),
            [Block::Text(text)] => json::json_text(text),
            blocks => array(blocks.iter().map(|block| part(Role::Tool, block))),
        };
        Writer::of(if is_custom { "custom_tool_call_output" } else { "function_call_output" })
            .member("call_id", &result.call_id)
            .member("output", &output)
            .json()
    }
}

fn is_part(block: &Block) -> bool {
    match block {
        Block::Text(_) | Block::Image(_) | Block::Compaction { .. } => true,
        Block::Verbatim(Verbatim { kind, .. }) => kind.starts_with(PART),
        Block::Reasoning(_) | Block::ToolCall(_) | Block::ToolResult(_) => false,
    }
}

fn message(role: Role, parts: &[&Block]) -> Option<Json> {
    let role = if role == Role::Tool { Role::User } else { role };
    let content = array(parts.iter().map(|block| part(role, block)));
    let item = Writer::of("message").member("role", role.as_str()).member("content", &content);
    (!parts.is_empty()).then(|| item.json())
}

fn part(role: Role, block: &Block) -> Json {
    let text_type = if role == Role::Assistant { "output_text" } else { "input_text" };
    match block {
        Block::Text(text) | Block::Compaction { summary: text } => Writer::of(text_type).member("text", text).json(),
        Block::Image(image) => Writer::of("input_image").member("image_url", &image_url(image)).json(),
        Block::Verbatim(Verbatim { content: Raw::Json(raw), .. }) => raw.clone(),
        Block::Verbatim(_) | Block::Reasoning(_) | Block::ToolCall(_) | Block::ToolResult(_) => {
            Writer::of(text_type).member("text", &crate::narrative::brief(block)).json()
        }
    }
}

fn thought(reasoning: &Reasoning) -> Json {
    let told = (!reasoning.text.is_empty()).then(|| Writer::of("summary_text").member("text", &reasoning.text).json());
    Writer::of("reasoning")
        .member("summary", &array(told.into_iter()))
        .optional("encrypted_content", reasoning.encrypted.as_ref())
        .json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let conversation = OpenResponses.decode(source.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(OpenResponses.encode(&conversation).bytes).unwrap(), expected);
    }

    #[test]
    fn items_come_back_as_they_were() {
        for source in [
            r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://x/y"}]}]"#,
            r#"[{"type":"reasoning","summary":[],"encrypted_content":"zz"},{"type":"function_call","call_id":"c","name":"N","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"ok"}]"#,
            r#"[{"type":"custom_tool_call","call_id":"c","name":"patch","input":"*** x"},{"type":"custom_tool_call_output","call_id":"c","output":""}]"#,
            r#"[{"type":"web_search_call","status":"completed"},{"type":"acme:thing","x":1}]"#,
        ] {
            check(source, source);
        }
    }

    #[test]
    fn ids_are_left_behind_and_short_messages_are_read() {
        check(
            r#"[{"role":"assistant","content":"ho","id":"msg_1"}]"#,
            r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ho"}]}]"#,
        );
    }
}
