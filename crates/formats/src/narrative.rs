//! A conversation told in Markdown, for a reader who cannot go on from it but should know what it knew.
//!
//! The same conversation always gives the same text. Long results are shortened, with a note of how much is missing.

use std::fmt::Write;

use enjamb_core::conversation::{
    Block, Conversation, Entry, Image, ImageSource, Raw, Reasoning, Role, Standing, ToolCall, ToolResult, Verbatim,
};

use crate::fidelity::{Encoded, Fate, Outcome};

/// Bytes of a result, an input or a record that are told before the rest is left out.
const RESULT_BYTES_MAX: usize = 2_000;
const INPUT_BYTES_MAX: usize = 1_000;
const REASONING_BYTES_MAX: usize = 1_000;

pub fn render(conversation: &Conversation) -> String {
    let mut out = String::from("# Conversation so far\n");
    overview(conversation, &mut out);
    for entry in conversation.entries.iter().filter(|entry| is_told(entry)) {
        entry_text(entry, &mut out);
    }
    out
}

/// The narrative as the outcome of a translation: told where it is told, dropped where it is not.
pub fn encode(conversation: &Conversation) -> Encoded {
    let mut ledger = Vec::new();
    for (index, entry) in conversation.entries.iter().enumerate() {
        for (block, found) in entry.blocks.iter().enumerate() {
            let (outcome, reason) = fate_of(entry, found);
            ledger.push(Fate { entry: index, block, outcome, reason });
        }
    }
    Encoded { bytes: render(conversation).into_bytes(), ledger }
}

fn fate_of(entry: &Entry, block: &Block) -> (Outcome, &'static str) {
    if !entry.is_current() {
        (Outcome::Dropped, "not on the main line")
    } else if block_text(block).is_empty() {
        (Outcome::Dropped, "nothing in it can be told")
    } else {
        (Outcome::Rendered, "told in prose")
    }
}

fn is_told(entry: &Entry) -> bool {
    entry.is_current() && entry.blocks.iter().any(|block| !block_text(block).is_empty())
}

fn overview(conversation: &Conversation, out: &mut String) {
    let messages = conversation.message_count();
    let _ = writeln!(out, "\n- {messages} {}", if messages == 1 { "message" } else { "messages" });
    if let Some((first, last)) = conversation.time_span() {
        let _ = writeln!(out, "- from {first} to {last}");
    }
    let models = conversation.models();
    list(out, "models", models.iter().map(String::as_str));
    let tools = conversation.tool_names();
    let tools: Vec<String> = tools.iter().map(|(name, count)| format!("{} ×{count}", one_line(name))).collect();
    list(out, "tools called", tools.iter().map(String::as_str));
    let files = conversation.files_touched();
    list(out, "files read", files.read.iter().map(String::as_str));
    list(out, "files written", files.written.iter().map(String::as_str));
}

fn list<'a>(out: &mut String, what: &str, names: impl Iterator<Item = &'a str>) {
    let names: Vec<String> = names.map(one_line).collect();
    if !names.is_empty() {
        let _ = writeln!(out, "- {what}: {}", names.join(", "));
    }
}

fn entry_text(entry: &Entry, out: &mut String) {
    let _ = write!(out, "\n## {}", heading(entry));
    if let Some(at) = entry.at {
        let _ = write!(out, " ({at})");
    }
    out.push('\n');
    for text in entry.blocks.iter().map(block_text).filter(|text| !text.is_empty()) {
        let _ = write!(out, "\n{}\n", text.trim_end());
    }
}

fn heading(entry: &Entry) -> &'static str {
    match (entry.role, entry.standing, entry.synthetic) {
        (Role::User, Standing::Context | Standing::Compacted, false) => "User",
        (Role::User, _, _) => "Harness",
        (Role::Assistant, _, _) => "Assistant",
        (Role::System | Role::Developer, _, _) => "System",
        (Role::Tool, _, _) => "Tool results",
    }
}

/// A block in Markdown; empty where there is nothing to tell.
fn block_text(block: &Block) -> String {
    match block {
        Block::Text(text) => text.trim().to_owned(),
        Block::Reasoning(Reasoning { text, .. }) if text.trim().is_empty() => String::new(),
        Block::Reasoning(Reasoning { text, .. }) => {
            quoted(&format!("Thought: {}", shortened(text.trim(), REASONING_BYTES_MAX)))
        }
        Block::Verbatim(Verbatim { shown: false, .. }) => String::new(),
        Block::ToolCall(_) | Block::ToolResult(_) | Block::Image(_) | Block::Compaction { .. } | Block::Verbatim(_) => {
            brief(block)
        }
    }
}

