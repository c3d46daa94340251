//! The one line that names a crash image.

use std::fmt;
use std::str::FromStr;

/// How the device breaks the writes that were under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Writes survive or vanish one by one in any order; one of them is torn at 512-byte sectors, whose contents may
    /// be new, old, zero or garbage.
    Torn512,
    /// 4 KiB blocks are atomic and pass through a page cache: a block that has a later write has the earlier ones too.
    Atomic4k,
    /// Each file receives its writes in order, and never grows ahead of its data; the last write may be cut short.
    OrderedAppend,
}

/// What of the changes that were not yet durable is found after the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Only the process died: the page cache, and so every change, is there.
    Kill,
    Nothing,
    /// The files have grown, but the new bytes are zero.
    Zeros,
    Everything,
    /// The first so many, in the order in which they happened across all files.
    Prefix(usize),
    /// As `Prefix`, but the last of them is a write that is torn.
    Torn(usize),
    /// A subset by the rules of the profile, with growth and tearing by chance.
    Random,
}

/// Names one image of one list of ops: `op=123 profile=Torn512 keep=random seed=7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplayKey {
    /// The last op that happened before the crash.
    pub op: u64,
    pub profile: Profile,
    pub keep: Keep,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a replay key looks like `op=123 profile=Torn512 keep=random seed=7`, not like `{0}`")]
pub struct ParseKeyError(String);

impl fmt::Display for ReplayKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "op={} profile={:?} keep={} seed={}", self.op, self.profile, self.keep, self.seed)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => out.write_str("kill"),
            Self::Nothing => out.write_str("nothing"),
            Self::Zeros => out.write_str("zeros"),
            Self::Everything => out.write_str("everything"),
            Self::Prefix(count) => write!(out, "prefix:{count}"),
            Self::Torn(count) => write!(out, "torn:{count}"),
            Self::Random => out.write_str("random"),
        }
    }
}

impl FromStr for ReplayKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        parse(text).ok_or_else(|| ParseKeyError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ReplayKey> {
    let mut words = text.split_whitespace();
    let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let key = ReplayKey {
        op: value("op")?.parse().ok()?,
        profile: parse_profile(value("profile")?)?,
        keep: parse_keep(value("keep")?)?,
        seed: value("seed")?.parse().ok()?,
    };
    words.next().is_none().then_some(key)
}

fn parse_profile(text: &str) -> Option<Profile> {
    match text {
        "Torn512" => Some(Profile::Torn512),
        "Atomic4k" => Some(Profile::Atomic4k),
        "OrderedAppend" => Some(Profile::OrderedAppend),
        _ => None,
    }
}

fn parse_keep(text: &str) -> Option<Keep> {
    let (name, count) = text.split_once(':').map_or((text, None), |(name, count)| (name, count.parse().ok()));
    match (name, count) {
        ("kill", None) => Some(Keep::Kill),
        ("nothing", None) => Some(Keep::Nothing),
        ("zeros", None) => Some(Keep::Zeros),
        ("everything", None) => Some(Keep::Everything),
        ("prefix", Some(count)) => Some(Keep::Prefix(count)),
        ("torn", Some(count)) => Some(Keep::Torn(count)),
        ("random", None) => Some(Keep::Random),
        _ => None,
    }
}
