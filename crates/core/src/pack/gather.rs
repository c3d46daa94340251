//! The messages of a pack, out of a conversation: what people asked and agents answered, and what each answer rests on.

use std::collections::HashMap;

use super::reading::read_by;
use super::{Message, PackRole, Repo, Source, time_text};
use crate::Timestamp;
use crate::conversation::{Block, Conversation, Entry, Role, ToolCall, attribute};

/// What a conversation gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    pub messages: Vec<Message>,
    /// The first time and the last, where any is known.
    pub span: Option<(Timestamp, Timestamp)>,
    /// What a person first asked.
    pub prompt: Option<String>,
    /// Entries that say something and are no message of the session: the harness's words, other agents', abandoned ones.
    pub left_out: u64,
    /// Sources that the order of version 0.7.0 does not tell from others, and so were dropped.
    pub sources_dropped: u64,
    /// Sources that no answer follows or precedes.
    pub sources_homeless: u64,
}

/// Where files are that a conversation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub repo: Repo,
    pub branch: String,
    pub cwd: Option<String>,
}

/// Gathers the messages of a conversation. `repo` is said of every file where given; otherwise it is the repository that
/// the runtime names, or the working directory. A message without a time of its own has that of the one before, the first one `at`.
pub fn gather(conversation: &Conversation, repo: Option<&Repo>, at: Timestamp) -> Gathered {
    let mut gatherer = Gatherer {
        repo,
        at,
        gathered: Gathered::default(),
        drafts: Vec::new(),
        read: Vec::new(),
        calls: HashMap::new(),
    };
    conversation.entries.iter().for_each(|entry| gatherer.entry(entry));
    gatherer.finish()
}

struct Gatherer<'c> {
    repo: Option<&'c Repo>,
    at: Timestamp,
    gathered: Gathered,
    drafts: Vec<Draft>,
    /// What was read since the last answer.
    read: Vec<Source>,
    calls: HashMap<&'c str, (&'c ToolCall, &'c Entry)>,
}

struct Draft {
    role: PackRole,
    content: String,
    at: Timestamp,
    sources: Vec<Source>,
}

impl<'c> Gatherer<'c> {
    fn entry(&mut self, entry: &'c Entry) {
        if !entry.is_current() || entry.attribute(attribute::COPIED).is_some() {
            self.gathered.left_out += u64::from(entry.is_message());
            return;
        }
        self.at = entry.at.unwrap_or(self.at);
        if let Some(at) = entry.at {
            let (first, last) = self.gathered.span.unwrap_or((at, at));
            self.gathered.span = Some((first.min(at), last.max(at)));
        }
        self.say(entry);
        for result in entry.tool_results() {
            if let Some((call, asked)) = self.calls.remove(result.call_id.as_str()) {
                self.read.extend(read_by(call, result, &place(asked, self.repo)));
            }
        }
        self.calls.extend(entry.tool_calls().map(|call| (call.id.as_str(), (call, entry))));
    }

    fn say(&mut self, entry: &Entry) {
        let Some((role, content)) = said(entry) else {
            self.gathered.left_out += u64::from(entry.is_message() && !entry.text().trim().is_empty());
            return;
        };
        match role {
            PackRole::Assistant => {
                let sources = std::mem::take(&mut self.read);
                self.drafts.push(Draft { role, content, at: self.at, sources });
            }
            PackRole::User | PackRole::System => {
                self.settle();
                if role == PackRole::User && self.gathered.prompt.is_none() {
                    self.gathered.prompt = Some(content.clone());
                }
                self.drafts.push(Draft { role, content, at: self.at, sources: Vec::new() });
            }
        }
    }

    /// What was read after an answer and before the next question belongs to that answer.
    fn settle(&mut self) {
        if let Some(last) = self.drafts.last_mut().filter(|last| last.role == PackRole::Assistant) {
            last.sources.append(&mut self.read);
        }
    }

    fn finish(mut self) -> Gathered {
        self.settle();
        if let Some(last) = self.drafts.iter_mut().rev().find(|draft| draft.role == PackRole::Assistant) {
            last.sources.append(&mut self.read);
        }
        let mut gathered = self.gathered;
        gathered.sources_homeless = self.read.len() as u64;
        for (at, draft) in self.drafts.into_iter().enumerate() {
            let created_at = time_text(draft.at);
            let (message, dropped) = Message::new(at as u64 + 1, draft.role, draft.content, created_at, draft.sources);
            gathered.messages.push(message);
            gathered.sources_dropped += dropped;
        }
        gathered
    }
}

/// Who says what, if the entry is something said. What the harness says under the user's name is not.
fn said(entry: &Entry) -> Option<(PackRole, String)> {
    if let Some(summary) = entry.blocks.iter().find_map(summary_of) {
        return Some((PackRole::System, summary.to_owned()));
    }
    let text = entry.text();
    if text.trim().is_empty() || entry.synthetic {
        return None;
    }
    let role = match entry.role {
        Role::User => role_of_actor(entry.attribute(attribute::ACTOR)),
        Role::Assistant => PackRole::Assistant,
        Role::System | Role::Developer => PackRole::System,
        Role::Tool => return None,
    };
    Some((role, text))
}

