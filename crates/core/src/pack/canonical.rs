//! The one order in which a set of sources is written down and hashed.
//!
//! [`Algorithm::Compat`] is the algorithm by which every pack of version 0.7.0 was hashed, its oddities included: a source
//! is told from another only by members whose names also stand at the top, so that owners and the insides of `ref` do not
//! count, and the order is that of the Unicode root collation. [`Algorithm::Strict`] loses nothing and orders by bytes.

use std::collections::HashSet;
use std::sync::LazyLock;

use icu_collator::options::CollatorOptions;
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use sha2::{Digest as _, Sha256};

use super::{Source, Tree};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Compat,
    Strict,
}

impl Algorithm {
    pub const fn id(self) -> &'static str {
        match self {
            Self::Compat => "i732-compat",
            Self::Strict => "i732-strict",
        }
    }
}

/// Each source once, in order.
pub fn canonical(sources: Vec<Source>, algorithm: Algorithm) -> Vec<Source> {
    let mut seen = HashSet::new();
    let mut kept: Vec<Source> = sources.into_iter().filter(|source| seen.insert(identity(source, algorithm))).collect();
    match algorithm {
        Algorithm::Compat => {
            kept.sort_by(|a, b| COLLATOR.compare(&a.sort_key(), &b.sort_key()));
        }
        Algorithm::Strict => kept.sort_by_cached_key(|source| (source.sort_key(), source.tree().sorted().compact())),
    }
    kept
}

/// By which two sources are the same.
fn identity(source: &Source, algorithm: Algorithm) -> String {
    let tree = source.tree();
    let tree = match (algorithm, &tree) {
        (Algorithm::Compat, Tree::Object(members)) => {
            let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
            tree.only(&names)
        }
        _ => tree,
    };
    tree.sorted().compact()
}

/// The hash of a set of sources; of none, none.
pub fn sources_hash(sources: &[Source]) -> Option<String> {
    (!sources.is_empty()).then(|| sha256_hex(&Tree::List(sources.iter().map(Source::tree).collect()).compact()))
}

pub(super) fn sha256_hex(text: &str) -> String {
    crate::digest::to_hex(&Sha256::digest(text.as_bytes()))
}

/// Other programs take the collation of their host; every host whose language has no rules of its own takes this one.
static COLLATOR: LazyLock<CollatorBorrowed<'static>> = LazyLock::new(|| {
    Collator::try_new(CollatorPreferences::default(), CollatorOptions::default())
        .expect("the root collation is compiled in")
});
