//! Settings: files, the environment and flags laid over one another, each value with where it comes from.
//!
//! A section is a file here: the keys that it knows ([`Key`]) and what it makes of them. All else is the same for every
//! section: a key that none knows, or a value of another kind, is refused with its place before anything is done.

mod error;
mod file;
mod key;
mod objects;
mod places;
mod provider;
mod remote;
mod run;
mod serve;
mod suggest;
mod template;
mod tools;
mod trust;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use key::Key;

pub use error::ConfigError;
pub use key::Value as SettingValue;
use key::Value;
pub use places::ConfigPlaces;
pub use remote::RemoteSetting;
pub use run::{CheckpointWhen, RunSettings};
pub use serve::ServeSettings;
pub use template::{Driver, Template};
pub use trust::Trust;

/// What every section knows.
const SECTIONS: &[&[Key]] =
    &[run::KEYS, serve::KEYS, template::KEYS, provider::KEYS, tools::KEYS, remote::KEYS, objects::KEYS];

/// The settings that hold, and those of a repository that nobody has said to trust.
#[derive(Clone, Debug, Default)]
pub struct Config {
    settings: BTreeMap<String, Setting>,
    set_aside: Vec<(String, Setting)>,
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub value: Value,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl Config {
    /// Defaults, then the user's file, then the files of the repository, then the environment.
    pub fn load(places: &ConfigPlaces, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for key in keys() {
            if let Some(text) = key.default {
                let value = key.kind.parse(text).expect("a default is of its key's kind");
                config.put(key.path.to_owned(), Setting { value, origin: Origin::Default });
            }
        }
        if let Some(text) = places.user_file()? {
            config.lay(file::read(&text)?, true);
        }
        let trust = Trust::read(places)?;
        for text in places.repository_files()? {
            let is_trusted = trust.holds(&text);
            config.lay(file::read(&text)?, is_trusted);
        }
        for key in keys() {
            let Some(name) = key.env else { continue };
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
            config.put(
                key.path.to_owned(),
                Setting { value: of_variable(key, name, text)?, origin: Origin::Environment(name) },
            );
        }
        Ok(config)
    }

    /// Lays a flag over everything else.
    pub fn set(&mut self, path: &'static str, flag: &'static str, text: &str) -> Result<(), ConfigError> {
        let key = key::find(path).expect("a flag stands for a key");
        let value = key.kind.parse(text).ok_or_else(|| ConfigError::BadText {
            name: flag.to_owned(),
            key: path.to_owned(),
            expected: key.kind.to_string(),
        })?;
        self.put(path.to_owned(), Setting { value, origin: Origin::Flag(flag) });
        Ok(())
    }

    /// Every setting that holds, by key.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    /// Settings of the repository that do not hold because nobody said to trust its file.
    pub fn set_aside(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.set_aside.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.settings.get(key).map(|setting| &setting.value)
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn count(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Count(count) => Some(*count),
            _ => None,
        }
    }

    fn put(&mut self, key: String, setting: Setting) {
        self.settings.insert(key, setting);
    }

    fn lay(&mut self, read: Vec<file::Read>, is_trusted: bool) {
        for file::Read { key, path, setting } in read {
            if key.needs_trust && !is_trusted {
                self.set_aside.push((path, setting));
            } else {
                self.put(path, setting);
            }
        }
    }
}

fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().copied().flatten()
}

fn of_variable(key: &Key, name: &'static str, text: OsString) -> Result<Value, ConfigError> {
    let bad = |expected: String| ConfigError::BadText { name: format!("${name}"), key: key.path.to_owned(), expected };
    let text = text.into_string().map_err(|_| bad("UTF-8".into()))?;
    key.kind.parse(&text).ok_or_else(|| bad(key.kind.to_string()))
}

#[cfg(test)]
mod tests;
