//! `anthropic-messages-v1`: a JSON array of messages, as Anthropic's API takes them; and the content blocks that
//! Claude Code's transcripts share with it.

use enjamb_core::Json;
use enjamb_core::conversation::{
    Block, Conversation, Entry, Image, ImageSource, Raw, Reasoning, Role, ToolCall, ToolResult, Usage, Verbatim,
};

use crate::adapt::{EmptyText, Images, Order, Own, Palette, Thoughts, merged};
use crate::check;
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};
use crate::problem::Problem;

pub(crate) const ID: &str = "anthropic-messages-v1";
pub(crate) const PROVIDER: &str = "anthropic";

pub(crate) struct AnthropicMessages;

pub(crate) const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::Signed(PROVIDER),
    images: Images::Anywhere,
    system: false,
    free_input: false,
    compaction: false,
    compacted: false,
    off_line: false,
    empty_text: EmptyText::Dropped,
    any_id: false,
    order: Order::ResultsFirst,
    ..Palette::WIDE
};

impl Format for AnthropicMessages {
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
            let side = |entry: &Entry| whole_message(entry).is_none().then_some(side(entry.role));
            let messages: Vec<Json> = merged(entries, side).iter().map(write_message).collect();
            json::write_array(&messages)
        })
    }

    fn check(&self, reading: &Reading) -> Vec<Problem> {
        check::anthropic(reading)
    }
}

fn read_message(text: &str, reading: &mut Reading) -> Entry {
    let object = Object::within(text);
    let role = object.as_ref().and_then(|object| Role::from_name(&object.text("role")?));
    let (Some(object), Some(role)) = (object, role) else {
        reading.count_unknown("message");
        return Entry::record(verbatim(ID, MESSAGE, text, false));
    };
    let blocks = read_content(object.get("content"), role, reading);
    let mut entry = Entry::new(acting(role, &blocks), blocks);
    entry.id = object.text("id");
    entry.model = object.text("model");
    entry.usage = object.object("usage").map(|usage| read_usage(&usage));
    entry
}

/// Results come under the user's role; when nothing else does, the tools are who speaks.
pub(crate) fn acting(role: Role, blocks: &[Block]) -> Role {
    let only_results = !blocks.is_empty() && blocks.iter().all(|block| block.as_tool_result().is_some());
    if role == Role::User && only_results { Role::Tool } else { role }
}

/// A string, or an array of blocks.
pub(crate) fn read_content(raw: Option<&str>, role: Role, reading: &mut Reading) -> Vec<Block> {
    let Some(raw) = raw else { return Vec::new() };
    if let Some(text) = read_words(raw, role, reading) {
        return vec![Block::Text(text)];
    }
    json::array(raw).unwrap_or_default().into_iter().map(|block| read_block(block, role, reading)).collect()
}

/// What a person said is wanted by whoever reads.
fn read_words(raw: &str, role: Role, reading: &mut Reading) -> Option<String> {
    if role == Role::Assistant { reading.bulk(raw) } else { json::text(raw) }
}

pub(crate) fn read_block(raw: &str, role: Role, reading: &mut Reading) -> Block {
    let known = Object::within(raw).and_then(|object| known_block(&object, role, reading));
    known.unwrap_or_else(|| {
        let kind = kind_of(raw);
        reading.count_unknown(format!("block {kind}"));
        Block::Verbatim(verbatim(ID, &kind, raw, true))
    })
}

fn known_block(object: &Object<'_>, role: Role, reading: &mut Reading) -> Option<Block> {
    Some(match object.text("type")?.as_str() {
        "text" => Block::Text(read_words(object.get("text")?, role, reading)?),
        "thinking" => Block::Reasoning(Reasoning {
            text: object.get("thinking").and_then(|raw| reading.bulk(raw)).unwrap_or_default(),
            signature: object.text("signature").filter(|signature| !signature.is_empty()),
            encrypted: None,
            provider: Some(PROVIDER.to_owned()),
        }),
        "redacted_thinking" => Block::Reasoning(Reasoning {
            encrypted: Some(object.text("data")?),
            provider: Some(PROVIDER.to_owned()),
            ..Reasoning::default()
        }),
        "tool_use" => Block::ToolCall(read_call(object, false, reading)?),
        "server_tool_use" => Block::ToolCall(read_call(object, true, reading)?),
        "tool_result" => Block::ToolResult(read_result(object, reading)?),
        "image" => Block::Image(read_image(object)?),
        _ => return None,
    })
}

