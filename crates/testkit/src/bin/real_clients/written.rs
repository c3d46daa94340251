//! What stands in a session's file, for what a runtime says otherwise when it loads it: the order of calls, and results.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Problem;
use crate::seen::{Seen, texts};

#[derive(Default)]
pub struct Written {
    /// The place of each call among all calls, by its id.
    calls: HashMap<String, usize>,
    results: HashMap<String, Value>,
}

impl Written {
    pub fn of(path: &Path) -> Result<Self, Problem> {
        let bytes = fs::read(path)?;
        let mut written = Self::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            // What is no record is none to the runtimes either.
            if let Ok(record) = serde_json::from_slice(line) {
                written.take(&record);
            }
        }
        Ok(written)
    }

    fn take(&mut self, value: &Value) {
        let id = |member: &str| value[member].as_str().map(str::to_owned);
        match value["type"].as_str() {
            Some("tool_use") => self.call(id("id")),
            Some("function_call" | "custom_tool_call") => self.call(id("call_id")),
            Some("tool_result") => self.result(id("tool_use_id"), &value["content"]),
            Some("function_call_output" | "custom_tool_call_output") => self.result(id("call_id"), &value["output"]),
            _ => match value {
                Value::Array(values) => values.iter().for_each(|value| self.take(value)),
                Value::Object(members) => members.values().for_each(|value| self.take(value)),
                _ => {}
            },
        }
    }

    fn call(&mut self, id: Option<String>) {
        let place = self.calls.len();
        if let Some(id) = id {
            self.calls.entry(id).or_insert(place);
        }
    }

    fn result(&mut self, id: Option<String>, content: &Value) {
        if let Some(id) = id {
            self.results.entry(id).or_insert_with(|| content.clone());
        }
    }

    /// Calls that follow each other, in the order in which they were made: Claude Code puts those of one reply in another
    /// when it reads them from its tree.
    pub fn in_order(&self, mut seen: Vec<Seen>) -> Vec<Seen> {
        let is_call = |seen: &Seen| matches!(seen, Seen::Call { .. });
        for run in seen.chunk_by_mut(|a, b| is_call(a) == is_call(b)) {
            run.sort_by_key(|seen| match seen {
                Seen::Call { id, .. } => self.calls.get(id).copied(),
                Seen::User(_) | Seen::Assistant(_) => None,
            });
        }
        seen
    }

    /// The text of the result that the file has for a call.
    pub fn result_text(&self, id: &str) -> Option<String> {
        self.results.get(id).map(texts)
    }

    /// The tools that the result of a search for tools names.
    pub fn tools_found(&self, id: &str) -> Vec<&str> {
        let parts = self.results.get(id).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        parts.iter().filter_map(|part| part["tool_name"].as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Seen {
        Seen::Call { id: id.into(), name: "Read".into(), input: json!({}), result: None }
    }

    #[test]
    fn calls_come_in_the_order_of_the_file_between_what_was_said() {
        let mut written = Written::default();
        let made = ["a", "b", "c"].map(|id| json!({"message": {"content": [{"type": "tool_use", "id": id}]}}));
        made.iter().for_each(|record| written.take(record));
        let said = || Seen::User("go on".into());
        let found = written.in_order(vec![call("b"), call("a"), said(), call("c")]);
        assert_eq!(found, [call("a"), call("b"), said(), call("c")]);
        let apart = written.in_order(vec![call("b"), said(), call("a")]);
        assert_eq!(apart, [call("b"), said(), call("a")]);
    }
}