/// A block in prose, for a place that has no room for it as it is.
pub(crate) fn brief(block: &Block) -> String {
    match block {
        Block::Text(text) | Block::Reasoning(Reasoning { text, .. }) => text.clone(),
        Block::ToolCall(ToolCall { name, input, .. }) => {
            format!("Called tool `{}`:\n\n{}", one_line(name), fenced(&shortened(input.get(), INPUT_BYTES_MAX)))
        }
        Block::ToolResult(result) => result_text(result),
        Block::Image(image) => image_text(image),
        Block::Compaction { summary } => {
            format!("Summary of the conversation before this point:\n\n{}", summary.trim())
        }
        Block::Verbatim(verbatim) => verbatim_text(verbatim),
    }
}

fn result_text(result: &ToolResult) -> String {
    let what = if result.is_error { "Error" } else { "Result" };
    let images = result.content.len() - result.content.iter().filter(|block| block.as_text().is_some()).count();
    let others = if images > 0 { format!(" ({images} parts that are not text left out)") } else { String::new() };
    let text = result.text();
    if text.trim().is_empty() {
        return format!("{what}: nothing{others}.");
    }
    format!("{what}{others}:\n\n{}", fenced(&shortened(&text, RESULT_BYTES_MAX)))
}

fn image_text(Image { media_type, source }: &Image) -> String {
    let kind = media_type.as_deref().map_or_else(|| "image".to_owned(), one_line);
    match source {
        ImageSource::Base64(text) => format!("[{kind}, {} bytes of base64]", text.len()),
        ImageSource::Url(url) => format!("[{kind} at {}]", shortened(&one_line(url), 200)),
    }
}

fn verbatim_text(Verbatim { format, kind, content, .. }: &Verbatim) -> String {
    match content {
        Raw::Json(json) => {
            format!("[{} of {format}]\n\n{}", one_line(kind), fenced(&shortened(json.get(), RESULT_BYTES_MAX)))
        }
        Raw::Bytes(bytes) => format!("[{} of {format}, {} bytes]", one_line(kind), bytes.len()),
    }
}

/// Up to so many bytes, then a note of how many are missing.
fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let start = beginning(text, bytes_max);
    format!("{start}\n[… {} more bytes]", text.len() - start.len())
}

/// The longest beginning of a text that has at most so many bytes.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// A fence longer than any in the text, so that the text cannot end it.
fn fenced(text: &str) -> String {
    let longest = text.split(|found| found != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

fn one_line(text: &str) -> String {
    text.chars().map(|found| if found.is_control() || found == '`' { ' ' } else { found }).collect()
}

#[cfg(test)]
mod tests {
    use enjamb_core::Json;

    use super::*;

    #[test]
    fn a_conversation_is_told_in_order() {
        let call = ToolCall {
            id: "c1".into(),
            name: "Read".into(),
            input: Json::parse(r#"{"file_path":"/a.rs"}"#).unwrap(),
            server: false,
        };
        let result =
            ToolResult { call_id: "c1".into(), content: vec![Block::Text("x".repeat(2_100))], is_error: false };
        let entries = vec![
            Entry::new(Role::User, vec![Block::Text("fix it".into())]),
            Entry::new(
                Role::Assistant,
                vec![
                    Block::Reasoning(Reasoning { text: "hm\nyes".into(), ..Reasoning::default() }),
                    Block::ToolCall(call),
                ],
            ),
            Entry::new(Role::Tool, vec![Block::ToolResult(result)]),
            Entry::new(Role::Assistant, vec![Block::Text("Done: ``` is a fence.".into())]),
        ];
        let told = render(&Conversation { entries });
        let expected = format!(
            "# Conversation so far\n\n- 4 messages\n- tools called: Read ×1\n- files read: /a.rs\n\n\
             ## User\n\nfix it\n\n## Assistant\n\n> Thought: hm\n> yes\n\nCalled tool `Read`:\n\n\
             ```\n{{\"file_path\":\"/a.rs\"}}\n```\n\n## Tool results\n\nResult:\n\n```\n{}\n[… 100 more bytes]\n```\n\n\
             ## Assistant\n\nDone: ``` is a fence.\n",
            "x".repeat(2_000)
        );
        assert_eq!(told, expected);
    }

    #[test]
    fn a_result_cannot_end_its_own_fence() {
        assert_eq!(fenced("a\n````\nb"), "`````\na\n````\nb\n`````");
    }
}
