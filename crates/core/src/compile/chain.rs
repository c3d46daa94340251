//! Items from a chain of commits: what any runtime recorded, in the words of a bundle.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::Item;
use crate::ArtifactId;
use crate::conversation::{Block, Entry, Role, ToolResult};

/// How a chain is compiled. Its id says everything it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainStrategy {
    /// All of it.
    Messages,
    /// As much as fits so many tokens, counted by a method of that name.
    TokenBudget { tokens: u64, method: String },
}

const MESSAGES: &str = "chain_messages_v1";
const TOKEN_BUDGET: &str = "chain_token_budget_v1";

impl fmt::Display for ChainStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages => f.write_str(MESSAGES),
            Self::TokenBudget { tokens, method } => write!(f, "{TOKEN_BUDGET}/{tokens}/{method}"),
        }
    }
}

impl FromStr for ChainStrategy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == MESSAGES {
            return Ok(Self::Messages);
        }
        let rest = text.strip_prefix(TOKEN_BUDGET).and_then(|rest| rest.strip_prefix('/')).ok_or(())?;
        let (tokens, method) = rest.split_once('/').ok_or(())?;
        Ok(Self::TokenBudget { tokens: tokens.parse().map_err(drop)?, method: method.to_owned() })
    }
}

/// What one entry of a conversation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryItems {
    pub items: Vec<Item>,
    /// Bytes that the items refer to.
    pub kept_outside: Vec<Vec<u8>>,
    pub pinned: bool,
    /// It claims a role that only who compiles can give, and is given as the user's.
    pub downgraded: bool,
}

/// The items of each entry that says something. A tool's result of more than `result_bytes_max` is kept outside.
pub fn entry_items(entries: &[(bool, Entry)], result_bytes_max: usize) -> Vec<EntryItems> {
    let calls = entries.iter().flat_map(|(_, entry)| entry.tool_calls());
    let names: HashMap<&str, &str> = calls.map(|call| (call.id.as_str(), call.name.as_str())).collect();
    let told = entries.iter().map(|(pinned, entry)| {
        let mut writer = EntryWriter { names: &names, result_bytes_max, items: Vec::new(), kept_outside: Vec::new() };
        writer.entry(entry);
        let downgraded = !writer.items.is_empty() && trusted(entry.role) != entry.role && entry.role != Role::Tool;
        EntryItems { items: writer.items, kept_outside: writer.kept_outside, pinned: *pinned, downgraded }
    });
    told.filter(|told| !told.items.is_empty()).collect()
}

struct EntryWriter<'a> {
    names: &'a HashMap<&'a str, &'a str>,
    result_bytes_max: usize,
    items: Vec<Item>,
    kept_outside: Vec<Vec<u8>>,
}

impl EntryWriter<'_> {
    fn entry(&mut self, entry: &Entry) {
        let mut said = Vec::new();
        for block in &entry.blocks {
            match block {
                Block::Text(text) if text.is_empty() => {}
                Block::Text(text) => said.push(text.clone()),
                Block::ToolCall(call) => said.push(format!("[called {} {}]", call.name, call.input.get())),
                Block::ToolResult(result) => self.result(result),
                Block::Compaction { summary } => {
                    let content = format!("Compaction summary (earlier context)\n{summary}");
                    self.items.push(message(Role::System, content, entry.id.clone()));
                }
                // A thought is worth something only to the provider that signed it, and the rest only to its format.
                Block::Reasoning(_) | Block::Image(_) | Block::Verbatim(_) => {}
            }
        }
        if !said.is_empty() {
            self.items.push(message(trusted(entry.role), said.join("\n\n"), entry.id.clone()));
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let name = self.names.get(result.call_id.as_str()).copied().unwrap_or("a tool");
        let text = result.text();
        let note = format!("result of {name}{}", if result.is_error { ", an error" } else { "" });
        if text.len() <= self.result_bytes_max {
            let content = format!("[{note}]\n{text}");
            self.items.push(message(Role::User, content, None));
            return;
        }
        let bytes = text.into_bytes();
        let artifact_id = ArtifactId::of(&bytes).to_hex();
        let note = Some(format!("{note}, {} bytes", bytes.len()));
        self.items.push(Item::ArtifactRef { artifact_id, note, mime: Some("text/plain".into()) });
        self.kept_outside.push(bytes);
    }
}

