//! What a store has, as digests: one for each stream, and one for all streams whose digests begin alike.

use std::collections::BTreeSet;

use crate::{Digest, Hasher, StreamId};

/// Streams that are listed one by one; of more, digests are given.
const LISTED_MAX: usize = 64;
/// Hex digits of a digest.
const PREFIX_DIGITS_MAX: usize = 64;

/// The end of a stream, or of a branch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tip {
    /// Frames up to here.
    pub len: u64,
    /// The chain value of the last of them.
    pub chain: Digest,
}

/// A frame of a stream, by its seq and its chain value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    pub stream: StreamId,
    pub seq: u64,
    pub chain: Digest,
}

/// A stream and where it ends: in several places, when stores have written to it at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub stream: StreamId,
    pub tips: BTreeSet<Tip>,
}

/// Where a branch leaves what was before it, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    pub from: Tip,
    pub tip: Tip,
}

/// The ends of a stream with branches. An end that a branch goes on from is none.
pub fn tips(own: Option<Tip>, forks: &[Fork]) -> BTreeSet<Tip> {
    let ends = own.into_iter().chain(forks.iter().map(|fork| fork.tip));
    ends.filter(|end| forks.iter().all(|fork| fork.from != *end)).collect()
}

impl Head {
    /// Streams are found by the digests of their names, which spread them evenly.
    fn key(&self) -> String {
        Digest::of(self.stream.to_string().as_bytes()).to_hex()
    }

    fn digest(&self) -> Digest {
        let name = self.stream.to_string();
        let mut hasher = Hasher::new();
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        for tip in &self.tips {
            hasher.update(&tip.len.to_le_bytes()).update(tip.chain.as_bytes());
        }
        hasher.finish()
    }
}

/// Streams whose keys begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Covers them all: two nodes with the same digest hold the same. That of all streams is the root.
    pub digest: Digest,
    pub streams: u64,
    /// The digests of those whose next digit is 0, 1, … f. Empty when they are listed.
    pub children: Vec<Digest>,
    /// The streams, when they are few.
    pub heads: Vec<Head>,
}

/// The node of a beginning of keys; `None` when it is no such thing.
pub fn node(heads: &[Head], prefix: &str) -> Option<Node> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if prefix.len() > PREFIX_DIGITS_MAX || !prefix.bytes().all(is_digit) {
        return None;
    }
    let mut within: Vec<_> = heads.iter().map(|head| (head.key(), head)).collect();
    within.retain(|(key, _)| key.starts_with(prefix));
    within.sort_by(|a, b| a.0.cmp(&b.0));
    let digests: Vec<_> = within.iter().map(|(key, head)| (key.as_str(), head.digest())).collect();
    let is_listed = within.len() <= LISTED_MAX || prefix.len() == PREFIX_DIGITS_MAX;
    let child = |digit: u32| {
        let prefix = format!("{prefix}{digit:x}");
        covering(digests.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, digest)| digest))
    };
    Some(Node {
        digest: covering(digests.iter().map(|(_, digest)| digest)),
        streams: within.len() as u64,
        children: if is_listed { Vec::new() } else { (0..16).map(child).collect() },
        heads: if is_listed { within.into_iter().map(|(_, head)| head.clone()).collect() } else { Vec::new() },
    })
}

fn covering<'d>(digests: impl Iterator<Item = &'d Digest>) -> Digest {
    let mut hasher = Hasher::new();
    for digest in digests {
        hasher.update(digest.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(len: u64, text: &str) -> Tip {
        Tip { len, chain: Digest::of(text.as_bytes()) }
    }

    fn heads(count: u64) -> Vec<Head> {
        let stream = |n: u64| format!("session/{n}").parse().unwrap();
        (0..count).map(|n| Head { stream: stream(n), tips: [tip(n + 1, "x")].into() }).collect()
    }

    #[test]
    fn an_end_that_a_branch_goes_on_from_is_none() {
        let (short, long, other) = (tip(2, "a"), tip(3, "b"), tip(3, "c"));
        assert_eq!(tips(Some(short), &[]), [short].into());
        assert_eq!(tips(Some(short), &[Fork { from: short, tip: long }]), [long].into());
        assert_eq!(tips(Some(other), &[Fork { from: short, tip: long }]), [long, other].into());
        assert_eq!(tips(None, &[]), BTreeSet::new());
    }

    #[test]
    fn the_root_does_not_depend_on_the_order_and_tells_everything_apart() {
        let mut some = heads(300);
        let root = node(&some, "").unwrap().digest;
        some.reverse();
        assert_eq!(node(&some, "").unwrap().digest, root);
        some[7].tips.insert(tip(9, "y"));
        assert_ne!(node(&some, "").unwrap().digest, root);
        assert_ne!(node(&heads(299), "").unwrap().digest, root);
    }

    #[test]
    fn one_stream_among_many_is_found_by_a_few_digests() {
        let (mine, mut theirs) = (heads(10_000), heads(10_000));
        theirs[1234].tips = [tip(9_999, "new")].into();
        let (mut prefix, mut nodes) = (String::new(), 0);
        loop {
            let (a, b) = (node(&mine, &prefix).unwrap(), node(&theirs, &prefix).unwrap());
            nodes += 1;
            assert_ne!(a.digest, b.digest);
            if a.children.is_empty() {
                assert!(b.heads.contains(&theirs[1234]));
                break;
            }
            let differing: Vec<_> = (0..16).filter(|digit| a.children[*digit] != b.children[*digit]).collect();
            assert_eq!(differing.len(), 1);
            prefix.push_str(&format!("{:x}", differing[0]));
        }
        assert!(nodes <= 4, "{nodes}");
    }

    #[test]
    fn a_prefix_is_digits() {
        assert!(node(&[], "0g").is_none() && node(&[], &"0".repeat(65)).is_none() && node(&[], "A").is_none());
        assert_eq!(node(&heads(3), "").unwrap().heads.len(), 3);
    }
}