fn summary_of(block: &Block) -> Option<&str> {
    match block {
        Block::Compaction { summary } if !summary.trim().is_empty() => Some(summary),
        _ => None,
    }
}

/// In a thread everyone posts messages, and only the name says who is no person.
fn role_of_actor(actor: Option<&str>) -> PackRole {
    match actor.map(|actor| actor.split(['/', ':']).next().unwrap_or_default()) {
        Some("assistant" | "agent" | "model") => PackRole::Assistant,
        Some("system") => PackRole::System,
        Some(_) | None => PackRole::User,
    }
}

fn place(entry: &Entry, repo: Option<&Repo>) -> Place {
    let cwd = entry.attribute(attribute::CWD);
    let folder = cwd.and_then(|cwd| cwd.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next());
    let folder = folder.filter(|folder| !folder.is_empty()).unwrap_or("unknown");
    let local = || Repo { owner: "local".to_owned(), repo: folder.to_owned() };
    let told = || entry.attribute(attribute::REPOSITORY).and_then(repo_at);
    Place {
        repo: repo.cloned().or_else(told).unwrap_or_else(local),
        branch: entry.attribute(attribute::GIT_BRANCH).unwrap_or("unknown").to_owned(),
        cwd: cwd.map(str::to_owned),
    }
}

/// The owner and the name at the end of a repository's URL, however it is spelled.
fn repo_at(url: &str) -> Option<Repo> {
    let path = url.trim_end_matches('/').trim_end_matches(".git");
    let mut parts = path.rsplit(['/', ':']);
    let (repo, owner) = (parts.next()?, parts.next()?);
    let is_named = parts.next().is_some() && !repo.is_empty() && !owner.is_empty();
    is_named.then(|| Repo { owner: owner.to_owned(), repo: repo.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;
    use crate::conversation::{Standing, ToolResult};

    fn said(role: Role, text: &str) -> Entry {
        Entry::new(role, vec![Block::Text(text.into())])
    }

    fn reads(id: &str, path: &str) -> [Entry; 2] {
        let input = Json::from(serde_json::json!({"file_path": path}));
        let call = ToolCall { id: id.into(), name: "Read".into(), input, server: false };
        let content = vec![Block::Text("1\tx".into())];
        let result = ToolResult { call_id: id.into(), content, is_error: false };
        let mut asks = Entry::new(Role::Assistant, vec![Block::ToolCall(call)]);
        asks.set_attribute(attribute::CWD, Some("/home/me/shop"));
        [asks, Entry::new(Role::Tool, vec![Block::ToolResult(result)])]
    }

    fn check(entries: Vec<Entry>, expected: &str) {
        let gathered = gather(&Conversation { entries }, None, Timestamp::from_millis(0));
        let line = |message: &Message| {
            let sources: Vec<_> = message.sources.iter().map(Source::line).collect();
            format!("{} {} {} [{}]", message.seq, message.role.as_str(), message.content, sources.join(", "))
        };
        let lines: Vec<_> = gathered.messages.iter().map(line).collect();
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn what_was_read_goes_with_the_answer_that_follows_or_else_with_the_one_before() {
        let [a, a_result] = reads("1", "/home/me/shop/a.rs");
        let [b, b_result] = reads("2", "/tmp/b.rs");
        let entries = vec![
            said(Role::User, "why?"),
            a,
            a_result,
            said(Role::Assistant, "because"),
            b,
            b_result,
            said(Role::User, "thanks"),
        ];
        let first = "a.rs:1-1 (local/shop@unknown)";
        let second = "/tmp/b.rs:1-1 (local/shop@unknown)";
        check(entries, &format!("1 user why? []\n2 assistant because [{second}, {first}]\n3 user thanks []"));
    }

    #[test]
    fn a_repository_is_known_by_its_url() {
        for url in ["https://github.com/acme/shop.git", "git@github.com:acme/shop.git", "ssh://git@host/acme/shop/"] {
            assert_eq!(repo_at(url), Some(Repo { owner: "acme".into(), repo: "shop".into() }), "{url}");
        }
        assert_eq!(repo_at("shop"), None);
    }

    #[test]
    fn only_what_people_and_their_agent_said_is_packed() {
        let mut reminder = said(Role::User, "<system-reminder>");
        reminder.synthetic = true;
        let mut aside = said(Role::Assistant, "aside");
        aside.standing = Standing::Sidechain;
        let summary = Entry::new(Role::User, vec![Block::Compaction { summary: "so far".into() }]);
        let mut posted = said(Role::User, "done");
        posted.set_attribute(attribute::ACTOR, Some("agent/fixer"));
        check(
            vec![said(Role::Developer, "be kind"), reminder, aside, summary, posted],
            "1 system be kind []\n2 system so far []\n3 assistant done []",
        );
    }
}
