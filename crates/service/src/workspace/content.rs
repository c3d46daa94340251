//! What stands at a path in one state of a workspace or another: the bytes of a file, or where a link leads.

use std::io::Read;
use std::path::Path;

use enjamb_core::ArtifactId;
use enjamb_core::workspace::{Node, NodeKind, unescape};

use super::{Root, WorkspaceChange, WorkspaceDiff};
use crate::{Result, ServiceError, Store};

/// The two sides of a change. What is not there is empty, and so is a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceContent {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl Store {
    /// What a change changes; `None` when either side has more than `bytes_max` bytes. Files as they are now are read
    /// from the workspace at `root`.
    pub fn workspace_content(
        &self,
        diff: &WorkspaceDiff,
        change: &WorkspaceChange,
        root: &Path,
        bytes_max: u64,
    ) -> Result<Option<WorkspaceContent>> {
        let fits = |node: &Option<Node>| node.is_none_or(|node| node.size <= bytes_max);
        if !fits(&change.from) || !fits(&change.to) {
            return Ok(None);
        }
        let from = self.stored_content(change.from.as_ref())?;
        let to = match &diff.to {
            Some(_) => self.stored_content(change.to.as_ref())?,
            None => present_content(&Root::open(root)?, change, bytes_max)?,
        };
        Ok(Some(WorkspaceContent { from, to }))
    }

    fn stored_content(&self, node: Option<&Node>) -> Result<Vec<u8>> {
        match node {
            Some(node) if node.kind != NodeKind::Dir => {
                let mut bytes = Vec::new();
                self.get(&ArtifactId::from_digest(node.id), None, &mut |part| {
                    bytes.extend_from_slice(part);
                    Ok(())
                })?;
                Ok(bytes)
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }
}

fn present_content(root: &Root, change: &WorkspaceChange, bytes_max: u64) -> Result<Vec<u8>> {
    let Some(node) = change.to else { return Ok(Vec::new()) };
    let path = unescape(&change.path).unwrap_or_default();
    let mut bytes = Vec::new();
    let read = match node.kind {
        NodeKind::Dir => Ok(()),
        NodeKind::Link => root.read_link(&path).map(|target| bytes = target),
        NodeKind::File => root.open_file(&path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes)).map(drop),
    };
    read.map_err(|source| ServiceError::File { path: root.path().join(&change.path), source })?;
    Ok(bytes)
}
