//! `openai-chat-v1`: a JSON array of messages, as OpenAI's Chat Completions API takes them.

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Conversation, Entry, Reasoning, Role, ToolCall, ToolResult, Usage};

use crate::adapt::{EmptyText, Images, Order, Own, Palette, Thoughts, free_text, image_of_url, image_url, merged};
use crate::anthropic::{MESSAGE, array, raw_json, verbatim, whole_message};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};

pub(crate) const ID: &str = "openai-chat-v1";

pub(crate) struct OpenAiChat;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::None,
    images: Images::OutsideResults,
    url_types: false,
    errors: false,
    empty_text: EmptyText::OnlySpace,
    compaction: false,
    server_calls: false,
    compacted: false,
    off_line: false,
    order: Order::CallsLast,
    ..Palette::WIDE
};

impl Format for OpenAiChat {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonArray
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        Reading::one_by_one(items, |item, reading| read_message(item.json(), reading))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE.encode(conversation, |entries| {
            let replies = merged(entries, |entry| (entry.role == Role::Assistant).then_some(Role::Assistant));
            let messages: Vec<Json> = replies.iter().flat_map(write_entry).collect();
            json::write_array(&messages)
        })
    }
}

fn read_message(text: &str, reading: &mut Reading) -> Entry {
    let object = Object::within(text);
    let role = object.as_ref().and_then(|object| match object.text("role")?.as_str() {
        "function" => Some(Role::Tool),
        name => Role::from_name(name),
    });
    let (Some(object), Some(role)) = (object, role) else {
        reading.count_unknown("message");
        return Entry::record(verbatim(ID, MESSAGE, text, false));
    };
    let mut blocks: Vec<Block> = object.text("reasoning_content").map(thought).into_iter().collect();
    blocks.extend(read_content(object.get("content"), reading));
    blocks.extend(object.text("refusal").map(Block::Text));
    blocks.extend(read_calls(&object));
    if role == Role::Tool {
        let call_id = object.text("tool_call_id").or_else(|| object.text("name")).unwrap_or_default();
        blocks = vec![Block::ToolResult(ToolResult { call_id, content: blocks, is_error: false })];
    }
    let mut entry = Entry::new(role, blocks);
    entry.model = object.text("model");
    entry.usage = object.object("usage").map(|usage| Usage {
        input_tokens: usage.number("prompt_tokens").unwrap_or_default(),
        output_tokens: usage.number("completion_tokens").unwrap_or_default(),
        ..Usage::default()
    });
    entry
}

/// Vendors add what was thought; none of them signs it.
fn thought(text: String) -> Block {
    Block::Reasoning(Reasoning { text, ..Reasoning::default() })
}

fn read_content(raw: Option<&str>, reading: &mut Reading) -> Vec<Block> {
    let Some(raw) = raw else { return Vec::new() };
    if let Some(text) = json::text(raw) {
        return if text.is_empty() { Vec::new() } else { vec![Block::Text(text)] };
    }
    let parts = json::array(raw).unwrap_or_default().into_iter();
    parts
        .map(|part| {
            let object = Object::within(part);
            object.as_ref().and_then(read_part).unwrap_or_else(|| {
                let kind = object.and_then(|object| object.text("type")).unwrap_or_else(|| "untyped".to_owned());
                reading.count_unknown(format!("part {kind}"));
                Block::Verbatim(verbatim(ID, &kind, part, true))
            })
        })
        .collect()
}

pub(crate) fn read_part(part: &Object<'_>) -> Option<Block> {
    match part.text("type")?.as_str() {
        "text" => part.text("text").map(Block::Text),
        "refusal" => part.text("refusal").map(Block::Text),
        "image_url" => {
            let url =
                part.object("image_url").and_then(|image| image.text("url")).or_else(|| part.text("image_url"))?;
            Some(Block::Image(image_of_url(url)))
        }
        _ => None,
    }
}

/// The calls of an assistant's message, in today's form or the one before it.
pub(crate) fn read_calls(message: &Object<'_>) -> Vec<Block> {
    let calls = message.array("tool_calls").unwrap_or_default();
    let calls = calls.into_iter().filter_map(|call| read_call(&Object::within(call)?));
    let legacy = message.object("function_call").and_then(|function| {
        let name = function.text("name")?;
        Some(ToolCall { id: name.clone(), name, input: arguments(&function), server: false })
    });
    calls.chain(legacy).map(Block::ToolCall).collect()
}

