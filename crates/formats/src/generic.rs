//! `generic-v1`: lines of `{"role": …, "content": …}`, for runtimes without a format of their own.
//!
//! Content is a string or an array of parts. Parts are those below, which say everything that a conversation can say, so
//! that nothing is lost in this format; parts as Anthropic's and OpenAI's APIs have them are understood as well.
//! A line may also bear `id`, `parent_id`, `timestamp`, `model`, `usage`, `attributes`, `standing` and `synthetic`.

use enjamb_core::Json;
use enjamb_core::conversation::{
    Block, Conversation, Entry, Image, ImageSource, Raw, Reasoning, Role, Standing, ToolCall, ToolResult, Usage,
    Verbatim,
};

use crate::adapt::Palette;
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};
use crate::{anthropic, chat};

pub(crate) const ID: &str = "generic-v1";

pub(crate) struct Generic;

/// Results within results are read this deep; what is deeper stays verbatim.
const DEPTH_MAX: u32 = 4;

impl Format for Generic {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        Reading::one_by_one(items, |item, reading| read_line(item.json(), reading))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        Palette::WIDE
            .encode(conversation, |entries| json::write_lines(&entries.iter().map(write_line).collect::<Vec<Json>>()))
    }
}

fn read_line(text: &str, reading: &mut Reading) -> Entry {
    let object = Object::within(text);
    let role = object.as_ref().and_then(|object| role_of(&object.text("role")?));
    let (Some(object), Some(role)) = (object, role) else {
        reading.count_unknown("line");
        return Entry::record(anthropic::verbatim(ID, "line", text, false));
    };
    let mut blocks = read_content(object.get("content"), reading, 0);
    blocks.extend(chat::read_calls(&object));
    if let Some(call_id) = object.text("tool_call_id").filter(|_| role == Role::Tool) {
        blocks = vec![Block::ToolResult(ToolResult { call_id, content: blocks, is_error: object.flag("is_error") })];
    }
    let mut entry = Entry::new(anthropic::acting(role, &blocks), blocks);
    read_envelope(&object, &mut entry);
    entry
}

/// The roles, and what else they are called.
fn role_of(name: &str) -> Option<Role> {
    match name {
        "human" => Some(Role::User),
        "ai" | "model" => Some(Role::Assistant),
        "function" => Some(Role::Tool),
        _ => Role::from_name(name),
    }
}

fn read_envelope(object: &Object<'_>, entry: &mut Entry) {
    entry.id = object.text("id");
    entry.parent_id = object.text("parent_id");
    entry.at = object.text("timestamp").and_then(|text| text.parse().ok());
    entry.model = object.text("model");
    entry.usage = object.object("usage").map(|usage| read_usage(&usage));
    entry.synthetic = object.flag("synthetic");
    let named = object.text("standing");
    let standings = [Standing::Context, Standing::Compacted, Standing::Abandoned, Standing::Sidechain];
    let standing = standings.into_iter().find(|standing| Some(standing.as_str()) == named.as_deref());
    entry.standing = standing.unwrap_or_default();
    if let Some(attributes) = object.object("attributes") {
        for (name, value) in attributes.members() {
            entry.set_attribute(name, json::text(value));
        }
    }
}

fn read_usage(usage: &Object<'_>) -> Usage {
    let count = |keys: [&str; 2]| keys.iter().find_map(|key| usage.number(key)).unwrap_or_default();
    Usage {
        input_tokens: count(["input_tokens", "prompt_tokens"]),
        output_tokens: count(["output_tokens", "completion_tokens"]),
        cache_read_tokens: count(["cache_read_tokens", "cache_read_input_tokens"]),
        cache_write_tokens: count(["cache_write_tokens", "cache_creation_input_tokens"]),
        provisional: usage.flag("provisional"),
    }
}

fn read_content(raw: Option<&str>, reading: &mut Reading, depth: u32) -> Vec<Block> {
    let Some(raw) = raw else { return Vec::new() };
    if let Some(text) = json::text(raw) {
        return vec![Block::Text(text)];
    }
    json::array(raw).unwrap_or_default().into_iter().map(|part| read_part(part, reading, depth)).collect()
}

fn read_part(raw: &str, reading: &mut Reading, depth: u32) -> Block {
    let object = Object::within(raw);
    let own = object.as_ref().and_then(|object| own_part(object, reading, depth));
    own.or_else(|| chat::read_part(object.as_ref()?)).unwrap_or_else(|| anthropic::read_block(raw, Role::User, reading))
}

fn own_part(object: &Object<'_>, reading: &mut Reading, depth: u32) -> Option<Block> {
    Some(match object.text("type")?.as_str() {
        "text" => Block::Text(object.text("text")?),
        "reasoning" => Block::Reasoning(Reasoning {
            text: object.text_or_empty("text"),
            signature: object.text("signature"),
            encrypted: object.text("encrypted"),
            provider: object.text("provider"),
        }),
        "tool_call" => Block::ToolCall(ToolCall {
            id: object.text("id")?,
            name: object.text("name")?,
            input: object.json("input").unwrap_or_else(|| json::json("{}")),
            server: object.flag("server"),
        }),
        "tool_result" if depth < DEPTH_MAX => Block::ToolResult(ToolResult {
            call_id: object.text("call_id")?,
            content: read_content(object.get("content"), reading, depth + 1),
            is_error: object.flag("is_error"),
        }),
        "image" => Block::Image(read_image(object)?),
        "compaction" => Block::Compaction { summary: object.text("summary")? },
        "verbatim" => Block::Verbatim(read_verbatim(object)?),
        _ => return None,
    })
}

