//! What workspace checkpoints hold: their frames name only manifests, so what is below these is looked up here.

use std::collections::HashSet;

use enjamb_core::ArtifactId;
use enjamb_core::workspace::{NodeKind, decode_tree};
use enjamb_ledger::Ledger;

use super::{WorkspaceError, WorkspaceView};
use crate::{Result, Store};

impl Store {
    /// Every tree, file and link target of every checkpoint whose files are here.
    pub(crate) fn kept_by_workspaces(&self) -> Result<HashSet<ArtifactId>> {
        let mut kept = HashSet::new();
        for checkpoint in self.workspace_checkpoints(None, usize::MAX)? {
            let Some(manifest) = checkpoint.manifest else { continue };
            if self.ledger.artifact(&manifest)?.is_some() && kept.insert(manifest) {
                let tree = self.workspace_manifest(&checkpoint)?.tree().map(ArtifactId::from_digest);
                tree.map_or(Ok(()), |tree| self.reach(&checkpoint, tree, &mut kept))?;
            }
        }
        Ok(kept)
    }

    fn reach(&self, checkpoint: &WorkspaceView, tree: ArtifactId, kept: &mut HashSet<ArtifactId>) -> Result<()> {
        let mut waiting = vec![tree];
        while let Some(tree) = waiting.pop() {
            // What was met before, in this checkpoint or another, brings nothing new.
            if !kept.insert(tree) {
                continue;
            }
            let damaged = |detail: String| WorkspaceError::Damaged { id: checkpoint.id.clone(), detail };
            let entries =
                decode_tree(&self.get_document(&tree)?).map_err(|error| damaged(format!("tree {tree}: {error}")))?;
            for entry in entries {
                let id = ArtifactId::from_digest(entry.node.id);
                match entry.node.kind {
                    NodeKind::Dir => waiting.push(id),
                    NodeKind::File | NodeKind::Link => drop(kept.insert(id)),
                }
            }
        }
        Ok(())
    }
}
