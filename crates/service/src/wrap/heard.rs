//! What agents tell of themselves while they run, line by line.

use serde_json::Value;

use crate::Driver;

/// What was heard so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The session that it says it is in.
    pub session: Option<String>,
    /// The last thing that it answered.
    pub answer: Option<String>,
}

impl Heard {
    pub fn line(&mut self, driver: Driver, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match driver {
            Driver::ClaudeCode => {
                self.session = text(&event["session_id"]).or(self.session.take());
                if event["type"] == "result" {
                    self.answer = text(&event["result"]).or(self.answer.take());
                }
            }
            Driver::Codex => {
                if event["type"] == "thread.started" {
                    self.session = text(&event["thread_id"]);
                }
                if event["type"] == "item.completed" && event["item"]["type"] == "agent_message" {
                    self.answer = text(&event["item"]["text"]);
                }
            }
            Driver::Generic => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(driver: Driver, lines: &[&str]) -> (Option<String>, Option<String>) {
        let mut heard = Heard::default();
        lines.iter().for_each(|line| heard.line(driver, line.as_bytes()));
        (heard.session, heard.answer)
    }

    #[test]
    fn sessions_and_answers_are_heard() {
        let claude = [
            r#"{"type":"system","subtype":"init","session_id":"s"}"#,
            "noise",
            r#"{"type":"result","subtype":"success","result":"done","session_id":"s"}"#,
        ];
        assert_eq!(heard(Driver::ClaudeCode, &claude), (Some("s".into()), Some("done".into())));
        let codex = [
            r#"{"type":"thread.started","thread_id":"t"}"#,
            r#"{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"hm"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"so"}}"#,
            r#"{"type":"turn.completed","usage":{}}"#,
        ];
        assert_eq!(heard(Driver::Codex, &codex), (Some("t".into()), Some("so".into())));
        assert_eq!(heard(Driver::Generic, &codex), (None, None));
    }
}
