//! Tools that a model may call: only those that the configuration declares, within their bounds.

mod call;
mod command;
mod denial;
mod mcp;
mod output;
mod paths;
mod schema;

use std::path::{Path, PathBuf};
use std::time::Duration;

use enjamb_core::provider::ToolSpec;
use serde_json::Value;

use crate::{Result, ServiceError};

use self::mcp::Connection;
use self::schema::Schema;

pub use self::denial::Denial;
pub use self::mcp::McpServer;

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

/// A tool that may be called.
#[derive(Debug)]
struct Declared {
    spec: ToolSpec,
    schema: Schema,
    effect: Effect,
    timeout: Duration,
    paths: Vec<String>,
    action: Action,
}

/// Who does it.
#[derive(Debug)]
enum Action {
    Command(Vec<String>),
    /// A server, by its place among them, and what it calls the tool.
    Server(usize, String),
}

/// The tools of a run.
#[derive(Debug, Default)]
pub struct Toolbox {
    /// Where they work.
    workspace: PathBuf,
    tools: Vec<Declared>,
    servers: Vec<Connection>,
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
        let workspace = workspace.to_owned();
        let mut tools = Self { workspace, tools: Vec::new(), servers: Vec::new(), limits, withheld };
        for tool in commands {
            let CommandTool { name, description, command, schema, effect, timeout, paths } = tool;
            if command.is_empty() {
                return Err(ServiceError::Invalid { what: "tool", text: name, expected: "a command" });
            }
            let spec = ToolSpec { name, description, parameters: schema };
            tools.declare(spec, effect, timeout, paths, Action::Command(command))?;
        }
        Ok(tools)
    }

    /// Starts a server and takes in its tools, under its name and theirs.
    pub fn connect(&mut self, server: McpServer) -> Result<()> {
        let connection = Connection::open(server, &self.workspace, &self.withheld)?;
        let at = self.servers.len();
        let server = connection.server.clone();
        for tool in &connection.tools {
            let effect = match server.read_only.iter().any(|name| *name == tool.name) {
                true => Effect::ReadOnly,
                false => Effect::Mutating,
            };
            let spec = ToolSpec {
                name: format!("{}__{}", server.name, tool.name),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                parameters: Value::Object(tool.input_schema.as_ref().clone()),
            };
            self.declare(spec, effect, server.timeout, Vec::new(), Action::Server(at, tool.name.to_string()))?;
        }
        self.servers.push(connection);
        Ok(())
    }

    fn declare(
        &mut self,
        spec: ToolSpec,
        effect: Effect,
        timeout: Duration,
        paths: Vec<String>,
        action: Action,
    ) -> Result<()> {
        check_name(&spec.name)?;
        if self.find(&spec.name).is_some() {
            return Err(ServiceError::Invalid { what: "tool", text: spec.name, expected: "a name of its own" });
        }
        let schema = Schema::compile(&spec.name, &spec.parameters)?;
        self.tools.push(Declared { spec, schema, effect, timeout, paths, action });
        Ok(())
    }

    pub fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.spec.name.as_str()).collect()
    }

    /// Each tool: what it is called, what it does to files, and how it is described.
    pub fn listed(&self) -> impl Iterator<Item = (&str, Effect, &str)> {
        self.tools.iter().map(|tool| (tool.spec.name.as_str(), tool.effect, tool.spec.description.as_str()))
    }

    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }

    fn find(&self, name: &str) -> Option<&Declared> {
        self.tools.iter().find(|tool| tool.spec.name == name)
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
