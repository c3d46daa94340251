//! `[template.NAME]`: agents that can be started.

use std::collections::{BTreeMap, BTreeSet};

use super::key::{Key, Kind, Value};
use super::run::{EVERY, WHEN};
use super::{CheckpointWhen, Config, ConfigError, Origin};

pub(super) const KEYS: &[Key] = &[
    Key::new("template.*.driver", Kind::OneOf(&["claude-code", "codex", "generic"])),
    Key::new("template.*.command", Kind::Text).needs_trust(),
    Key::new("template.*.args", Kind::Texts).needs_trust(),
    Key::new("template.*.env", Kind::Variables).needs_trust(),
    Key::new("template.*.model", Kind::Text),
    Key::new("template.*.system_prompt", Kind::Text),
    Key::new("template.*.checkpoint", WHEN),
    Key::new("template.*.every_turns", EVERY),
];

/// How an agent is spoken to, and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    ClaudeCode,
    Codex,
    /// Any program: what it prints is what is known of it.
    Generic,
}

impl Driver {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Generic => "generic",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::ClaudeCode, Self::Codex, Self::Generic].into_iter().find(|driver| driver.as_str() == text)
    }
}

/// An agent as `[template.NAME]` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub driver: Driver,
    /// The program; `None` is the driver's own.
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub checkpoint: CheckpointWhen,
}

impl Config {
    /// The template of a name. One that rests on settings which were set aside is refused: half of it is not it.
    pub fn template(&self, name: &str) -> Result<Template, ConfigError> {
        if let Some((key, file)) = self.withheld(name) {
            return Err(ConfigError::Untrusted { name: name.to_owned(), key, file });
        }
        if !self.templates().contains(name) {
            let known = self.templates().into_iter().map(str::to_owned).collect();
            return Err(ConfigError::NoTemplate { name: name.to_owned(), known });
        }
        let key = |member: &str| format!("template.{name}.{member}");
        let text = |member: &str| self.text(&key(member)).map(str::to_owned);
        let command = text("command");
        let driver = match (text("driver").as_deref().and_then(Driver::parse), &command) {
            (Some(driver), _) => driver,
            (None, Some(_)) => Driver::Generic,
            (None, None) => return Err(ConfigError::NoDriver { name: name.to_owned() }),
        };
        let args = match self.get(&key("args")) {
            Some(Value::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let env = match self.get(&key("env")) {
            Some(Value::Variables(variables)) => variables.clone(),
            _ => BTreeMap::new(),
        };
        let checkpoint = self.checkpoint_when(Some(name));
        let (model, system_prompt) = (text("model"), text("system_prompt"));
        Ok(Template { name: name.to_owned(), driver, command, args, env, model, system_prompt, checkpoint })
    }

    /// The names of the templates that there are.
    pub fn templates(&self) -> BTreeSet<&str> {
        self.settings().filter_map(|(key, _)| name_in(key)).collect()
    }

    fn withheld(&self, name: &str) -> Option<(String, std::path::PathBuf)> {
        self.set_aside().filter(|(key, _)| name_in(key) == Some(name)).find_map(|(key, setting)| {
            match &setting.origin {
                Origin::File { path, .. } => Some((key.to_owned(), path.clone())),
                Origin::Default | Origin::Environment(_) | Origin::Flag(_) => None,
            }
        })
    }
}

fn name_in(key: &str) -> Option<&str> {
    key.strip_prefix("template.")?.split('.').next()
}
