//! The parts of a message, as Gemini's API has them: texts, thoughts, files, calls and responses.

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Image, ImageSource, Reasoning, ToolCall, ToolResult};

use super::{ID, PROVIDER};
use crate::anthropic::{array, raw_json, verbatim};
use crate::format::Reading;
use crate::json::{self, Object, Writer};
use crate::verbatim::PART;

pub(super) fn read_content(raw: Option<&str>, reading: &mut Reading) -> Vec<Block> {
    let Some(raw) = raw else { return Vec::new() };
    if let Some(text) = json::text(raw) {
        return if text.is_empty() { Vec::new() } else { vec![Block::Text(text)] };
    }
    match json::array(raw) {
        Some(parts) => parts.into_iter().map(|part| read_part(part, reading)).collect(),
        None => vec![read_part(raw, reading)],
    }
}

pub(super) fn read_part(raw: &str, reading: &mut Reading) -> Block {
    if let Some(text) = json::text(raw) {
        return Block::Text(text);
    }
    let part = Object::within(raw);
    part.as_ref().and_then(|part| known_part(part, reading)).unwrap_or_else(|| {
        let name = part.as_ref().and_then(|part| part.members().next().map(|(name, _)| name.to_owned()));
        let name = name.unwrap_or_else(|| "untyped".to_owned());
        reading.count_unknown(format!("part {name}"));
        Block::Verbatim(verbatim(ID, &format!("{PART}{name}"), raw, true))
    })
}

fn known_part(part: &Object<'_>, reading: &mut Reading) -> Option<Block> {
    if let Some(call) = part.object("functionCall") {
        return read_call(&call, "args").map(Block::ToolCall);
    }
    if let Some(response) = part.object("functionResponse") {
        return Some(Block::ToolResult(read_response(&response, reading)));
    }
    for (name, place) in [("inlineData", "data"), ("fileData", "fileUri")] {
        if let Some(file) = part.object(name) {
            return read_image(&file, place).map(Block::Image);
        }
    }
    let text = part.text("text")?;
    Some(if part.flag("thought") { Block::Reasoning(read_thought(part, text)) } else { Block::Text(text) })
}

fn read_thought(part: &Object<'_>, text: String) -> Reasoning {
    let signature = part.text("thoughtSignature").filter(|signature| !signature.is_empty());
    let provider = signature.is_some().then(|| PROVIDER.to_owned());
    Reasoning { text, signature, encrypted: None, provider }
}

pub(super) fn read_call(call: &Object<'_>, input: &str) -> Option<ToolCall> {
    let input = call.json(input).unwrap_or_else(|| json::json("{}"));
    Some(ToolCall { id: call.text_or_empty("id"), name: call.text("name")?, input, server: false })
}

fn read_image(file: &Object<'_>, place: &str) -> Option<Image> {
    let media_type = file.text("mimeType");
    let is_image = media_type.as_ref().is_none_or(|media_type| media_type.starts_with("image/"));
    let place_text = file.text(place).filter(|_| is_image)?;
    let source = if place == "data" { ImageSource::Base64(place_text) } else { ImageSource::Url(place_text) };
    Some(Image { media_type, source })
}

/// A tool's answer: its output or its error, or an object of its own making; and what it shows besides.
pub(super) fn read_response(response: &Object<'_>, reading: &mut Reading) -> ToolResult {
    let said = response.object("response");
    let error = said.as_ref().and_then(|said| said.get("error"));
    let told = error.or_else(|| said.as_ref().and_then(|said| said.get("output"))).or(response.get("response"));
    // An answer without words is an empty object.
    let told = told.map(|told| json::text(told).unwrap_or_else(|| json::compact(told))).filter(|told| told != "{}");
    let mut content: Vec<Block> = told.map(Block::Text).into_iter().collect();
    let shown = response.array("parts").unwrap_or_default();
    content.extend(shown.into_iter().map(|part| read_part(part, reading)));
    ToolResult { call_id: response.text_or_empty("id"), content, is_error: error.is_some() }
}

pub(super) fn write_parts<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Json {
    array(blocks.into_iter().map(write_part))
}

pub(super) fn write_part(block: &Block) -> Json {
    let part = match block {
        Block::Text(text) | Block::Compaction { summary: text } => Writer::new().member("text", text),
        Block::Reasoning(Reasoning { text, signature, .. }) => {
            let part = Writer::new().member("text", text).member("thought", &true);
            part.optional("thoughtSignature", signature.as_ref())
        }
        Block::ToolCall(call) => {
            let told = Writer::new().member("id", &call.id).member("name", &call.name).member("args", &call.input);
            Writer::new().member("functionCall", &told.json())
        }
        Block::ToolResult(result) => return write_result(result, ""),
        Block::Image(Image { media_type, source }) => {
            let file = Writer::new().optional("mimeType", media_type.as_ref());
            match source {
                ImageSource::Base64(text) => Writer::new().member("inlineData", &file.member("data", text).json()),
                ImageSource::Url(url) => Writer::new().member("fileData", &file.member("fileUri", url).json()),
            }
        }
        Block::Verbatim(verbatim) => return raw_json(verbatim),
    };
    part.json()
}

pub(super) fn write_result(result: &ToolResult, name: &str) -> Json {
    let (first, rest) = match result.content.split_first() {
        Some((Block::Text(text), rest)) if text != "{}" => (json::json_text(text), rest),
        _ => (json::json("{}"), result.content.as_slice()),
    };
    let said = Writer::new().member(if result.is_error { "error" } else { "output" }, &first);
    let response = Writer::new().member("id", &result.call_id).member("name", name).member("response", &said.json());
    let shown = (!rest.is_empty()).then(|| write_parts(rest));
    Writer::new().member("functionResponse", &response.optional("parts", shown).json()).json()
}
