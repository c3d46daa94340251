//! Items of a bundle, from what was read of a thread.

use std::collections::BTreeMap;

use super::{Checkpoint, Item};
use crate::conversation::Role;

/// A message with what the last run that ended for it had to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub seq: u64,
    pub id: String,
    pub actor_id: String,
    pub origin: String,
    pub content: String,
    pub reply: Option<String>,
}

/// In which role each actor speaks; whoever is not named is the user.
pub type ActorRoles = BTreeMap<String, Role>;

/// A message and, right after it, what was answered.
pub fn turn_items(turn: &Turn, roles: &ActorRoles) -> Vec<Item> {
    let said = Item::Message {
        role: roles.get(&turn.actor_id).copied().unwrap_or(Role::User),
        content: turn.content.clone(),
        actor_id: Some(turn.actor_id.clone()),
        origin: Some(turn.origin.clone()),
        thread_seq: Some(turn.seq),
        thread_event_id: Some(turn.id.clone()),
    };
    let answered = turn.reply.clone().filter(|reply| !reply.is_empty()).map(|content| Item::Message {
        role: Role::Assistant,
        content,
        actor_id: None,
        origin: None,
        thread_seq: None,
        thread_event_id: None,
    });
    [Some(said), answered].into_iter().flatten().collect()
}

pub fn summary_item(checkpoint: &Checkpoint) -> Item {
    Item::SummaryRef {
        artifact_id: checkpoint.summary_artifact_id.clone(),
        note: Some(format!("compaction checkpoint to_seq={}", checkpoint.to_seq)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_follows_its_message_and_says_nothing_of_its_source() {
        let turn = Turn {
            seq: 3,
            id: "m".into(),
            actor_id: "alice".into(),
            origin: "cli".into(),
            content: "hi".into(),
            reply: Some("ack".into()),
        };
        let written = |turn: &Turn, roles: &ActorRoles| serde_json::to_string(&turn_items(turn, roles)).unwrap();
        let user = r#"{"type":"message","role":"user","content":"hi","actor_id":"alice","origin":"cli","thread_seq":3,"thread_event_id":"m"}"#;
        let assistant = r#"{"type":"message","role":"assistant","content":"ack","actor_id":null,"origin":null,"thread_seq":null,"thread_event_id":null}"#;
        assert_eq!(written(&turn, &ActorRoles::new()), format!("[{user},{assistant}]"));
        let quiet = Turn { reply: Some(String::new()), ..turn };
        let roles = ActorRoles::from([("alice".to_owned(), Role::Developer)]);
        assert_eq!(written(&quiet, &roles), format!("[{}]", user.replace("\"user\"", "\"developer\"")));
    }
}
