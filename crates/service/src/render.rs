//! Rendering a bundle for a provider: what it refers to is looked up, and the rest is decided in `core`.

use enjamb_core::ArtifactId;
use enjamb_core::compile::{Item, RETRIEVAL_MIME, RenderTarget, RetrievalResults, Shown, render};
use enjamb_ledger::Ledger;

use crate::{Result, ServiceError, Store};

/// Text up to this size is shown where it is referred to; more is told by its size.
pub(crate) const SHOWN_BYTES_MAX: usize = 4_096;

impl Store {
    /// The part of a request that holds a bundle's context.
    pub fn render(&self, artifact: &ArtifactId, target: RenderTarget) -> Result<Vec<u8>> {
        let bundle = self.bundle(artifact)?;
        let shown = bundle.items.iter().map(|item| self.shown(item)).collect::<Result<Vec<_>>>()?;
        Ok(render(&bundle, &shown, target))
    }

    /// What an item refers to.
    pub(crate) fn shown(&self, item: &Item) -> Result<Shown> {
        match item {
            Item::Message { .. } | Item::ToolSideEffectRef { .. } => Ok(Shown::Nothing),
            Item::SummaryRef { artifact_id, .. } => Ok(Shown::Summary(self.summary_artifact(artifact_id)?)),
            Item::HandoffBundleRef { artifact_id } => Ok(Shown::Handoff(self.handoff_bundle(&artifact_id.parse()?)?)),
            Item::ArtifactRef { artifact_id, .. } => self.shown_artifact(item, artifact_id),
            Item::FileRef { digest: Some(digest), .. } => self.shown_artifact(item, digest),
            Item::FileRef { digest: None, .. } => Ok(Shown::Nothing),
        }
    }

    fn shown_artifact(&self, item: &Item, hex: &str) -> Result<Shown> {
        let id: ArtifactId = hex.parse()?;
        let unknown = || ServiceError::Unknown { what: "artifact", name: id.to_string() };
        let len = self.ledger.artifact(&id)?.ok_or_else(unknown)?.len;
        if len > SHOWN_BYTES_MAX as u64 && !is_retrieval(item) {
            return Ok(Shown::Bytes(len));
        }
        Ok(shown_as(item, self.get_document(&id)?))
    }
}

/// Bytes as an item that refers to them shows them.
pub(crate) fn shown_as(item: &Item, bytes: Vec<u8>) -> Shown {
    match RetrievalResults::parse(&bytes).filter(|_| is_retrieval(item)) {
        Some(results) => Shown::Text(results.text()),
        None => shown_bytes(bytes),
    }
}

fn is_retrieval(item: &Item) -> bool {
    matches!(item, Item::ArtifactRef { mime: Some(mime), .. } if mime == RETRIEVAL_MIME)
}

/// Bytes as they are shown where they are referred to.
pub(crate) fn shown_bytes(bytes: Vec<u8>) -> Shown {
    let len = bytes.len() as u64;
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= SHOWN_BYTES_MAX => Shown::Text(text),
        _ => Shown::Bytes(len),
    }
}