fn read_call(object: &Object<'_>, server: bool, reading: &mut Reading) -> Option<ToolCall> {
    let input = reading.bulk_json(object.get("input").unwrap_or("{}"));
    Some(ToolCall { id: object.text("id")?, name: object.text("name")?, input, server })
}

fn read_result(object: &Object<'_>, reading: &mut Reading) -> Option<ToolResult> {
    let content = match object.get("content") {
        None => Vec::new(),
        Some(raw) => match reading.bulk(raw) {
            Some(text) if text.is_empty() => Vec::new(),
            Some(text) => vec![Block::Text(text)],
            None => json::array(raw)?.into_iter().map(|part| read_part(part, reading)).collect(),
        },
    };
    Some(ToolResult { call_id: object.text("tool_use_id")?, content, is_error: object.flag("is_error") })
}

/// Results hold text and images; a result in a result is kept as it is, so that nothing nests without end.
fn read_part(raw: &str, reading: &mut Reading) -> Block {
    let object = Object::within(raw);
    let part = object.and_then(|object| match object.text("type")?.as_str() {
        "text" => reading.bulk(object.get("text")?).map(Block::Text),
        "image" => read_image(&object).map(Block::Image),
        _ => None,
    });
    part.unwrap_or_else(|| {
        let kind = kind_of(raw);
        reading.count_unknown(format!("block {kind}"));
        Block::Verbatim(verbatim(ID, &kind, raw, true))
    })
}

fn read_image(object: &Object<'_>) -> Option<Image> {
    let source = object.object("source")?;
    let media_type = source.text("media_type");
    match source.text("type")?.as_str() {
        "base64" => Some(Image { media_type, source: ImageSource::Base64(source.text("data")?) }),
        "url" => Some(Image { media_type, source: ImageSource::Url(source.text("url")?) }),
        _ => None,
    }
}

pub(crate) fn read_usage(usage: &Object<'_>) -> Usage {
    let count = |key| usage.number(key).unwrap_or_default();
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        cache_write_tokens: count("cache_creation_input_tokens"),
        provisional: false,
    }
}

fn kind_of(raw: &str) -> String {
    Object::within(raw).and_then(|object| object.text("type")).unwrap_or_else(|| "untyped".to_owned())
}

pub(crate) fn verbatim(format: &str, kind: &str, raw: &str, shown: bool) -> Verbatim {
    Verbatim { format: format.to_owned(), kind: kind.to_owned(), content: Raw::Json(json::json(raw)), shown }
}

/// What an item of an array is called that should be a message and is none that can be read.
pub(crate) const MESSAGE: &str = "record/message";

/// Such an item, to go back as it came.
pub(crate) fn whole_message(entry: &Entry) -> Option<&Json> {
    match entry.blocks.as_slice() {
        [Block::Verbatim(Verbatim { kind, content: Raw::Json(raw), .. })] if kind == MESSAGE => Some(raw),
        _ => None,
    }
}

fn side(role: Role) -> Role {
    match role {
        Role::Assistant => Role::Assistant,
        Role::User | Role::System | Role::Developer | Role::Tool => Role::User,
    }
}

fn write_message(entry: &Entry) -> Json {
    if let Some(raw) = whole_message(entry) {
        return raw.clone();
    }
    let content = write_content(&results_first(&entry.blocks));
    Writer::new().member("role", side(entry.role).as_str()).member("content", &content).json()
}