fn read_image(object: &Object<'_>) -> Option<Image> {
    let source = match (object.text("data"), object.text("url")) {
        (Some(text), _) => ImageSource::Base64(text),
        (None, Some(url)) => ImageSource::Url(url),
        (None, None) => return None,
    };
    Some(Image { media_type: object.text("media_type"), source })
}

fn read_verbatim(object: &Object<'_>) -> Option<Verbatim> {
    let content = match (object.json("json"), object.text("bytes")) {
        (Some(json), _) => Raw::Json(json),
        (None, Some(hex)) => Raw::Bytes(from_hex(&hex)?),
        (None, None) => return None,
    };
    Some(Verbatim { format: object.text("format")?, kind: object.text("kind")?, content, shown: object.flag("shown") })
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() {
        return None;
    }
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn write_line(entry: &Entry) -> Json {
    // A line of ours that was no message goes back as it came.
    if let [Block::Verbatim(Verbatim { format, kind, content: Raw::Json(raw), .. })] = entry.blocks.as_slice()
        && format == ID
        && kind == "line"
    {
        return raw.clone();
    }
    let content = match entry.blocks.as_slice() {
        [Block::Text(text)] => json::json_text(text),
        blocks => parts(blocks),
    };
    let standing = (entry.standing != Standing::Context).then_some(entry.standing.as_str());
    let line = Writer::new()
        .member("role", entry.role.as_str())
        .member("content", &content)
        .optional("id", entry.id.as_ref())
        .optional("parent_id", entry.parent_id.as_ref())
        .optional("timestamp", entry.at.map(|at| at.to_string()))
        .optional("model", entry.model.as_ref())
        .optional("usage", entry.usage.map(write_usage))
        .optional("standing", standing)
        .optional("synthetic", entry.synthetic.then_some(true));
    let attributes = (!entry.attributes.is_empty()).then_some(&entry.attributes);
    line.optional("attributes", attributes).json()
}

fn write_usage(usage: Usage) -> Json {
    Writer::new()
        .member("input_tokens", &usage.input_tokens)
        .member("output_tokens", &usage.output_tokens)
        .member("cache_read_tokens", &usage.cache_read_tokens)
        .member("cache_write_tokens", &usage.cache_write_tokens)
        .optional("provisional", usage.provisional.then_some(true))
        .json()
}

fn parts(blocks: &[Block]) -> Json {
    anthropic::array(blocks.iter().map(write_part))
}

fn write_part(block: &Block) -> Json {
    match block {
        Block::Text(text) => Writer::of("text").member("text", text).json(),
        Block::Reasoning(Reasoning { text, signature, encrypted, provider }) => Writer::of("reasoning")
            .member("text", text)
            .optional("signature", signature.as_ref())
            .optional("encrypted", encrypted.as_ref())
            .optional("provider", provider.as_ref())
            .json(),
        Block::ToolCall(call) => Writer::of("tool_call")
            .member("id", &call.id)
            .member("name", &call.name)
            .member("input", &call.input)
            .optional("server", call.server.then_some(true))
            .json(),
        Block::ToolResult(result) => Writer::of("tool_result")
            .member("call_id", &result.call_id)
            .member("content", &parts(&result.content))
            .optional("is_error", result.is_error.then_some(true))
            .json(),
        Block::Image(Image { media_type, source }) => {
            let image = Writer::of("image").optional("media_type", media_type.as_ref());
            match source {
                ImageSource::Base64(text) => image.member("data", text).json(),
                ImageSource::Url(url) => image.member("url", url).json(),
            }
        }
        Block::Compaction { summary } => Writer::of("compaction").member("summary", summary).json(),
        Block::Verbatim(verbatim) => write_verbatim(verbatim),
    }
}

fn write_verbatim(verbatim: &Verbatim) -> Json {
    let part = Writer::of("verbatim").member("format", &verbatim.format).member("kind", &verbatim.kind);
    let part = part.optional("shown", verbatim.shown.then_some(true));
    match &verbatim.content {
        Raw::Json(json) => part.member("json", json).json(),
        Raw::Bytes(bytes) => part.member("bytes", &to_hex(bytes)).json(),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_role_and_what_it_says() {
        let lines = concat!(
            r#"{"role":"user","content":"hi","timestamp":"2026-01-02T03:04:05Z"}"#,
            "\n",
            r#"{"role":"ai","content":[{"type":"text","text":"ho"},{"type":"tool_use","id":"t","name":"N","input":{}}]}"#,
            "\n",
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"u","function":{"name":"M","arguments":"{}"}}]}"#,
            "\n",
            r#"{"role":"tool","tool_call_id":"u","content":"ok"}"#,
            "\n",
            r#"{"mood":"odd"}"#,
        );
        let found = Generic.inspect(lines.as_bytes()).unwrap();
        assert_eq!((found.messages, found.records, found.unknown["line"]), (4, 5, 1));
        let conversation = Generic.decode(lines.as_bytes()).unwrap();
        let names: Vec<&str> = conversation.tool_calls().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["N", "M"]);
        assert_eq!(conversation.entries[3].tool_results().next().map(ToolResult::text).as_deref(), Some("ok"));
    }

    #[test]
    fn a_plain_message_is_written_plainly() {
        let entries = vec![Entry::new(Role::User, vec![Block::Text("hi".to_owned())])];
        let bytes = Generic.encode(&Conversation { entries }).bytes;
        assert_eq!(bytes, b"{\"role\":\"user\",\"content\":\"hi\"}\n");
    }
}
