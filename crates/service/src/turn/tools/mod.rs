//! Tools that a model may call: only those that the configuration declares, within their bounds.

mod call;
mod command;
mod output;
mod paths;
mod schema;

use std::path::{Path, PathBuf};
use std::time::Duration;

use enjamb_core::provider::ToolSpec;
use serde_json::Value;

use crate::{Result, ServiceError};

use self::schema::Schema;

/// What a tool does to the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    ReadOnly,
    /// It may change files: one such tool runs at a time, and what it touched is told.
    Mutating,
}

/// A command that a model may have run.
#[derive(Clone, Debug)]
pub struct CommandTool {
    pub name: String,
    pub description: String,
    /// The program and its arguments; `{member}` stands for a member of what the model gives. Nothing is given to a shell.
    pub command: Vec<String>,
    /// JSON schema of what the model gives.
    pub schema: Value,
    pub effect: Effect,
    pub timeout: Duration,
    /// Members that are paths, which have to be in the workspace.
    pub paths: Vec<String>,
}

/// Bounds of all tools of a run.
#[derive(Clone, Copy, Debug)]
pub struct ToolLimits {
    pub calls_max: u64,
    /// Bytes of output that are kept; what a tool writes beyond them is not.
    pub output_bytes_max: usize,
    /// Bytes of output that frames hold; what is longer is an artifact as well.
    pub preview_bytes_max: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self { calls_max: 32, output_bytes_max: 16 << 20, preview_bytes_max: 32 << 10 }
    }
}

/// The tools of a run.
#[derive(Debug, Default)]
pub struct Toolbox {
    /// Where they work.
    workspace: PathBuf,
    commands: Vec<(CommandTool, Schema)>,
    limits: ToolLimits,
    /// Variables that no tool is given: they hold keys.
    withheld: Vec<String>,
}

impl Toolbox {
    /// No tools at all.
    pub fn none() -> Self {
        Self::default()
    }

    pub fn new(
        workspace: &Path,
        commands: Vec<CommandTool>,
        limits: ToolLimits,
        withheld: Vec<String>,
    ) -> Result<Self> {
        let mut known = std::collections::BTreeSet::new();
        let mut checked = Vec::with_capacity(commands.len());
        for tool in commands {
            check_name(&tool.name)?;
            if tool.command.is_empty() || !known.insert(tool.name.clone()) {
                let expected = "a command of its own";
                return Err(ServiceError::Invalid { what: "tool", text: tool.name, expected });
            }
            let schema = Schema::compile(&tool.name, &tool.schema)?;
            checked.push((tool, schema));
        }
        Ok(Self { workspace: workspace.to_owned(), commands: checked, limits, withheld })
    }

    pub fn names(&self) -> Vec<&str> {
        self.commands.iter().map(|(tool, _)| tool.name.as_str()).collect()
    }

    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        let spec = |(tool, _): &(CommandTool, Schema)| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.schema.clone(),
        };
        self.commands.iter().map(spec).collect()
    }

    fn find(&self, name: &str) -> Option<&(CommandTool, Schema)> {
        self.commands.iter().find(|(tool, _)| tool.name == name)
    }
}

/// A name that every provider takes.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    let expected = "a name of 1 to 64 letters, digits, - and _";
    Err(ServiceError::Invalid { what: "tool", text: name.to_owned(), expected })
}
