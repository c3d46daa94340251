//! Lifecycle policies: how long an artifact is kept.

use enjamb_core::frame::{ArtifactPolicySet, Body, Policy as Word};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId, Timestamp};
use enjamb_ledger::{Ledger, LedgerError};

use crate::{Actor, Result, ServiceError, Store};

/// How long an artifact is kept, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Kept; once replicated elsewhere, the local copy may be evicted.
    Default,
    /// Kept here, whatever happens.
    Pin,
    /// May be collected once its time is over and nothing refers to it.
    Ephemeral { ttl_ms: u64, set_at_ms: u64 },
    /// Kept here and pushed upstream.
    Replicate,
}

impl Policy {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Pin => "pin",
            Self::Ephemeral { .. } => "ephemeral",
            Self::Replicate => "replicate",
        }
    }

    /// When an ephemeral artifact may go.
    pub fn expires_ms(&self) -> Option<u64> {
        match self {
            Self::Ephemeral { ttl_ms, set_at_ms } => Some(set_at_ms.saturating_add(*ttl_ms)),
            Self::Default | Self::Pin | Self::Replicate => None,
        }
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_ms().is_some_and(|at| at <= now.as_millis())
    }

    fn parse(mark: &str) -> Option<Self> {
        match mark {
            "default" => Some(Self::Default),
            "pin" => Some(Self::Pin),
            "replicate" => Some(Self::Replicate),
            _ => {
                let (ttl, set_at) = mark.strip_prefix("ephemeral:")?.split_once(':')?;
                Some(Self::Ephemeral { ttl_ms: ttl.parse().ok()?, set_at_ms: set_at.parse().ok()? })
            }
        }
    }
}

impl Store {
    pub fn policy(&self, id: &ArtifactId) -> Result<Policy> {
        match self.ledger.mark(&Scope::Store, &MarkKey::Policy(*id))? {
            None => Ok(Policy::Default),
            Some(mark) => parsed(&id.to_hex(), &mark),
        }
    }

    /// Every artifact that was given a policy.
    pub(crate) fn policies(&self) -> Result<Vec<(ArtifactId, Policy)>> {
        let marks = self.ledger.marks(&Scope::Store, &MarkKey::Policy(ArtifactId::of(b"")))?;
        marks
            .into_iter()
            .map(|(hex, mark)| {
                let id =
                    hex.parse().map_err(|_| LedgerError::corrupt(format!("policy {hex}"), "it names no artifact"))?;
                Ok((id, parsed(&hex, &mark)?))
            })
            .collect()
    }

    /// Gives an artifact a policy; an ephemeral one counts its time from now.
    pub fn set_policy(&self, id: &ArtifactId, word: &str, ttl_ms: Option<u64>, by: &Actor) -> Result<()> {
        self.artifact(id)?;
        self.write_policy(id, word, ttl_ms, by)
    }

    pub(crate) fn write_policy(&self, id: &ArtifactId, word: &str, ttl_ms: Option<u64>, by: &Actor) -> Result<()> {
        // Bureau's documents say `pinned` where its code says `pin`.
        let word = if word == "pinned" { "pin" } else { word };
        let body: Body = ArtifactPolicySet {
            artifact_id: id.to_hex(),
            policy: Word::from(word),
            ttl_ms,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        }
        .into();
        self.append_bodies(&StreamId::artifacts(), &[body], Vec::new()).map(drop)
    }
}

fn parsed(hex: &str, mark: &str) -> Result<Policy> {
    Policy::parse(mark)
        .ok_or_else(|| LedgerError::corrupt(format!("policy of art-{hex}"), format!("it is {mark:?}")).into())
}

/// Reads a duration such as `90s`, `15m`, `12h`, `30d`.
pub fn parse_ttl(text: &str) -> Result<u64> {
    let invalid = || ServiceError::Invalid {
        what: "duration",
        text: text.to_owned(),
        expected: "a number and a unit, such as 90s, 15m, 12h or 30d",
    };
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
    let (number, unit) = text.split_at(split);
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(invalid()),
    };
    let number: u64 = number.parse().map_err(|_| invalid())?;
    number.checked_mul(unit_ms).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(parse_ttl("90s").unwrap(), 90_000);
        assert_eq!(parse_ttl("30d").unwrap(), 30 * 86_400_000);
        for text in ["", "d", "5", "5w", "-1d", "99999999999999999999d"] {
            assert!(parse_ttl(text).unwrap_err().to_string().contains("such as 90s"), "{text}");
        }
    }

    #[test]
    fn an_ephemeral_artifact_is_over_when_its_time_is() {
        let policy = Policy::parse("ephemeral:1000:5000").unwrap();
        assert!(!policy.is_over(Timestamp::from_millis(5_999)));
        assert!(policy.is_over(Timestamp::from_millis(6_000)));
        assert!(!Policy::Pin.is_over(Timestamp::from_millis(i64::MAX / 1000)));
    }
}
