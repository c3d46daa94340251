//! Manifests: what a checkpoint of a workspace is, in one small document that names the tree of its root.

use serde::{Deserialize, Serialize};

use crate::Digest;

const SCHEMA: &str = "enjamb.workspace/1";

/// A workspace at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    schema: String,
    /// Where the workspace was.
    pub root: String,
    /// The artifact of the root's tree, 64 hex digits.
    tree: String,
    pub files: u64,
    pub bytes: u64,
    /// Whether it holds what version control ignores.
    pub ignored: bool,
    /// Which commit of a git repository was checked out.
    pub git: Option<GitPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitPlace {
    pub head: String,
    pub branch: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("it is no workspace checkpoint: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its schema is {0:?}: expected {SCHEMA:?}")]
    Schema(String),
    #[error("its tree is no digest")]
    Tree,
}

impl Manifest {
    pub fn new(root: String, tree: Digest, (files, bytes): (u64, u64), ignored: bool, git: Option<GitPlace>) -> Self {
        Self { schema: SCHEMA.to_owned(), root, tree: tree.to_hex(), files, bytes, ignored, git }
    }

    pub fn tree(&self) -> Option<Digest> {
        Digest::from_hex(&self.tree)
    }

    pub fn to_json(&self) -> Vec<u8> {
        // Texts and numbers have a form in JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_slice(bytes)?;
        if manifest.schema != SCHEMA {
            return Err(ManifestError::Schema(manifest.schema));
        }
        manifest.tree().ok_or(ManifestError::Tree)?;
        Ok(manifest)
    }
}
