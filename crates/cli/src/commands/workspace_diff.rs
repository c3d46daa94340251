//! `enjamb workspace diff`: what changed within files, line by line.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use enjamb_core::workspace::{Node, NodeKind};
use enjamb_service::{Store, WorkspaceChange, WorkspaceContent, WorkspaceDiff};
use similar::TextDiff;

use super::Context;
use super::workspace_view::{count_of, told};
use crate::failure::{Exit, Result};

/// Files that are longer are only named.
const BYTES_MAX: u64 = 1 << 20;
/// After that, a comparison need not be the shortest.
const PATIENCE: Duration = Duration::from_secs(5);
const CONTEXT_LINES: usize = 3;

pub fn show(context: &mut Context<'_>, store: &Store, diff: &WorkspaceDiff, root: &Path) -> Result<Exit> {
    for change in &diff.changes {
        let content = match is_only_named(change) {
            true => None,
            false => store.workspace_content(diff, change, root, BYTES_MAX)?,
        };
        let text = content.and_then(|content| lines(change, &content)).unwrap_or_else(|| named(change));
        // What files hold is hostile, and may hold secrets.
        let mut out = context.ui.stored_writer();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    context.ui.note(&count_of(diff));
    Ok(if diff.changes.is_empty() { Exit::Done } else { Exit::No })
}

/// Directories and modes have no lines.
fn is_only_named(change: &WorkspaceChange) -> bool {
    let is_dir = |node: &Option<Node>| node.is_some_and(|node| node.kind == NodeKind::Dir);
    change.what == "mode" || is_dir(&change.from) || is_dir(&change.to)
}

/// How two texts differ; `None` for what is no text.
fn lines(change: &WorkspaceChange, content: &WorkspaceContent) -> Option<String> {
    let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let (from, to) = (text(&content.from)?, text(&content.to)?);
    let side = |node: &Option<Node>, letter| match node {
        Some(_) => format!("{letter}/{}", change.path),
        None => "/dev/null".to_owned(),
    };
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(from, to);
    let header = (side(&change.from, 'a'), side(&change.to, 'b'));
    let hunks = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    Some(format!("--- {}\n+++ {}\n{hunks}", header.0, header.1))
}

/// A change in one line.
fn named(change: &WorkspaceChange) -> String {
    let sides = [told(change.from.as_ref()), told(change.to.as_ref())];
    let sides: Vec<_> = sides.iter().map(|side| if side.is_empty() { "nothing" } else { side.as_str() }).collect();
    format!("{} {}: {}\n", change.what, change.path, sides.join(" → "))
}
