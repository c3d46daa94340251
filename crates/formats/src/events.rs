//! `events-v1`: a CBOR array of events, as Bureau's wrappers capture them from every runtime.
//!
//! Each event is a map with a time in whole seconds, a type, and one member named after the type. JSON inside an event
//! is a byte string. A message of this format is an event: all of them count.

use enjamb_core::Timestamp;
use enjamb_core::conversation::{Block, Conversation, Entry, Raw, Reasoning, Role, ToolCall, ToolResult, Verbatim};

use crate::adapt::{EmptyText, Images, Own, Palette, Results, Thoughts};
use crate::cbor::{self, Map};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json;

pub(crate) const ID: &str = "events-v1";

pub(crate) struct Events;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::Plain(crate::anthropic::PROVIDER),
    images: Images::Nowhere,
    results: Results::OneText,
    empty_text: EmptyText::OnlySpace,
    system: false,
    compacted: false,
    off_line: false,
    ..Palette::WIDE
};

/// Who a prompt came from, when it was not typed.
const INJECTED: &str = "injected";
const SOURCE: &str = "source";
const COMPACTION: &str = "compact_boundary";

impl Format for Events {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::CborArray
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        Reading::one_by_one(items, |item, reading| read_event(item.cbor(), reading))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE.encode(conversation, |entries| {
            cbor::write_array(&entries.iter().flat_map(write_entry).collect::<Vec<_>>())
        })
    }
}

fn read_event(bytes: &[u8], reading: &mut Reading) -> Entry {
    let event = Map::parse(bytes);
    let kind = event.as_ref().and_then(|event| event.text("type")).unwrap_or_else(|| "untyped".to_owned());
    let body = event.as_ref().and_then(|event| event.map(&kind));
    let known = body.and_then(|body| known_event(&kind, &body));
    let is_known = known.is_some() || BOOKKEEPING.contains(&kind.as_str());
    let mut entry = known.unwrap_or_else(|| Entry::record(verbatim(&kind, bytes)));
    if !is_known {
        reading.count_unknown(kind);
    }
    entry.at = event.and_then(|event| event.int("timestamp")).and_then(seconds);
    entry
}

/// Types that are known and say nothing in the conversation.
const BOOKKEEPING: &[&str] = &["metric", "output", "error", "system"];

fn seconds(seconds: i64) -> Option<Timestamp> {
    seconds.checked_mul(1_000_000).map(Timestamp::from_micros)
}

fn verbatim(kind: &str, bytes: &[u8]) -> Verbatim {
    Verbatim { format: ID.to_owned(), kind: kind.to_owned(), content: Raw::Bytes(bytes.to_vec()), shown: false }
}

fn known_event(kind: &str, body: &Map<'_>) -> Option<Entry> {
    let content = || body.text("content");
    Some(match kind {
        "prompt" => {
            let mut entry = Entry::new(Role::User, vec![Block::Text(content()?)]);
            let source = body.text(SOURCE);
            entry.synthetic = source.as_deref() == Some(INJECTED);
            entry.set_attribute(SOURCE, source);
            entry
        }
        "response" => Entry::new(Role::Assistant, vec![Block::Text(content()?)]),
        "thinking" => Entry::new(Role::Assistant, vec![Block::Reasoning(read_thought(body)?)]),
        "tool_call" => Entry::new(Role::Assistant, vec![Block::ToolCall(read_call(body)?)]),
        "tool_result" => Entry::new(Role::Tool, vec![Block::ToolResult(read_result(body))]),
        "system" => return read_compaction(body),
        _ => return None,
    })
}

/// Signatures are Anthropic's: no other provider that these wrappers know signs what it thinks.
fn read_thought(body: &Map<'_>) -> Option<Reasoning> {
    let signature = body.text("signature").filter(|signature| !signature.is_empty());
    let provider = signature.is_some().then(|| crate::anthropic::PROVIDER.to_owned());
    Some(Reasoning { text: body.text("content")?, signature, encrypted: None, provider })
}

fn read_call(body: &Map<'_>) -> Option<ToolCall> {
    let input = body.octets("input").unwrap_or_default();
    let input = if input.is_empty() { "{}".into() } else { String::from_utf8_lossy(&input) };
    Some(ToolCall {
        id: body.text("id").unwrap_or_default(),
        name: body.text("name")?,
        input: json::json_or_text(&input),
        server: body.flag("server_tool"),
    })
}

fn read_result(body: &Map<'_>) -> ToolResult {
    let output = body.octets("output").unwrap_or_default();
    let output = String::from_utf8_lossy(&output).into_owned();
    let content = if output.is_empty() { Vec::new() } else { vec![Block::Text(output)] };
    ToolResult { call_id: body.text("id").unwrap_or_default(), content, is_error: body.flag("is_error") }
}

