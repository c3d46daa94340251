//! `bureau-agent-v1`: a CBOR array of messages, as Bureau's own agent loop holds them.
//!
//! Maps have the names of the loop's fields as keys, every one of them present, with null for what is absent.

use enjamb_core::conversation::{Block, Conversation, Entry, Raw, Reasoning, Role, ToolCall, ToolResult, Verbatim};

use crate::adapt::{EmptyText, Images, Own, Palette, Results, Thoughts};
use crate::anthropic::{MESSAGE, acting};
use crate::cbor::{self, Map};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json;

pub(crate) const ID: &str = "bureau-agent-v1";

pub(crate) struct BureauAgent;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::Plain(crate::anthropic::PROVIDER),
    images: Images::Nowhere,
    results: Results::OneText,
    empty_text: EmptyText::OnlySpace,
    system: false,
    compaction: false,
    compacted: false,
    off_line: false,
    ..Palette::WIDE
};

/// The members of a block, of which one is not null, and the type that says which.
const PARTS: [(&str, &str); 6] = [
    ("Text", "text"),
    ("ToolUse", "tool_use"),
    ("ToolResult", "tool_result"),
    ("ServerToolUse", "server_tool_use"),
    ("ServerToolResult", "server_tool_result"),
    ("Thinking", "thinking"),
];

impl Format for BureauAgent {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::CborArray
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        Reading::one_by_one(items, |item, reading| read_message(item.cbor(), reading))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE
            .encode(conversation, |entries| cbor::write_array(&entries.iter().map(write_message).collect::<Vec<_>>()))
    }
}

fn read_message(bytes: &[u8], reading: &mut Reading) -> Entry {
    let known = Map::parse(bytes).and_then(|message| {
        let role = Role::from_name(&message.text("Role")?)?;
        let blocks = match message.get("Content") {
            Some(content) => cbor::elements(content).ok()?,
            None => Vec::new(),
        };
        Some((role, blocks))
    });
    let Some((role, blocks)) = known else {
        reading.count_unknown("message");
        return Entry::record(verbatim(MESSAGE, bytes, false));
    };
    let blocks: Vec<Block> = blocks.into_iter().map(|(_, block)| read_block(block, reading)).collect();
    Entry::new(acting(role, &blocks), blocks)
}

fn read_block(bytes: &[u8], reading: &mut Reading) -> Block {
    let block = Map::parse(bytes);
    let kind = block.as_ref().and_then(|block| block.text("Type")).unwrap_or_else(|| "untyped".to_owned());
    block.and_then(|block| known_block(&kind, &block)).unwrap_or_else(|| {
        if kind != "server_tool_result" {
            reading.count_unknown(format!("block {kind}"));
        }
        Block::Verbatim(verbatim(&kind, bytes, true))
    })
}

fn known_block(kind: &str, block: &Map<'_>) -> Option<Block> {
    Some(match kind {
        "text" => Block::Text(block.text("Text")?),
        "tool_use" => Block::ToolCall(read_call(&block.map("ToolUse")?, false)?),
        "server_tool_use" => Block::ToolCall(read_call(&block.map("ServerToolUse")?, true)?),
        "tool_result" => Block::ToolResult(read_result(&block.map("ToolResult")?)?),
        "thinking" => Block::Reasoning(read_thought(&block.map("Thinking")?)?),
        _ => return None,
    })
}

fn read_call(call: &Map<'_>, server: bool) -> Option<ToolCall> {
    let input = call.octets("Input").filter(|input| !input.is_empty()).unwrap_or_else(|| b"{}".to_vec());
    let input = json::json_or_text(&String::from_utf8_lossy(&input));
    Some(ToolCall { id: call.text("ID")?, name: call.text("Name")?, input, server })
}

fn read_result(result: &Map<'_>) -> Option<ToolResult> {
    let content = result.text("Content").filter(|text| !text.is_empty());
    let content = content.map(Block::Text).into_iter().collect();
    Some(ToolResult { call_id: result.text("ToolUseID")?, content, is_error: result.flag("IsError") })
}

