//! `[objects]`: where the segments of a store in a database live.

use super::Config;
use super::key::{Key, Kind};

/// Where to put everything is not for a repository to say.
pub(super) const KEYS: &[Key] = &[Key::new("objects.url", Kind::Text).env("ENJAMB_OBJECTS").needs_trust()];

impl Config {
    /// The object store that was named, if one was.
    pub fn objects(&self) -> Option<String> {
        self.text("objects.url").map(str::to_owned)
    }
}
