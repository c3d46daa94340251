//! `[run]`: when a wrapped agent is checkpointed.

use super::Config;
use super::key::{Key, Kind};

pub(super) const WHEN: Kind = Kind::OneOf(&["turn", "tool-result", "session-end"]);
pub(super) const EVERY: Kind = Kind::Count { min: 1, max: 10_000 };

pub(super) const KEYS: &[Key] = &[
    Key::new("run.checkpoint", WHEN).or("turn").env("ENJAMB_RUN_CHECKPOINT"),
    Key::new("run.every_turns", EVERY).or("1").env("ENJAMB_RUN_EVERY_TURNS"),
];

/// When a running agent's work is stored. Its end always is, however it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointWhen {
    /// After every so many turns.
    Turns(u64),
    /// After every result of a tool, and every turn.
    ToolResult,
    /// Only when it ends.
    SessionEnd,
}

/// `[run]`, as far as no template says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSettings {
    pub checkpoint: CheckpointWhen,
}

impl Config {
    pub fn run(&self) -> RunSettings {
        RunSettings { checkpoint: self.checkpoint_when(None) }
    }

    /// What a template says, else what `[run]` says. A flag is over both.
    pub(super) fn checkpoint_when(&self, template: Option<&str>) -> CheckpointWhen {
        let under = |name: &str| {
            let run = format!("run.{name}");
            let of_template = template.map(|template| format!("template.{template}.{name}"));
            let is_flag =
                self.settings.get(&run).is_some_and(|setting| matches!(setting.origin, super::Origin::Flag(_)));
            of_template.filter(|key| !is_flag && self.get(key).is_some()).unwrap_or(run)
        };
        let every = self.count(&under("every_turns")).unwrap_or(1);
        match self.text(&under("checkpoint")) {
            Some("tool-result") => CheckpointWhen::ToolResult,
            Some("session-end") => CheckpointWhen::SessionEnd,
            _ => CheckpointWhen::Turns(every),
        }
    }
}
