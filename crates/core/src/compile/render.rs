//! A bundle as providers take it. The same bundle always gives the same bytes.

use serde_json::{Value, json};

use super::{Bundle, Item, Summary};
use crate::conversation::Role;
use crate::thread::HandoffBundle;

/// Whose request it is to be part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderTarget {
    /// `input[]` of Open Responses.
    OpenResponses,
    /// `system[]` and `messages[]` of Anthropic's Messages.
    Anthropic,
    /// `messages[]` of OpenAI's chat completions.
    OpenAiChat,
}

impl RenderTarget {
    pub const ALL: [Self; 3] = [Self::OpenResponses, Self::Anthropic, Self::OpenAiChat];

    pub const fn id(self) -> &'static str {
        match self {
            Self::OpenResponses => "open-responses",
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.id() == id)
    }
}

/// Characters that one message of Open Responses may have.
const RESPONSES_CHARS_MAX: usize = 10_485_760;

/// One message of a rendered context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub role: Role,
    pub content: String,
}

/// What an item refers to, once it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The item says everything itself.
    Nothing,
    Summary(Summary),
    Handoff(HandoffBundle),
    Text(String),
    /// Bytes that are no text, or too many: so many.
    Bytes(u64),
}

/// What an item says to a model.
pub fn say(item: &Item, shown: &Shown) -> Said {
    let system = |content: String| Said { role: Role::System, content };
    match item {
        Item::Message { role, content, .. } => Said { role: *role, content: content.clone() },
        Item::SummaryRef { note, .. } => {
            let note = note.as_ref().map(|note| format!("{note}\n")).unwrap_or_default();
            let markdown = match shown {
                Shown::Summary(summary) => summary.summary_markdown.as_str(),
                _ => "",
            };
            system(format!("Compaction summary (earlier context)\n{note}{markdown}"))
        }
        Item::HandoffBundleRef { .. } => system(handoff_text(shown)),
        Item::ArtifactRef { artifact_id, note, mime } => {
            let about: Vec<&str> = [note.as_deref(), mime.as_deref()].into_iter().flatten().collect();
            let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
            system(format!("Artifact art-{artifact_id}{about}\n{}", shown_text(shown)))
        }
        Item::FileRef { path, note, .. } => {
            let note = note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
            system(format!("File {path}{note}\n{}", shown_text(shown)).trim_end().to_owned())
        }
        Item::ToolSideEffectRef { run_session_id, tool_id, affected_paths, .. } => {
            let paths = affected_paths.as_ref().map_or("unknown files".to_owned(), |paths| paths.join(", "));
            system(format!("Tool {tool_id} of run {run_session_id} changed {paths}"))
        }
    }
}

fn handoff_text(shown: &Shown) -> String {
    let Shown::Handoff(bundle) = shown else { return "Handoff (context of an earlier thread)".into() };
    let mut text = format!("Handoff (context of an earlier thread)\n{}", bundle.summary_markdown);
    for thread in &bundle.refs.threads {
        text.push_str(&format!("\n- thread {} up to {}", thread.thread_id, thread.seq));
    }
    for artifact in &bundle.refs.artifacts {
        text.push_str(&format!("\n- artifact {}", artifact.artifact_id));
    }
    for file in &bundle.refs.files {
        text.push_str(&format!("\n- file {}", file.path));
    }
    text
}

fn shown_text(shown: &Shown) -> String {
    match shown {
        Shown::Text(text) => text.clone(),
        Shown::Bytes(bytes) => format!("({bytes} bytes, not shown)"),
        Shown::Nothing | Shown::Summary(_) | Shown::Handoff(_) => String::new(),
    }
}

/// The part of a request that holds the context. `shown` has an entry for each item of the bundle.
pub fn render(bundle: &Bundle, shown: &[Shown], target: RenderTarget) -> Vec<u8> {
    let said: Vec<Said> = bundle.items.iter().zip(shown).map(|(item, shown)| say(item, shown)).collect();
    let value = match target {
        RenderTarget::OpenResponses => said.iter().flat_map(responses_items).collect(),
        RenderTarget::OpenAiChat => {
            said.iter().map(|said| json!({"role": said.role.as_str(), "content": said.content})).collect()
        }
        RenderTarget::Anthropic => anthropic(&said),
    };
    serde_json::to_vec(&value).expect("a value in memory is always JSON")
}

/// A message, or several where one would be longer than the schema allows.
fn responses_items(said: &Said) -> Vec<Value> {
    let item = |content: &str| json!({"type": "message", "role": said.role.as_str(), "content": content});
    let mut items = Vec::new();
    let mut rest = said.content.as_str();
    while let Some((at, _)) = rest.char_indices().nth(RESPONSES_CHARS_MAX) {
        let (content, later) = rest.split_at(at);
        items.push(item(content));
        rest = later;
    }
    items.push(item(rest));
    items
}

