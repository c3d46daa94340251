//! The tools: which operation each is, what it takes, and how its answer is made small.

use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{Guest, TEXT_BYTES_MAX, piece};
use crate::problem::{Problem, Result};
use crate::route::{Method, Route};
use crate::{input, ops};

/// A tool over an operation.
#[derive(Clone, Copy, Debug)]
pub struct ToolRow {
    pub name: &'static str,
    /// The operation it is.
    pub operation: &'static str,
    about: &'static str,
    /// The parameters of the operation that it offers.
    arguments: &'static [&'static str],
    /// Parameters that are given when the caller gives none.
    defaults: &'static [(&'static str, &'static str)],
}

const fn tool(
    name: &'static str,
    operation: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
    defaults: &'static [(&'static str, &'static str)],
) -> ToolRow {
    ToolRow { name, operation, about, arguments, defaults }
}

/// Every tool, in the order in which they are listed.
pub const TOOLS: &[ToolRow] = &[
    tool(
        "context_search",
        "search_threads",
        "Find messages that hold all of some words (q), or who touched a file (file). Newest first.",
        &["q", "file", "limit", "cursor"],
        &[("limit", "8")],
    ),
    tool(
        "context_log",
        "log",
        "List context commits, newest first; with `from`, along that commit's history. `next` is the cursor of the next page.",
        &["from", "principal", "session", "ticket", "thread", "since", "until", "tips", "limit", "cursor"],
        &[("limit", "10")],
    ),
    tool(
        "context_show",
        "show",
        "Show one context commit with its children. Ids may be shortened; @ is the newest commit, @- the one before.",
        &["context"],
        &[],
    ),
    tool(
        "context_materialize",
        "materialize",
        "Read the conversation that a context holds, as text. Long ones come in pieces: pass `next_offset` as `offset`.",
        &["context", "stop", "format"],
        &[("format", "\"narrative-v1\"")],
    ),
    tool(
        "context_diff",
        "diff",
        "Compare two contexts: what they share, and what each has of its own.",
        &["context", "other"],
        &[],
    ),
    tool(
        "context_resolve",
        "resolve",
        "Find what a principal knew at a time (RFC 3339), or knows last.",
        &["principal", "at"],
        &[],
    ),
    tool(
        "context_current",
        "current",
        "Find the commit of the conversation that you are in, or of a session or a directory.",
        &["session", "directory"],
        &[],
    ),
    tool(
        "context_checkpoint",
        "checkpoint",
        "Commit what you know now, so that it can be resumed. `content` is the new part of the conversation in `format`; parent is the commit it goes on from.",
        &["content", "format", "parent", "principal", "summary", "session_id", "ticket_id", "thread_id", "checkpoint"],
        &[("format", "\"generic-v1\"")],
    ),
    tool("context_note", "note", "Give a context a summary or tags.", &["context", "summary", "tags"], &[]),
    tool("context_fork", "fork", "Name a context, to go on from it in another direction.", &["context", "name"], &[]),
    tool(
        "context_compile",
        "compile",
        "Compile what a run starts from, from a thread or from a commit, within a budget of tokens. Nothing is stored unless dry_run is false.",
        &["thread", "from", "budget", "strategy", "explain", "dry_run"],
        &[("dry_run", "true")],
    ),
    tool(
        "context_pack",
        "pack",
        "Pack contexts or threads (continuity/ID) under one hash, to hand to others.",
        &["from", "title", "redact"],
        &[],
    ),
    tool("thread_post", "post", "Post a message to a thread.", &["thread", "content"], &[]),
    tool(
        "thread_handoff",
        "handoff",
        "Hand a thread over to a new one, with a summary in Markdown of what whoever goes on has to know.",
        &["thread", "summary_markdown", "title"],
        &[],
    ),
];

/// A tool with the route that does it.
pub struct Ready {
    pub row: ToolRow,
    route: Route,
    pub described: Tool,
}

/// Made once: schemas do not change while a program runs.
pub static READY: LazyLock<Vec<Ready>> = LazyLock::new(|| {
    let routes = ops::routes();
    let find = |row: &ToolRow| routes.iter().find(|route| route.operation == row.operation).cloned();
    TOOLS.iter().filter_map(|row| find(row).map(|route| Ready::new(*row, route))).collect()
});

pub fn find(name: &str) -> Option<&'static Ready> {
    READY.iter().find(|ready| ready.row.name == name)
}

impl Ready {
    fn new(row: ToolRow, route: Route) -> Self {
        let hints = ToolAnnotations::new()
            .read_only(!route.writes() || row.operation == "compile")
            .destructive(false)
            .idempotent(route.method != Method::Post)
            .open_world(false);
        let described = Tool::new(row.name, row.about, Arc::new(schema(&row, &route))).with_annotations(hints);
        Self { row, route, described }
    }

