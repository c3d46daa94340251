//! Where two stores differ: digests of ever smaller parts are compared, so that what is equal is passed over.

use std::collections::{BTreeMap, BTreeSet};

use enjamb_core::sync::{Head, Node, Point, Tip, node};
use enjamb_core::{Digest, StreamId};
use enjamb_service::Want;

use super::peer::Peer;
use crate::client::ClientError;

type Result<T> = std::result::Result<T, ClientError>;

/// What covers all that two stores have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roots {
    pub from: Digest,
    pub to: Digest,
}

impl Roots {
    pub fn agree(&self) -> bool {
        self.from == self.to
    }
}

/// What one store has that another lacks.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub roots: Roots,
    /// Streams of which the other lacks frames; `None` when it has nothing at all.
    pub wants: Option<Vec<Want>>,
    /// Streams of which the other has frames that are not here.
    pub more_there: u64,
    /// The last record of the store that gives.
    pub position: u64,
}

impl Comparison {
    /// Whether the other store lacks nothing.
    pub fn is_settled(&self) -> bool {
        self.roots.agree() || self.wants.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The roots alone.
pub fn roots(from: &Peer<'_>, to: &Peer<'_>) -> Result<Roots> {
    Ok(Roots { from: from.node("")?.0.digest, to: to.node("")?.0.digest })
}

/// Finds out what `to` lacks of what `from` has.
pub fn compare(from: &Peer<'_>, to: &Peer<'_>) -> Result<Comparison> {
    let (ours, position) = from.node("")?;
    let (theirs, _) = to.node("")?;
    let roots = Roots { from: ours.digest, to: theirs.digest };
    if roots.agree() {
        return Ok(Comparison { roots, wants: Some(Vec::new()), more_there: 0, position });
    }
    if theirs.streams == 0 {
        return Ok(Comparison { roots, wants: None, more_there: 0, position });
    }
    let mut differing = BTreeMap::new();
    descend(from, to, String::new(), ours, theirs, &mut differing)?;
    let (wants, more_there) = wanted(from, to, &differing)?;
    Ok(Comparison { roots, wants: Some(wants), more_there, position })
}

/// The tips of a stream in both stores.
#[derive(Default)]
struct Ends {
    from: BTreeSet<Tip>,
    to: BTreeSet<Tip>,
}

type Differing = BTreeMap<StreamId, Ends>;

fn descend(from: &Peer<'_>, to: &Peer<'_>, prefix: String, a: Node, b: Node, differing: &mut Differing) -> Result<()> {
    if a.digest == b.digest {
        return Ok(());
    }
    if a.children.is_empty() && b.children.is_empty() {
        note(a.heads, b.heads, differing);
        return Ok(());
    }
    for digit in 0..16 {
        let below = format!("{prefix}{digit:x}");
        let (a_below, b_below) = (Below::of(&a, digit, &below), Below::of(&b, digit, &below));
        if a_below.digest() != b_below.digest() {
            let (a_node, b_node) = (a_below.node(from, &below)?, b_below.node(to, &below)?);
            descend(from, to, below, a_node, b_node, differing)?;
        }
    }
    Ok(())
}

/// A part of a node: known when the node was listed, else only by its digest.
enum Below {
    Listed(Node),
    Digest(Digest),
}

impl Below {
    fn of(above: &Node, digit: usize, prefix: &str) -> Self {
        match above.children.get(digit) {
            Some(digest) => Self::Digest(*digest),
            None => Self::Listed(node(&above.heads, prefix).expect("digits are a prefix")),
        }
    }

    fn digest(&self) -> Digest {
        match self {
            Self::Listed(node) => node.digest,
            Self::Digest(digest) => *digest,
        }
    }

    fn node(self, peer: &Peer<'_>, prefix: &str) -> Result<Node> {
        match self {
            Self::Listed(node) => Ok(node),
            Self::Digest(_) => Ok(peer.node(prefix)?.0),
        }
    }
}

fn note(a: Vec<Head>, b: Vec<Head>, differing: &mut Differing) {
    for head in a {
        differing.entry(head.stream).or_default().from = head.tips;
    }
    for head in b {
        differing.entry(head.stream).or_default().to = head.tips;
    }
    differing.retain(|_, ends| ends.from != ends.to);
}

/// Of each stream that differs, what the other store has already.
fn wanted(from: &Peer<'_>, to: &Peer<'_>, differing: &Differing) -> Result<(Vec<Want>, u64)> {
    let point = |stream: &StreamId, tip: &Tip| Point { stream: stream.clone(), seq: tip.len - 1, chain: tip.chain };
    let only = |mine: fn(&Ends) -> &BTreeSet<Tip>, other: fn(&Ends) -> &BTreeSet<Tip>| -> Vec<Point> {
        let points = differing.iter().flat_map(|(stream, ends)| {
            mine(ends).difference(other(ends)).filter(|tip| tip.len > 0).map(move |tip| point(stream, tip))
        });
        points.collect()
    };
    let ours = only(|ends| &ends.from, |ends| &ends.to);
    let theirs = only(|ends| &ends.to, |ends| &ends.from);
    let (ours_known, ours_lacking) = split(ours.clone(), to.known(&ours)?);
    let (theirs_known, theirs_more) = split(theirs.clone(), from.known(&theirs)?);
    let more: BTreeSet<_> = theirs_more.iter().map(|point| &point.stream).collect();
    // Where both wrote on, somewhere behind the ends is what both have.
    let parted: Vec<_> = ours_lacking.iter().filter(|point| more.contains(&point.stream)).cloned().collect();
    let behind = from.points(&parted)?;
    let (behind_known, _) = split(behind.clone(), to.known(&behind)?);
    let mut have: BTreeMap<StreamId, BTreeSet<Point>> = BTreeMap::new();
    for lacking in &ours_lacking {
        let both = differing.get(&lacking.stream).into_iter().flat_map(|ends| ends.from.intersection(&ends.to));
        let both = both.filter(|tip| tip.len > 0).map(|tip| point(&lacking.stream, tip));
        have.entry(lacking.stream.clone()).or_default().extend(both);
    }
    for known in [ours_known, theirs_known, behind_known].concat() {
        if let Some(points) = have.get_mut(&known.stream) {
            points.insert(known);
        }
    }
    let want = |(stream, have): (StreamId, BTreeSet<Point>)| Want { stream, have: have.into_iter().collect() };
    Ok((have.into_iter().map(want).collect(), more.len() as u64))
}

/// Points that are known, and those that are not.
fn split(points: Vec<Point>, known: Vec<bool>) -> (Vec<Point>, Vec<Point>) {
    let (yes, no): (Vec<_>, Vec<_>) = points.into_iter().zip(known).partition(|(_, known)| *known);
    let bare = |pairs: Vec<(Point, bool)>| pairs.into_iter().map(|(point, _)| point).collect();
    (bare(yes), bare(no))
}