/// Instructions stand apart, turns alternate and begin with the user's, and no text is empty: else the API refuses.
fn anthropic(said: &[Said]) -> Value {
    let block = |said: &Said| json!({"type": "text", "text": said.content});
    let (system, turns): (Vec<&Said>, Vec<&Said>) = said
        .iter()
        .filter(|said| !said.content.trim().is_empty())
        .partition(|said| matches!(said.role, Role::System | Role::Developer));
    let mut messages: Vec<(Role, Vec<Value>)> = Vec::new();
    for turn in turns {
        match messages.last_mut() {
            Some((role, blocks)) if *role == turn.role => blocks.push(block(turn)),
            None if turn.role == Role::Assistant => {
                let began = Said { role: Role::User, content: "(earlier conversation)".into() };
                messages.push((Role::User, vec![block(&began)]));
                messages.push((turn.role, vec![block(turn)]));
            }
            _ => messages.push((turn.role, vec![block(turn)])),
        }
    }
    let messages: Vec<_> =
        messages.into_iter().map(|(role, content)| json!({"role": role.as_str(), "content": content})).collect();
    json!({"system": system.into_iter().map(block).collect::<Vec<_>>(), "messages": messages})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Compiler, Coverage, Provenance, SUMMARY_SCHEMA, Source, SummaryProvenance};

    fn message(role: Role, content: &str) -> Item {
        Item::Message {
            role,
            content: content.into(),
            actor_id: None,
            origin: None,
            thread_seq: None,
            thread_event_id: None,
        }
    }

    fn bundle(items: Vec<Item>) -> Bundle {
        let text = |text: &str| text.to_owned();
        Bundle {
            schema: text("s"),
            compiler: Compiler { id: text("c"), strategy: text("s") },
            source: Source { thread_id: text("t"), from_seq: 1, from_message_id: None },
            provenance: Provenance { run_session_id: text("r"), actor_id: text("a"), origin: text("o") },
            items,
        }
    }

    fn summary() -> Shown {
        Shown::Summary(Summary {
            schema: SUMMARY_SCHEMA.into(),
            kind: "cumulative_v1".into(),
            coverage: Coverage {
                thread_id: "t".into(),
                from_seq: 0,
                from_message_id: None,
                to_seq: 3,
                to_message_id: None,
            },
            provenance: SummaryProvenance { actor_id: "a".into(), origin: "o".into(), produced_by: None },
            basis: None,
            summary_markdown: "# so\n\nfar\n".into(),
        })
    }

    fn rendered(items: Vec<Item>, shown: &[Shown], target: RenderTarget) -> String {
        String::from_utf8(render(&bundle(items), shown, target)).unwrap()
    }

    #[test]
    fn open_responses_items_have_text_and_sorted_keys() {
        let items = vec![
            Item::SummaryRef { artifact_id: "f".into(), note: Some("compaction checkpoint to_seq=3".into()) },
            Item::SummaryRef { artifact_id: "f".into(), note: None },
            message(Role::User, "hi"),
            message(Role::Assistant, "ack"),
        ];
        let shown = [summary(), summary(), Shown::Nothing, Shown::Nothing];
        let expected = concat!(
            r##"[{"content":"Compaction summary (earlier context)\ncompaction checkpoint to_seq=3\n# so\n\nfar\n","role":"system","type":"message"},"##,
            r##"{"content":"Compaction summary (earlier context)\n# so\n\nfar\n","role":"system","type":"message"},"##,
            r#"{"content":"hi","role":"user","type":"message"},{"content":"ack","role":"assistant","type":"message"}]"#,
        );
        assert_eq!(rendered(items, &shown, RenderTarget::OpenResponses), expected);
    }

    #[test]
    fn anthropic_turns_alternate_and_begin_with_the_user() {
        let items = vec![
            message(Role::Assistant, "first"),
            message(Role::Developer, "be brief"),
            message(Role::User, "a"),
            message(Role::User, " "),
            message(Role::User, "b"),
        ];
        let shown = vec![Shown::Nothing; 5];
        let found: Value = serde_json::from_str(&rendered(items.clone(), &shown, RenderTarget::Anthropic)).unwrap();
        assert_eq!(found["system"], json!([{"type": "text", "text": "be brief"}]));
        let told: Vec<_> = found["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(told, ["user", "assistant", "user"]);
        assert_eq!(found["messages"][2]["content"].as_array().unwrap().len(), 2);
        let chat = rendered(items, &shown, RenderTarget::OpenAiChat);
        assert!(
            chat.starts_with(r#"[{"content":"first","role":"assistant"},{"content":"be brief","role":"developer"}"#)
        );
    }

    #[test]
    fn references_say_what_they_refer_to() {
        let said = |item: Item, shown: Shown| say(&item, &shown).content;
        let note = Some("test run".to_owned());
        let artifact = Item::ArtifactRef { artifact_id: "f".into(), note, mime: Some("text/plain".into()) };
        assert_eq!(said(artifact.clone(), Shown::Text("ok".into())), "Artifact art-f (test run, text/plain)\nok");
        assert!(said(artifact, Shown::Bytes(9)).ends_with("(9 bytes, not shown)"));
        let file = Item::FileRef { path: "a.rs".into(), checkpoint_id: None, digest: None, note: None };
        assert_eq!(said(file, Shown::Nothing), "File a.rs");
        let handoff = Item::HandoffBundleRef { artifact_id: "f".into() };
        let handed = Shown::Handoff(HandoffBundle::of_words("so far", "t", 7, None));
        assert_eq!(said(handoff, handed), "Handoff (context of an earlier thread)\nso far\n- thread t up to 7");
        let effect = Item::ToolSideEffectRef {
            run_session_id: "r".into(),
            tool_id: "t1".into(),
            affected_paths: Some(vec!["a.rs".into(), "b.rs".into()]),
            checkpoint_id: None,
        };
        assert_eq!(said(effect, Shown::Nothing), "Tool t1 of run r changed a.rs, b.rs");
    }
}