/// The API wants the answers to a reply's calls before anything else that a user says.
fn results_first(blocks: &[Block]) -> Vec<&Block> {
    let (mut ordered, rest): (Vec<&Block>, Vec<&Block>) =
        blocks.iter().partition(|block| block.as_tool_result().is_some());
    ordered.extend(rest);
    ordered
}

/// A lone text as a string, else an array of blocks.
pub(crate) fn write_content(blocks: &[&Block]) -> Json {
    match blocks {
        [Block::Text(text)] => json::json_text(text),
        _ => array(blocks.iter().map(|block| write_block(block))),
    }
}

pub(crate) fn array(items: impl Iterator<Item = Json>) -> Json {
    let items: Vec<Json> = items.collect();
    let bytes = json::write_array(&items);
    Json::parse(String::from_utf8(bytes).expect("JSON is text")).expect("an array was written")
}

pub(crate) fn write_block(block: &Block) -> Json {
    match block {
        Block::Text(text) | Block::Compaction { summary: text } => Writer::of("text").member("text", text).json(),
        Block::Reasoning(Reasoning { encrypted: Some(data), .. }) => {
            Writer::of("redacted_thinking").member("data", data).json()
        }
        Block::Reasoning(Reasoning { text, signature, .. }) => Writer::of("thinking")
            .member("thinking", text)
            .member("signature", signature.as_deref().unwrap_or_default())
            .json(),
        Block::ToolCall(call) => Writer::of(if call.server { "server_tool_use" } else { "tool_use" })
            .member("id", &call.id)
            .member("name", &call.name)
            .member("input", &call.input)
            .json(),
        Block::ToolResult(result) => write_result(result),
        Block::Image(image) => write_image(image),
        Block::Verbatim(verbatim) => raw_json(verbatim),
    }
}

fn write_result(result: &ToolResult) -> Json {
    let parts: Vec<&Block> = result.content.iter().collect();
    let content = if parts.is_empty() { json::json_text("") } else { write_content(&parts) };
    Writer::of("tool_result")
        .member("tool_use_id", &result.call_id)
        .member("content", &content)
        .optional("is_error", result.is_error.then_some(true))
        .json()
}

fn write_image(Image { media_type, source }: &Image) -> Json {
    let source = match source {
        ImageSource::Base64(text) => {
            Writer::of("base64").optional("media_type", media_type.as_ref()).member("data", text).json()
        }
        ImageSource::Url(url) => {
            Writer::of("url").optional("media_type", media_type.as_ref()).member("url", url).json()
        }
    };
    Writer::of("image").member("source", &source).json()
}

/// What was kept of a block. Bytes cannot be written as JSON, and no format of JSON keeps any.
pub(crate) fn raw_json(verbatim: &Verbatim) -> Json {
    match &verbatim.content {
        Raw::Json(json) => json.clone(),
        Raw::Bytes(bytes) => json::json_text(&String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let conversation = AnthropicMessages.decode(source.as_bytes()).unwrap();
        let written = String::from_utf8(AnthropicMessages.encode(&conversation).bytes).unwrap();
        assert_eq!(written, expected);
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for source in [
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"a"}]}]"#,
            r#"[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"t","name":"N","input":{"b":1,"a":1e400}}]}]"#,
            r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}],"is_error":true}]}]"#,
            r#"[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"d"}},{"type":"text","text":"read"}]}]"#,
            "[]",
        ] {
            check(source, source);
        }
    }

    #[test]
    fn one_side_is_one_message_and_its_results_come_first() {
        check(
            r#"[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"tool_result","tool_use_id":"t","content":""}]}]"#,
            r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":""},{"type":"text","text":"a"},{"type":"text","text":"b"}]}]"#,
        );
    }

    #[test]
    fn what_is_no_message_is_kept_and_counted() {
        let source = r#"[{"role":"oracle"},7]"#;
        check(source, source);
        assert_eq!(AnthropicMessages.inspect(source.as_bytes()).unwrap().unknown["message"], 2);
    }
}