fn read_call(call: &Object<'_>) -> Option<ToolCall> {
    let id = call.text("id")?;
    if let Some(custom) = call.object("custom") {
        let input = json::json_text(&custom.text_or_empty("input"));
        return Some(ToolCall { id, name: custom.text("name")?, input, server: false });
    }
    let function = call.object("function")?;
    Some(ToolCall { id, name: function.text("name")?, input: arguments(&function), server: false })
}

/// Arguments are a string that should hold JSON.
pub(crate) fn arguments(function: &Object<'_>) -> Json {
    match function.text("arguments") {
        Some(text) if text.trim().is_empty() => json::json("{}"),
        Some(text) => json::json_or_text(&text),
        None => function.json("arguments").unwrap_or_else(|| json::json("{}")),
    }
}

/// Results are messages of their own, and come before what else the entry says.
fn write_entry(entry: &Entry) -> Vec<Json> {
    if let Some(raw) = whole_message(entry) {
        return vec![raw.clone()];
    }
    let mut messages: Vec<Json> = entry.tool_results().map(write_result).collect();
    let rest: Vec<&Block> = entry.blocks.iter().filter(|block| block.as_tool_result().is_none()).collect();
    if !rest.is_empty() {
        messages.push(write_message(entry.role, &rest));
    }
    messages
}

fn write_result(result: &ToolResult) -> Json {
    let parts: Vec<&Block> = result.content.iter().collect();
    Writer::new()
        .member("role", "tool")
        .member("tool_call_id", &result.call_id)
        .member("content", &content(&parts))
        .json()
}

fn write_message(role: Role, blocks: &[&Block]) -> Json {
    let role = if role == Role::Tool { Role::User } else { role };
    let calls: Vec<Json> = blocks.iter().filter_map(|block| block.as_tool_call()).map(write_call).collect();
    let said: Vec<&Block> = blocks.iter().filter(|block| block.as_tool_call().is_none()).copied().collect();
    let message = Writer::new().member("role", role.as_str());
    let message = match said.as_slice() {
        [] => message.member("content", &None::<&str>),
        said => message.member("content", &content(said)),
    };
    let calls = (!calls.is_empty()).then(|| array(calls.into_iter()));
    message.optional("tool_calls", calls).json()
}

fn content(blocks: &[&Block]) -> Json {
    match blocks {
        [] => json::json_text(""),
        [Block::Text(text)] => json::json_text(text),
        blocks => array(blocks.iter().map(|block| write_part(block))),
    }
}

fn write_part(block: &Block) -> Json {
    match block {
        Block::Text(text) | Block::Compaction { summary: text } | Block::Reasoning(Reasoning { text, .. }) => {
            Writer::of("text").member("text", text).json()
        }
        Block::Image(image) => {
            let url = Writer::new().member("url", &image_url(image)).json();
            Writer::of("image_url").member("image_url", &url).json()
        }
        Block::Verbatim(verbatim) => raw_json(verbatim),
        Block::ToolCall(_) | Block::ToolResult(_) => {
            Writer::of("text").member("text", &crate::narrative::brief(block)).json()
        }
    }
}

fn write_call(call: &ToolCall) -> Json {
    let body = Writer::new().member("name", &call.name);
    let out = Writer::new().member("id", &call.id);
    match free_text(&call.input) {
        Some(input) => out.member("type", "custom").member("custom", &body.member("input", &input).json()).json(),
        None => {
            let function = body.member("arguments", call.input.get()).json();
            out.member("type", "function").member("function", &function).json()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str) {
        let conversation = OpenAiChat.decode(source.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(OpenAiChat.encode(&conversation).bytes).unwrap(), source);
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for source in [
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]"#,
            r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"N","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]"#,
            r#"[{"role":"assistant","content":"so","tool_calls":[{"id":"c","type":"custom","custom":{"name":"patch","input":"*** x"}}]}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"input_audio","input_audio":{}}]}]"#,
        ] {
            check(source);
        }
    }

    #[test]
    fn results_are_messages_of_their_own_and_errors_are_told() {
        let results = ["a", "b"].map(|id| {
            let content = vec![Block::Text("x".to_owned())];
            Block::ToolResult(ToolResult { call_id: id.to_owned(), content, is_error: id == "b" })
        });
        let conversation = Conversation { entries: vec![Entry::new(Role::Tool, results.to_vec())] };
        assert_eq!(
            String::from_utf8(OpenAiChat.encode(&conversation).bytes).unwrap(),
            concat!(
                r#"[{"role":"tool","tool_call_id":"a","content":"x"},"#,
                r#"{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"[error]"},{"type":"text","text":"x"}]}]"#
            )
        );
    }
}
