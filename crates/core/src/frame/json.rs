//! Free-form JSON inside a frame, kept as the text it was read from.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value, verbatim: numbers keep their digits, strings their escapes and objects the order of their keys.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    pub fn parse(text: impl Into<String>) -> serde_json::Result<Self> {
        RawValue::from_string(text.into()).map(Self)
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    pub(super) fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }
}

/// Keys come out sorted, as the frames of other writers have them.
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).expect("a value in memory is always JSON"))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}
