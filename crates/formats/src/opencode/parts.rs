//! The parts of a message: texts, thoughts, tools with what they gave, files.

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Image, Reasoning, ToolCall, ToolResult};

use super::ID;
use crate::adapt::{image_of_url, image_url};
use crate::anthropic::{array, raw_json, verbatim};
use crate::format::Reading;
use crate::json::{self, Object, Writer};
use crate::verbatim::PART;

/// Parts that are known and say nothing to the model.
const BOOKKEEPING: &[&str] =
    &["agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start", "subtask"];

/// What a part says, and what a tool answered in it.
pub(super) struct Said {
    pub block: Option<Block>,
    pub answer: Option<ToolResult>,
}

impl Said {
    fn only(block: Block) -> Self {
        Self { block: Some(block), answer: None }
    }
}

pub(super) fn read_part(raw: &str, reading: &mut Reading) -> Said {
    let part = Object::within(raw);
    let kind = part.as_ref().and_then(|part| part.text("type")).unwrap_or_else(|| "untyped".to_owned());
    let known = part.and_then(|part| match kind.as_str() {
        "text" if part.flag("ignored") => Some(Said::only(kept(&kind, raw, false))),
        "text" => Some(Said::only(Block::Text(part.text("text")?))),
        "reasoning" => Some(Said::only(Block::Reasoning(read_thought(&part)?))),
        "tool" => read_tool(&part),
        "file" => Some(Said::only(read_file(&part).map_or_else(|| kept(&kind, raw, true), Block::Image))),
        kind if BOOKKEEPING.contains(&kind) => Some(Said::only(kept(kind, raw, false))),
        _ => None,
    });
    known.unwrap_or_else(|| {
        reading.count_unknown(format!("part {kind}"));
        Said::only(kept(&kind, raw, true))
    })
}

fn kept(kind: &str, raw: &str, shown: bool) -> Block {
    Block::Verbatim(verbatim(ID, &format!("{PART}{kind}"), raw, shown))
}

/// Where providers put what they sign and what they encrypt.
const SEALS: [(&str, bool); 4] =
    [("signature", false), ("thoughtSignature", false), ("reasoningEncryptedContent", true), ("reasoningOpaque", true)];

fn read_thought(part: &Object<'_>) -> Option<Reasoning> {
    let mut thought = Reasoning { text: part.text("text")?, ..Reasoning::default() };
    let Some(metadata) = part.object("metadata") else { return Some(thought) };
    let Some((provider, seal)) = metadata.members().find_map(|(name, raw)| Some((name, Object::within(raw)?))) else {
        return Some(thought);
    };
    thought.provider = (!provider.is_empty()).then(|| provider.to_owned());
    for (name, is_encrypted) in SEALS {
        let place = if is_encrypted { &mut thought.encrypted } else { &mut thought.signature };
        *place = seal.text(name).or(place.take());
    }
    Some(thought)
}

fn write_thought(thought: &Reasoning) -> Writer {
    let Reasoning { text, signature, encrypted, provider } = thought;
    let part = Writer::of("reasoning").member("text", text);
    if signature.is_none() && encrypted.is_none() && provider.is_none() {
        return part;
    }
    let (signed, sealed) = match provider.as_deref() {
        Some("google") => ("thoughtSignature", "reasoningEncryptedContent"),
        Some("copilot") => ("signature", "reasoningOpaque"),
        _ => ("signature", "reasoningEncryptedContent"),
    };
    let seal = Writer::new().optional(signed, signature.as_ref()).optional(sealed, encrypted.as_ref()).json();
    part.member("metadata", &Writer::new().member(provider.as_deref().unwrap_or_default(), &seal).json())
}

/// A call and, once it is over, what it gave. A part without an input answers a call that is not here.
fn read_tool(part: &Object<'_>) -> Option<Said> {
    let state = part.object("state")?;
    let id = part.text("callID")?;
    let call = match state.json("input") {
        Some(input) => Some(ToolCall { id: id.clone(), name: part.text("tool")?, input, server: false }),
        None => None,
    };
    let status = state.text("status")?;
    let text = state.text(if status == "error" { "error" } else { "output" });
    let mut content: Vec<Block> = text.filter(|text| !text.is_empty()).map(Block::Text).into_iter().collect();
    for raw in state.array("attachments").unwrap_or_default() {
        let image = Object::within(raw).and_then(|file| read_file(&file));
        content.push(image.map_or_else(|| kept("file", raw, true), Block::Image));
    }
    let is_over = status == "completed" || status == "error";
    let answer = is_over.then(|| ToolResult { call_id: id, content, is_error: status == "error" });
    Some(Said { block: call.map(Block::ToolCall), answer })
}

fn read_file(file: &Object<'_>) -> Option<Image> {
    let image = image_of_url(file.text("url")?);
    let is_image = file.text("mime").is_none_or(|mime| mime.starts_with("image/"));
    is_image.then_some(image)
}

pub(super) fn write_part(block: &Block) -> Writer {
    match block {
        Block::Text(text) | Block::Compaction { summary: text } => Writer::of("text").member("text", text),
        Block::Reasoning(thought) => write_thought(thought),
        Block::ToolCall(call) => write_tool(Some(call), None, 0),
        Block::ToolResult(result) => write_tool(None, Some(result), 0),
        Block::Image(image) => write_file(image),
        // Bytes are never this format's.
        Block::Verbatim(verbatim) => Writer::of("text").member("text", raw_json(verbatim).get()),
    }
}

fn write_file(image: &Image) -> Writer {
    let mime = image.media_type.as_deref();
    Writer::of("file").optional("mime", mime).member("url", &image_url(image))
}

pub(super) fn write_tool(call: Option<&ToolCall>, answer: Option<&ToolResult>, at_ms: i64) -> Writer {
    let id = call.map(|call| &call.id).or(answer.map(|answer| &answer.call_id));
    let (status, name) = match answer {
        None => ("pending", "output"),
        Some(ToolResult { is_error: true, .. }) => ("error", "error"),
        Some(_) => ("completed", "output"),
    };
    let content = answer.map_or(&[][..], |answer| answer.content.as_slice());
    let (text, rest) = match content.split_first() {
        Some((Block::Text(text), rest)) => (text.as_str(), rest),
        _ => ("", content),
    };
    let attachments = rest.iter().map(|block| match block {
        Block::Verbatim(verbatim) => raw_json(verbatim),
        other => write_part(other).json(),
    });
    let time = Writer::new().member("start", &at_ms).optional("end", answer.map(|_| at_ms)).json();
    let state = Writer::new()
        .member("status", status)
        .optional("input", call.map(|call| &call.input))
        .optional(name, answer.map(|_| text))
        .optional("title", answer.filter(|answer| !answer.is_error).map(|_| ""))
        .member("metadata", &json::json("{}"))
        .member("time", &time)
        .optional("attachments", (!rest.is_empty()).then(|| array(attachments)));
    let tool = call.map_or("unknown", |call| call.name.as_str());
    let id: &str = id.map_or("", String::as_str);
    Writer::of("tool").member("callID", id).member("tool", tool).member("state", &state.json())
}

/// A part under an id, as one of a message.
pub(super) fn placed(part: Writer, id: &str, session: &str, message: &str) -> Json {
    part.member("id", id).member("sessionID", session).member("messageID", message).json()
}
