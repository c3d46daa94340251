//! The operations, one file a resource, and the table of them all.

mod artifacts;
mod bundles;
mod care;
mod compactions;
mod contexts;
mod current;
mod cursors;
mod meta;
mod packs;
mod refs;
mod runs;
mod seed;
mod seed_tasks;
mod sources;
mod streams;
mod summaries;
mod sync;
mod tasks;
mod threads;
mod tickets;
mod workspaces;

use std::sync::LazyLock;

use enjamb_core::chain::Stop;
use enjamb_core::limits;

use crate::call::Call;
use crate::problem::Result;
use crate::route::Route;

/// Rows of a page when nobody says how many.
const PAGE_ROWS: usize = 100;

/// Every operation that the server has.
pub fn routes() -> Vec<Route> {
    [
        meta::routes(),
        streams::routes(),
        artifacts::routes(),
        contexts::routes(),
        tickets::routes(),
        summaries::routes(),
        sources::routes(),
        current::routes(),
        refs::routes(),
        threads::routes(),
        runs::routes(),
        tasks::routes(),
        workspaces::routes(),
        compactions::routes(),
        cursors::routes(),
        bundles::routes(),
        packs::routes(),
        care::routes(),
        sync::routes(),
        seed::routes(),
        seed_tasks::routes(),
    ]
    .concat()
}

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(routes);

/// An operation by its name.
pub fn find(operation: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.operation == operation)
}

/// A number of rows as it was asked for, within what one page may have.
fn rows(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE_ROWS).clamp(1, limits::PAGE_ROWS_MAX)
}

/// Where a walk back ends: a word, or any revision.
fn stop(call: &Call, text: Option<&str>) -> Result<Stop> {
    match text {
        None | Some("compaction") => Ok(Stop::Compaction),
        Some("root") => Ok(Stop::Root),
        Some(revision) => Ok(Stop::At(call.store().revision(revision)?)),
    }
}