fn read_thought(thought: &Map<'_>) -> Option<Reasoning> {
    let signature = thought.text("Signature").filter(|signature| !signature.is_empty());
    let provider = signature.is_some().then(|| crate::anthropic::PROVIDER.to_owned());
    Some(Reasoning { text: thought.text("Content")?, signature, encrypted: None, provider })
}

fn verbatim(kind: &str, bytes: &[u8], shown: bool) -> Verbatim {
    Verbatim { format: ID.to_owned(), kind: kind.to_owned(), content: Raw::Bytes(bytes.to_vec()), shown }
}

fn write_message(entry: &Entry) -> Vec<u8> {
    if let [Block::Verbatim(Verbatim { kind, content: Raw::Bytes(bytes), .. })] = entry.blocks.as_slice()
        && kind == MESSAGE
    {
        return bytes.clone();
    }
    let role = if entry.role == Role::Assistant { "assistant" } else { "user" };
    let blocks: Vec<Vec<u8>> = entry.blocks.iter().map(write_block).collect();
    cbor::write_map([("Role", cbor::write_text(role)), ("Content", cbor::write_array(&blocks))])
}

fn write_block(block: &Block) -> Vec<u8> {
    match block {
        Block::Text(text) | Block::Compaction { summary: text } => part("Text", cbor::write_text(text)),
        Block::ToolCall(call) => part(if call.server { "ServerToolUse" } else { "ToolUse" }, call_map(call)),
        Block::ToolResult(result) => part(
            "ToolResult",
            cbor::write_map([
                ("ToolUseID", cbor::write_text(&result.call_id)),
                ("Content", cbor::write_text(&result.text())),
                ("IsError", cbor::write_flag(result.is_error)),
            ]),
        ),
        Block::Reasoning(Reasoning { text, signature, .. }) => part(
            "Thinking",
            cbor::write_map([
                ("Content", cbor::write_text(text)),
                ("Signature", cbor::write_text(signature.as_deref().unwrap_or_default())),
            ]),
        ),
        Block::Verbatim(Verbatim { content: Raw::Bytes(bytes), .. }) => bytes.clone(),
        Block::Image(_) | Block::Verbatim(_) => part("Text", cbor::write_text(&crate::narrative::brief(block))),
    }
}

fn call_map(call: &ToolCall) -> Vec<u8> {
    cbor::write_map([
        ("ID", cbor::write_text(&call.id)),
        ("Name", cbor::write_text(&call.name)),
        ("Input", cbor::write_octets(call.input.get().as_bytes())),
    ])
}

/// A block with one part set and all others null. `Text` is a string and never null: absent, it is empty.
fn part(name: &str, value: Vec<u8>) -> Vec<u8> {
    let kind = PARTS.iter().find(|(part, _)| *part == name).map_or("text", |(_, kind)| kind);
    let members = PARTS.iter().map(|(part, _)| match *part {
        part if part == name => (part, value.clone()),
        "Text" => ("Text", cbor::write_text("")),
        part => (part, cbor::NULL.to_vec()),
    });
    cbor::write_map(members.chain([("Type", cbor::write_text(kind))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_bytes_that_bureau_gives_it() {
        let hex = "81a264526f6c65647573657267436f6e74656e7481a764546578746268696454797065647465787467546f6f6c557365f668\
                   5468696e6b696e67f66a546f6f6c526573756c74f66d536572766572546f6f6c557365f670536572766572546f6f6c526573\
                   756c74f6";
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let conversation = BureauAgent.decode(&bytes).unwrap();
        let [entry] = conversation.entries.as_slice() else { panic!("{conversation:?}") };
        assert_eq!((entry.role, entry.text().as_str()), (Role::User, "hi"));
        assert_eq!(BureauAgent.encode(&conversation).bytes, bytes);
    }

    #[test]
    fn server_results_are_kept_as_they_are() {
        let block = part("ServerToolResult", cbor::write_map([("X", cbor::write_int(1))]));
        let message =
            cbor::write_map([("Role", cbor::write_text("assistant")), ("Content", cbor::write_array(&[block]))]);
        let bytes = cbor::write_array(&[message]);
        assert!(BureauAgent.inspect(&bytes).unwrap().unknown.is_empty());
        assert_eq!(BureauAgent.encode(&BureauAgent.decode(&bytes).unwrap()).bytes, bytes);
    }
}
