//! Context packs.

use enjamb_service::{PackRecord, Packed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    pub code: String,
    pub count: u64,
    pub what: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pack {
    pub hash: String,
    pub artifact: String,
    pub recorded_ms: u64,
    pub session: String,
    pub title: Option<String>,
    pub messages: u64,
    pub sources: u64,
    pub from: Option<String>,
    pub redaction: Option<Value>,
    /// It was there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<Warning>>,
}

impl From<&PackRecord> for Pack {
    fn from(record: &PackRecord) -> Self {
        Self {
            hash: record.hash.clone(),
            artifact: record.artifact.to_string(),
            recorded_ms: record.recorded_ms,
            session: record.session.clone(),
            title: record.title.clone(),
            messages: record.messages,
            sources: record.sources,
            from: record.from.clone(),
            redaction: record.redaction.as_deref().and_then(|json| serde_json::from_str(json).ok()),
            known: None,
            warnings: None,
        }
    }
}

impl From<&Packed> for Pack {
    fn from(packed: &Packed) -> Self {
        let warning = |warning: &enjamb_service::PackWarning| Warning {
            code: warning.code.to_owned(),
            count: warning.count,
            what: warning.what.to_owned(),
        };
        Self {
            known: Some(packed.known),
            warnings: Some(packed.warnings.iter().map(warning).collect()),
            ..Self::from(&packed.record)
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Packs {
    pub packs: Vec<Pack>,
    /// The cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
