//! `[tool.NAME]`, `[mcp.NAME]` and `[tools]`: what a model may have run. A repository may not say any of it by itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::key::{Key, Kind, Value};
use super::{Config, ConfigError};
use crate::{CommandTool, Effect, McpServer, Result, ToolLimits, Toolbox};

const EFFECT: Kind = Kind::OneOf(&["read-only", "mutating"]);
const SECONDS: Kind = Kind::Count { min: 1, max: 86_400 };
const BYTES: Kind = Kind::Count { min: 1_024, max: 1 << 30 };

pub(super) const KEYS: &[Key] = &[
    Key::new("tools.max_calls", Kind::Count { min: 0, max: 10_000 }),
    Key::new("tools.max_output_bytes", BYTES),
    Key::new("tools.preview_bytes", BYTES),
    Key::new("tool.*.command", Kind::Texts).needs_trust(),
    Key::new("tool.*.description", Kind::Text).needs_trust(),
    Key::new("tool.*.schema", Kind::Text).needs_trust(),
    Key::new("tool.*.effect", EFFECT).needs_trust(),
    Key::new("tool.*.timeout_seconds", SECONDS).needs_trust(),
    Key::new("tool.*.paths", Kind::Texts).needs_trust(),
    Key::new("mcp.*.command", Kind::Texts).needs_trust(),
    Key::new("mcp.*.env", Kind::Variables).needs_trust(),
    Key::new("mcp.*.read_only", Kind::Texts).needs_trust(),
    Key::new("mcp.*.timeout_seconds", SECONDS).needs_trust(),
];

/// How long a tool may take when nobody says.
const TIMEOUT_SECONDS: u64 = 60;

impl Config {
    /// The tools that a model may call in a workspace. Servers are started.
    pub fn toolbox(&self, workspace: &Path) -> Result<Toolbox> {
        let commands = self.named("tool").into_iter().map(|name| self.tool(name)).collect::<Result<Vec<_>>>()?;
        let usual = ToolLimits::default();
        let bytes = |key, usual| self.count(key).map_or(usual, |bytes| bytes as usize);
        let limits = ToolLimits {
            calls_max: self.count("tools.max_calls").unwrap_or(usual.calls_max),
            output_bytes_max: bytes("tools.max_output_bytes", usual.output_bytes_max),
            preview_bytes_max: bytes("tools.preview_bytes", usual.preview_bytes_max),
        };
        let mut tools = Toolbox::new(workspace, commands, limits, self.key_variables())?;
        for name in self.named("mcp") {
            tools.connect(self.mcp(name)?)?;
        }
        Ok(tools)
    }

    /// The names below a section.
    fn named(&self, section: &str) -> BTreeSet<&str> {
        let keys = self.settings.keys().filter_map(|key| key.strip_prefix(section)?.strip_prefix('.'));
        keys.filter_map(|rest| rest.split_once('.').map(|(name, _)| name)).collect()
    }

    fn tool(&self, name: &str) -> Result<CommandTool> {
        let key = |member: &str| format!("tool.{name}.{member}");
        let schema = match self.text(&key("schema")) {
            None => json!({"type": "object", "additionalProperties": false}),
            Some(text) => serde_json::from_str(text).map_err(|error| ConfigError::BadText {
                name: key("schema"),
                key: key("schema"),
                expected: format!("a JSON schema: {error}"),
            })?,
        };
        Ok(CommandTool {
            name: name.to_owned(),
            description: self.text(&key("description")).unwrap_or_default().to_owned(),
            command: self.texts(&key("command")),
            schema,
            // Who does not say is taken to change files.
            effect: match self.text(&key("effect")) {
                Some("read-only") => Effect::ReadOnly,
                _ => Effect::Mutating,
            },
            timeout: self.seconds(&key("timeout_seconds")),
            paths: self.texts(&key("paths")),
        })
    }

    fn mcp(&self, name: &str) -> Result<McpServer> {
        let key = |member: &str| format!("mcp.{name}.{member}");
        let env = match self.get(&key("env")) {
            Some(Value::Variables(variables)) => variables.clone(),
            _ => Default::default(),
        };
        let (command, read_only) = (self.texts(&key("command")), self.texts(&key("read_only")));
        Ok(McpServer { name: name.to_owned(), command, env, read_only, timeout: self.seconds(&key("timeout_seconds")) })
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match self.get(key) {
            Some(Value::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    fn seconds(&self, key: &str) -> Duration {
        Duration::from_secs(self.count(key).unwrap_or(TIMEOUT_SECONDS))
    }
}
