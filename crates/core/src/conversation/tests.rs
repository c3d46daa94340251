//! Questions asked of small conversations.

use super::*;

fn text(role: Role, text: &str) -> Entry {
    Entry::new(role, vec![Block::Text(text.to_owned())])
}

fn call(name: &str, input: &str) -> Entry {
    let input = Json::parse(input).unwrap();
    let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), input, server: false };
    Entry::new(Role::Assistant, vec![Block::ToolCall(call)])
}

fn record() -> Entry {
    let content = Raw::Bytes(Vec::new());
    Entry::record(Verbatim { format: "f".to_owned(), kind: "k".to_owned(), content, shown: false })
}

fn of(entries: Vec<Entry>) -> Conversation {
    Conversation { entries }
}

#[test]
fn records_are_no_messages() {
    let conversation = of(vec![text(Role::User, "hi"), record(), text(Role::Assistant, "ho")]);
    assert_eq!((conversation.message_count(), conversation.block_count()), (2, 3));
}

#[test]
fn the_first_prompt_is_a_persons() {
    let mut reminder = text(Role::User, "<reminder>");
    reminder.synthetic = true;
    let mut abandoned = text(Role::User, "never mind");
    abandoned.standing = Standing::Abandoned;
    let conversation = of(vec![reminder, abandoned, text(Role::User, "fix it"), text(Role::User, "and test it")]);
    assert_eq!(conversation.first_prompt().as_deref(), Some("fix it"));
    assert_eq!(conversation.last_user_text().as_deref(), Some("and test it"));
}

#[test]
fn the_last_reply_with_words_is_the_last_assistant_text() {
    let conversation = of(vec![text(Role::Assistant, "done"), call("Read", "{}"), text(Role::User, "thanks")]);
    assert_eq!(conversation.last_assistant_text().as_deref(), Some("done"));
    assert_eq!(conversation.tool_names(), BTreeMap::from([("Read", 1)]));
}

#[test]
fn files_are_read_from_well_known_inputs() {
    let conversation = of(vec![
        call("Read", r#"{"file_path":"/a.rs"}"#),
        call("Edit", r#"{"file_path":"/b.rs","old_string":"x"}"#),
        call("NotebookEdit", r#"{"notebook_path":"/n.ipynb"}"#),
        call("apply_patch", r#""*** Begin Patch\n*** Update File: c.rs\n*** Move to: d.rs\n@@\n*** End Patch""#),
        call("apply_patch", r#"{"input":"*** Add File: e.rs\n+x"}"#),
        call("Bash", r#"{"command":"cat /f"}"#),
        call("Read", "7"),
    ]);
    let FilesTouched { read, written } = conversation.files_touched();
    assert_eq!(read.into_iter().collect::<Vec<_>>(), ["/a.rs"]);
    assert_eq!(written.into_iter().collect::<Vec<_>>(), ["/b.rs", "/n.ipynb", "c.rs", "d.rs", "e.rs"]);
}

#[test]
fn uncompacted_gives_back_the_whole_history() {
    let mut old = text(Role::User, "old");
    old.standing = Standing::Compacted;
    let conversation = of(vec![old, text(Role::User, "new")]).uncompacted();
    assert!(conversation.entries.iter().all(|entry| entry.standing == Standing::Context));
}
