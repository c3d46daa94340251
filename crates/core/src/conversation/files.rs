//! Which files a conversation read and wrote, as far as its tool calls say so outright.
//!
//! Shell commands are left out: what they touch cannot be told from their text.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::ToolCall;

/// Paths as the tools were given them, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesTouched {
    pub read: BTreeSet<String>,
    pub written: BTreeSet<String>,
}

/// Members under which well-known tools are given a path or a patch.
#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(alias = "filePath", alias = "path", alias = "absolute_path", alias = "notebook_path")]
    file_path: Option<String>,
    #[serde(alias = "patch", alias = "patchText")]
    input: Option<String>,
}

impl FilesTouched {
    pub(super) fn of<'a>(calls: impl Iterator<Item = &'a ToolCall>) -> Self {
        let mut touched = Self::default();
        calls.for_each(|call| touched.add(call));
        touched
    }

    fn add(&mut self, call: &ToolCall) {
        match call.name.as_str() {
            "Read" | "NotebookRead" | "read" | "read_file" | "view_image" => self.read.extend(path_of(call)),
            "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "edit" | "write" | "write_file" | "replace" => {
                self.written.extend(path_of(call));
            }
            "apply_patch" => self.written.extend(patched(&patch_of(call))),
            _ => {}
        }
    }
}

fn path_of(call: &ToolCall) -> Option<String> {
    serde_json::from_str::<Arguments>(call.input.get()).ok()?.file_path
}

/// A patch comes as free text, or as the one argument of a function.
fn patch_of(call: &ToolCall) -> String {
    if let Ok(text) = serde_json::from_str::<String>(call.input.get()) {
        return text;
    }
    serde_json::from_str::<Arguments>(call.input.get()).ok().and_then(|given| given.input).unwrap_or_default()
}

fn patched(patch: &str) -> impl Iterator<Item = String> {
    const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(|line| {
        let path = HEADERS.iter().find_map(|header| line.strip_prefix(header))?;
        Some(path.trim().to_owned())
    })
}