/// The role in which an entry is given. A transcript says of itself who speaks in it, so nobody speaks there as the system.
fn trusted(role: Role) -> Role {
    match role {
        Role::Assistant => Role::Assistant,
        Role::User | Role::Tool | Role::System | Role::Developer => Role::User,
    }
}

fn message(role: Role, content: String, event_id: Option<String>) -> Item {
    Item::Message { role, content, actor_id: None, origin: None, thread_seq: None, thread_event_id: event_id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;
    use crate::conversation::{Reasoning, ToolCall};

    #[test]
    fn ids_say_what_was_asked_for() {
        for id in ["chain_messages_v1", "chain_token_budget_v1/800/o200k_base"] {
            assert_eq!(id.parse::<ChainStrategy>().unwrap().to_string(), id);
        }
        for wrong in ["chain", "chain_token_budget_v1/x/bytes", "chain_token_budget_v1/8"] {
            assert_eq!(wrong.parse::<ChainStrategy>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn calls_are_told_results_follow_and_large_ones_are_referred_to() {
        let call = ToolCall {
            id: "c1".into(),
            name: "Read".into(),
            input: Json::parse(r#"{"path":"a"}"#).unwrap(),
            server: false,
        };
        let result = |text: &str| {
            let content = vec![Block::Text(text.into())];
            Block::ToolResult(ToolResult { call_id: "c1".into(), content, is_error: false })
        };
        let thought = Block::Reasoning(Reasoning { text: "hm".into(), ..Reasoning::default() });
        let entries = [
            (true, Entry::new(Role::System, vec![Block::Compaction { summary: "so far".into() }])),
            (
                false,
                Entry::new(Role::Assistant, vec![thought.clone(), Block::Text("look".into()), Block::ToolCall(call)]),
            ),
            (false, Entry::new(Role::Tool, vec![result("short"), result("much longer")])),
            (false, Entry::new(Role::Assistant, vec![thought])),
        ];
        let told = entry_items(&entries, 5);
        assert_eq!(
            told.iter().map(|told| (told.items.len(), told.pinned)).collect::<Vec<_>>(),
            [(1, true), (1, false), (2, false)]
        );
        let text = |item: &Item| match item {
            Item::Message { role, content, .. } => format!("{}: {content}", role.as_str()),
            other => format!("{other:?}"),
        };
        assert_eq!(text(&told[0].items[0]), "system: Compaction summary (earlier context)\nso far");
        assert_eq!(text(&told[1].items[0]), "assistant: look\n\n[called Read {\"path\":\"a\"}]");
        assert_eq!(text(&told[2].items[0]), "user: [result of Read]\nshort");
        assert!(text(&told[2].items[1]).contains("result of Read, 11 bytes"));
        assert_eq!(told[2].kept_outside, [b"much longer".to_vec()]);
    }

    #[test]
    fn nobody_speaks_as_the_system_in_a_transcript() {
        let said = |role| (false, Entry::new(role, vec![Block::Text("obey".into())]));
        let roles = [Role::System, Role::Developer, Role::User, Role::Assistant];
        let told = entry_items(&roles.map(said), 9).into_iter().map(|told| match &told.items[..] {
            [Item::Message { role, .. }] => (role.as_str(), told.downgraded),
            other => panic!("{other:?}"),
        });
        assert_eq!(told.collect::<Vec<_>>(), [("user", true), ("user", true), ("user", false), ("assistant", false)]);
    }
}
