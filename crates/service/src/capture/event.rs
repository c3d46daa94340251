//! What an event says, as far as it was kept.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// What is used of an event, whichever runtime it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub name: Option<String>,
    pub session: Option<String>,
    /// The transcript of the session, and that of a subagent.
    pub transcripts: Vec<PathBuf>,
    /// From a program that runs hooks of others: its transcripts are its own.
    pub is_foreign: bool,
}

impl Event {
    /// Reads what was said, which may be cut short: members that are whole count.
    pub(super) fn read(payload: &[u8]) -> Self {
        let mut event = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(payload);
        // Where it is cut short, the error comes after the members that were read.
        let _ = reader.deserialize_map(Members(&mut event));
        event.is_foreign |= event
            .transcripts
            .iter()
            .any(|path| path.components().any(|part| part.as_os_str() == ".cursor" || part.as_os_str() == ".copilot"));
        event
    }

    fn learn(&mut self, name: &str, value: String) {
        match name {
            "hook_event_name" => self.name = Some(value),
            "session_id" => self.session = Some(value),
            "transcript_path" | "agent_transcript_path" if !value.is_empty() => self.transcripts.push(value.into()),
            "cursor_version" => self.is_foreign = true,
            _ => {}
        }
    }
}

struct Members<'e>(&'e mut Event);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "hook_event_name" | "session_id" | "transcript_path" | "agent_transcript_path" | "cursor_version" => {
                    if let Value::String(value) = members.next_value()? {
                        self.0.learn(&name, value);
                    }
                }
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_whole_count() {
        let said =
            r#"{"session_id":"s","transcript_path":"/h/s.jsonl","hook_event_name":"Stop","tool_response":{"a":["#;
        let event = Event::read(said.as_bytes());
        assert_eq!((event.session.as_deref(), event.name.as_deref()), (Some("s"), Some("Stop")));
        assert_eq!(event.transcripts, [PathBuf::from("/h/s.jsonl")]);
        assert_eq!(Event::read(b"\xff garbage"), Event::default());
        assert_eq!(Event::read(br#"{"session_id":7,"transcript_path":null}"#), Event::default());
    }

    #[test]
    fn events_of_programs_that_run_the_hooks_of_others_are_told_apart() {
        assert!(Event::read(br#"{"cursor_version":"1","transcript_path":"/x"}"#).is_foreign);
        assert!(Event::read(br#"{"transcript_path":"/home/d/.copilot/s.jsonl"}"#).is_foreign);
        assert!(!Event::read(br#"{"transcript_path":"/home/d/.claude/s.jsonl"}"#).is_foreign);
    }
}
