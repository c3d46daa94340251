//! What somebody may have meant.

use std::collections::BTreeSet;

use super::key::begins;
use super::keys;

/// What to say of a name that no section knows, below the segments before it.
pub(super) fn instead_of(name: &str, below: &[&str]) -> String {
    let known: BTreeSet<&str> = keys()
        .filter(|key| begins(key, below))
        .filter_map(|key| key.segments().nth(below.len()))
        .filter(|segment| *segment != "*")
        .collect();
    let path = |segment: &str| below.iter().copied().chain([segment]).collect::<Vec<_>>().join(".");
    match nearest(name, &known) {
        Some(segment) => format!("did you mean {}?", path(segment)),
        None => format!("known here: {}", known.into_iter().map(path).collect::<Vec<_>>().join(", ")),
    }
}

fn nearest<'k>(name: &str, known: &BTreeSet<&'k str>) -> Option<&'k str> {
    let near = known.iter().map(|segment| (strsim::damerau_levenshtein(name, segment), *segment));
    near.filter(|(distance, segment)| *distance <= 1 + segment.len() / 4).min().map(|(_, segment)| segment)
}