/// A boundary with a message and no record of another runtime's is a compaction that was written here.
fn read_compaction(body: &Map<'_>) -> Option<Entry> {
    let is_ours = body.text("subtype").as_deref() == Some(COMPACTION) && body.get("metadata").is_none();
    let summary = body.text("message").filter(|_| is_ours)?;
    Some(Entry::new(Role::User, vec![Block::Compaction { summary }]))
}

fn write_entry(entry: &Entry) -> Vec<Vec<u8>> {
    entry.blocks.iter().map(|block| write_event(entry, block)).collect()
}

fn write_event(entry: &Entry, block: &Block) -> Vec<u8> {
    let event = |kind: &str, body: Vec<u8>| {
        let at =
            entry.at.map_or_else(|| cbor::NULL.to_vec(), |at| cbor::write_int(at.as_micros().div_euclid(1_000_000)));
        cbor::write_map([("timestamp", at), ("type", cbor::write_text(kind)), (kind, body)])
    };
    match block {
        Block::Text(text) => text_event(entry, text, event),
        Block::Reasoning(Reasoning { text, signature, .. }) => {
            let signature = signature.as_deref().map(|text| ("signature", cbor::write_text(text)));
            event("thinking", cbor::write_map([("content", cbor::write_text(text))].into_iter().chain(signature)))
        }
        Block::ToolCall(call) => event("tool_call", call_body(call)),
        Block::ToolResult(result) => event("tool_result", result_body(result)),
        Block::Compaction { summary } => event(
            "system",
            cbor::write_map([("subtype", cbor::write_text(COMPACTION)), ("message", cbor::write_text(summary))]),
        ),
        Block::Verbatim(Verbatim { content: Raw::Bytes(bytes), .. }) => bytes.clone(),
        Block::Image(_) | Block::Verbatim(_) => text_event(entry, &crate::narrative::brief(block), event),
    }
}

fn text_event(entry: &Entry, text: &str, event: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let content = ("content", cbor::write_text(text));
    match entry.role {
        Role::Assistant => event("response", cbor::write_map([content])),
        Role::User | Role::System | Role::Developer | Role::Tool => {
            let given = if entry.synthetic { INJECTED } else { entry.attribute(SOURCE).unwrap_or("user") };
            event("prompt", cbor::write_map([content, (SOURCE, cbor::write_text(given))]))
        }
    }
}

fn call_body(call: &ToolCall) -> Vec<u8> {
    let id = (!call.id.is_empty()).then(|| ("id", cbor::write_text(&call.id)));
    let server = call.server.then(|| ("server_tool", cbor::write_flag(true)));
    let always = [("name", cbor::write_text(&call.name)), ("input", cbor::write_octets(call.input.get().as_bytes()))];
    cbor::write_map(always.into_iter().chain(id).chain(server))
}

fn result_body(result: &ToolResult) -> Vec<u8> {
    let output = result.text();
    let id = (!result.call_id.is_empty()).then(|| ("id", cbor::write_text(&result.call_id)));
    let is_error = result.is_error.then(|| ("is_error", cbor::write_flag(true)));
    let output = (!output.is_empty()).then(|| ("output", cbor::write_text(&output)));
    cbor::write_map(id.into_iter().chain(is_error).chain(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn an_event_has_the_bytes_that_bureau_gives_it() {
        let bytes = hex(
            "81a3647479706568726573706f6e736568726573706f6e7365a167636f6e74656e746268696974696d657374616d701a6955b900",
        );
        let conversation = Events.decode(&bytes).unwrap();
        let [entry] = conversation.entries.as_slice() else { panic!("{conversation:?}") };
        assert_eq!((entry.role, entry.text().as_str()), (Role::Assistant, "hi"));
        assert_eq!(entry.at, "2026-01-01T00:00:00Z".parse().ok());
        assert_eq!(Events.encode(&conversation).bytes, bytes);
    }

    #[test]
    fn every_event_counts_and_bookkeeping_is_kept() {
        let metric = cbor::write_map([
            ("type", cbor::write_text("metric")),
            ("metric", cbor::write_map([("input_tokens", cbor::write_int(5))])),
        ]);
        let odd = cbor::write_map([("type", cbor::write_text("smell"))]);
        let bytes = cbor::write_array(&[metric, odd, cbor::write_int(3)]);
        let found = Events.inspect(&bytes).unwrap();
        assert_eq!((found.messages, found.unknown.len()), (3, 2));
        assert_eq!(Events.encode(&Events.decode(&bytes).unwrap()).bytes, bytes);
    }

    #[test]
    fn a_call_keeps_its_json_in_bytes() {
        let call = cbor::write_map([("name", cbor::write_text("Read")), ("input", cbor::write_octets(b"{\"a\":1}"))]);
        let event = cbor::write_map([("type", cbor::write_text("tool_call")), ("tool_call", call)]);
        let conversation = Events.decode(&cbor::write_array(&[event])).unwrap();
        let calls: Vec<&str> = conversation.tool_calls().map(|call| call.input.get()).collect();
        assert_eq!(calls, ["{\"a\":1}"]);
    }
}
