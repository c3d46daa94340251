//! What was imported, and what of it is secret.

use std::collections::BTreeSet;

use enjamb_service::{SecretPlace, SourceState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An imported file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ImportedFile {
    pub path: String,
    pub runtime: String,
    pub session: Option<String>,
    pub commits: u64,
    pub tip: Option<String>,
}

impl From<&SourceState> for ImportedFile {
    fn from(source: &SourceState) -> Self {
        // Several parts of a document may be told by one commit.
        let told: BTreeSet<_> = source.parts.iter().map(|part| part.commit.to_string()).collect();
        Self {
            path: source.path.clone(),
            runtime: source.runtime.clone(),
            session: source.session.clone(),
            commits: told.len() as u64,
            tip: source.tip().map(|id| id.to_string()),
        }
    }
}

/// Where a secret is, and of which kind; never the secret.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SecretAt {
    pub path: String,
    pub session: Option<String>,
    pub commit: Option<String>,
    pub rule: String,
    pub offset: u64,
    pub bytes: u64,
    pub preview: String,
    pub digest: String,
}

impl From<&SecretPlace> for SecretAt {
    fn from(place: &SecretPlace) -> Self {
        Self {
            path: place.path.clone(),
            session: place.session.clone(),
            commit: place.commit.map(|id| id.to_string()),
            rule: place.rule.to_owned(),
            offset: place.offset,
            bytes: place.bytes,
            preview: place.preview.clone(),
            digest: place.digest.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Secrets {
    /// The rules that they were found by.
    pub rules: String,
    pub secrets: Vec<SecretAt>,
}
