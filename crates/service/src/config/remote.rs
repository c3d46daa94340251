//! `[remote.NAME]`: other stores that this one is synced with.

use std::io::Write;
use std::path::PathBuf;

use super::key::{self, Key, Kind};
use super::{Config, ConfigError, ConfigPlaces, Origin};

/// Where to send everything, and with which token, is not for a repository to say.
pub(super) const KEYS: &[Key] =
    &[Key::new("remote.*.url", Kind::Text).needs_trust(), Key::new("remote.*.token_file", Kind::Text).needs_trust()];

/// Another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSetting {
    pub name: String,
    /// A directory, or the address of a server.
    pub url: String,
    /// The file that holds the token for the server.
    pub token_file: Option<String>,
    pub origin: Origin,
}

impl Config {
    /// The stores that are known by name.
    pub fn remotes(&self) -> Vec<RemoteSetting> {
        let named = self.settings().filter_map(|(path, setting)| {
            let name = path.strip_prefix("remote.")?.strip_suffix(".url")?;
            let token_file = self.text(&format!("remote.{name}.token_file")).map(str::to_owned);
            let url = self.text(path)?.to_owned();
            Some(RemoteSetting { name: name.to_owned(), url, token_file, origin: setting.origin.clone() })
        });
        named.collect()
    }

    /// Names a store in the user's own file, after all that is there.
    pub fn add_remote(
        &self,
        places: &ConfigPlaces,
        name: &str,
        url: &str,
        token_file: Option<&str>,
    ) -> Result<PathBuf, ConfigError> {
        if !key::is_name(name) {
            let expected = "1 to 64 letters, digits, - and _".to_owned();
            return Err(ConfigError::BadText { name: format!("{name:?}"), key: "remote.NAME".into(), expected });
        }
        if self.remotes().iter().any(|remote| remote.name == name) {
            return Err(ConfigError::RemoteThere { name: name.to_owned() });
        }
        let mut text = places.user_text()?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("\n[remote.{name}]\nurl = {}\n", quoted(url)));
        if let Some(file) = token_file {
            text.push_str(&format!("token_file = {}\n", quoted(file)));
        }
        write(places, text.trim_start_matches('\n'))
    }

    /// Takes the section of a store out of the user's own file. All else stays as it is.
    pub fn remove_remote(&self, places: &ConfigPlaces, name: &str) -> Result<PathBuf, ConfigError> {
        let known = self.remotes();
        let Some(remote) = known.iter().find(|remote| remote.name == name) else {
            return Err(ConfigError::NoRemote { name: name.to_owned(), known: names(&known) });
        };
        let text = places.user_text()?;
        let left = without_section(&text, &format!("[remote.{name}]"));
        match left {
            Some(left) => write(places, &left),
            None => Err(ConfigError::RemoteElsewhere { name: name.to_owned(), origin: remote.origin.to_string() }),
        }
    }
}

pub(super) fn names(remotes: &[RemoteSetting]) -> Vec<String> {
    remotes.iter().map(|remote| remote.name.clone()).collect()
}

/// A text as TOML has it: JSON's strings are strings there too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text without the section of a header, up to the next one; `None` when it has no such header on a line of its own.
fn without_section(text: &str, header: &str) -> Option<String> {
    let mut left = String::new();
    let (mut inside, mut found) = (false, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if bare.starts_with('[') {
            inside = bare.split('#').next().unwrap_or_default().trim() == header;
            found |= inside;
        }
        if !inside {
            left.push_str(line);
        }
    }
    let left = left.trim_end_matches('\n');
    found.then(|| if left.is_empty() { String::new() } else { format!("{left}\n") })
}

/// Written beside its place and renamed: a reader sees the old settings or the new ones.
fn write(places: &ConfigPlaces, text: &str) -> Result<PathBuf, ConfigError> {
    let path = places.user.clone().ok_or(ConfigError::NoPlace)?;
    let failed = |source| ConfigError::Unreadable { path: path.clone(), source };
    let dir = path.parent().expect("a file is in a directory");
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    if let Ok(there) = std::fs::metadata(&path) {
        file.as_file().set_permissions(there.permissions()).map_err(failed)?;
    }
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_taken_out_and_all_else_stays() {
        let text =
            "# mine\n[run]\ncheckpoint = \"turn\"\n\n[remote.a]\nurl = \"x\" # y\n\n[remote.ab] # other\nurl = \"z\"\n";
        let left = without_section(text, "[remote.a]").unwrap();
        assert_eq!(left, "# mine\n[run]\ncheckpoint = \"turn\"\n\n[remote.ab] # other\nurl = \"z\"\n");
        assert_eq!(without_section(&left, "[remote.ab]").unwrap(), "# mine\n[run]\ncheckpoint = \"turn\"\n");
        assert_eq!(without_section(text, "[remote.b]"), None);
    }
}