    /// Uses the tool. It blocks.
    pub fn call(&self, guest: &Guest, mut arguments: Map<String, Value>) -> Result<Value> {
        let offset = self.offset(&mut arguments)?;
        if let Some(name) = arguments.keys().find(|name| !self.row.arguments.contains(&name.as_str())) {
            let known = self.row.arguments.join(", ");
            return Err(Problem::schema(format!("/{name}"), format!("{} takes {known}", self.row.name)));
        }
        for (name, value) in self.row.defaults {
            let value = || serde_json::from_str(value).unwrap_or(Value::Null);
            arguments.entry(*name).or_insert_with(value);
        }
        let answer = guest.perform(&self.route, arguments)?;
        Ok(match (answer, offset) {
            (Value::String(text), Some(offset)) => told(&text, offset),
            (answer, _) => small(answer),
        })
    }

    /// Where a long text is to be gone on with, for the tool that reads them.
    fn offset(&self, arguments: &mut Map<String, Value>) -> Result<Option<usize>> {
        if self.row.operation != "materialize" {
            return Ok(None);
        }
        match arguments.remove("offset") {
            None => Ok(Some(0)),
            Some(value) => {
                input::read::<Offset>(&Map::from_iter([("offset".to_owned(), value)])).map(|it| Some(it.offset))
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Offset {
    offset: usize,
}

/// The parameters that a tool offers, and no others.
fn schema(row: &ToolRow, route: &Route) -> Map<String, Value> {
    let known = route.properties();
    let mut properties = Map::new();
    for name in row.arguments {
        let found = known.iter().find(|(property, _)| property == name).map(|(_, schema)| schema.clone());
        properties.insert((*name).to_owned(), found.unwrap_or_else(|| json!({})));
    }
    if row.operation == "materialize" {
        properties.insert("offset".into(), json!({"type": "integer", "minimum": 0, "description": "Where to go on"}));
    }
    let required: Vec<_> = route.required().into_iter().filter(|name| row.arguments.contains(&name.as_str())).collect();
    let defaults: Vec<_> = row.defaults.iter().map(|(name, _)| *name).collect();
    let required: Vec<_> = required.into_iter().filter(|name| !defaults.contains(&name.as_str())).collect();
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    schema.as_object().cloned().unwrap_or_default()
}

/// A piece of a text, and how to come by the next.
fn told(text: &str, offset: usize) -> Value {
    let (piece, next) = piece(text, offset, TEXT_BYTES_MAX);
    let mut value = json!({"text": piece, "truncated": next.is_some()});
    if let Some(next) = next {
        value["next_offset"] = next.into();
    }
    value
}

/// An answer without what says nothing, and no longer than an agent wants to read.
fn small(answer: Value) -> Value {
    let mut answer = without_nothing(answer);
    while answer.to_string().len() > TEXT_BYTES_MAX {
        let longest = answer.as_object_mut().and_then(|members| {
            members
                .values_mut()
                .filter_map(Value::as_array_mut)
                .filter(|list| list.len() > 1)
                .max_by_key(|list| list.len())
        });
        match longest {
            Some(list) => list.truncate(list.len() * 3 / 4),
            None => return told(&answer.to_string(), 0),
        }
        answer["truncated"] = true.into();
    }
    answer
}

fn without_nothing(value: Value) -> Value {
    let says = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| says(value));
            Value::Object(kept.map(|(name, value)| (name, without_nothing(value))).collect())
        }
        Value::Array(list) => list.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_an_operation_and_offers_only_what_that_takes() {
        assert_eq!(READY.len(), TOOLS.len());
        for ready in READY.iter() {
            let known: Vec<_> = ready.route.properties().into_iter().map(|(name, _)| name).collect();
            for name in ready.row.arguments.iter().chain(ready.row.defaults.iter().map(|(name, _)| name)) {
                assert!(known.iter().any(|property| property == name), "{} takes no {name}", ready.row.operation);
            }
        }
    }

    #[test]
    fn all_tools_together_are_soon_read() {
        let all: usize = READY.iter().map(|ready| serde_json::to_string(&ready.described).unwrap().len()).sum();
        assert!(all < 9_000, "{all} bytes of schemas");
    }

    #[test]
    fn long_answers_are_cut_and_say_so() {
        let rows: Vec<_> = (0..1000).map(|n| json!({"id": format!("{n:030}"), "nothing": null})).collect();
        let small = small(json!({"rows": rows, "next": "x", "none": null}));
        assert!(small.to_string().len() <= TEXT_BYTES_MAX + 40, "{}", small.to_string().len());
        assert_eq!((&small["truncated"], &small["next"], small.get("none")), (&json!(true), &json!("x"), None));
        let long = super::small(json!({"a": "x".repeat(20_000)}));
        assert_eq!((long["truncated"].as_bool(), long["next_offset"].as_u64()), (Some(true), Some(8_000)));
    }
}
