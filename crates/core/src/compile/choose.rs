//! Which strategy compiles a context, and which compaction checkpoints it rests on.

use serde_json::{Value, json};

use super::{CUMULATIVE, RECENT_MESSAGES_LIMIT, SUMMARY_REFS_MAX};
use crate::Json;
use crate::frame::{CheckpointRef, Reset};

/// How a thread's context is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The last messages.
    Recent,
    /// A summary, and the last messages after it.
    Summaries,
    /// Several summaries, each reaching at least twice as far as the one before, and the last messages after them.
    Hierarchical,
    /// The last messages, going back over branches and handoffs.
    Lineage,
    /// As much as fits a stated number of tokens.
    TokenBudget,
    /// The last messages, and what was said earlier that is like the message answered.
    Retrieval,
    /// The last messages, each in the role of who said it.
    ActorRoles,
}

impl Strategy {
    pub const ALL: [Self; 7] = [
        Self::Recent,
        Self::Summaries,
        Self::Hierarchical,
        Self::Lineage,
        Self::TokenBudget,
        Self::Retrieval,
        Self::ActorRoles,
    ];

    pub const fn id(self) -> &'static str {
        match self {
            Self::Recent => "recent_messages_v1",
            Self::Summaries => "summaries_recent_messages_v1",
            Self::Hierarchical => "hierarchical_summaries_recent_messages_v1",
            Self::Lineage => "lineage_recent_messages_v1",
            Self::TokenBudget => "token_budget_v1",
            Self::Retrieval => "retrieval_recent_messages_v1",
            Self::ActorRoles => "actor_roles_recent_messages_v1",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.id() == id)
    }

    /// How many summaries it refers to at most.
    pub const fn summaries_max(self) -> usize {
        match self {
            Self::Recent => 0,
            Self::Summaries | Self::TokenBudget => 1,
            Self::Hierarchical | Self::Lineage | Self::Retrieval | Self::ActorRoles => SUMMARY_REFS_MAX,
        }
    }
}

/// A compaction checkpoint as a choice sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub checkpoint_id: String,
    pub summary_kind: String,
    pub summary_artifact_id: String,
    pub to_seq: u64,
}

/// What was chosen, and why, as a decision frame records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub strategy: Strategy,
    /// From the shortest reach to the longest.
    pub checkpoints: Vec<Checkpoint>,
    pub resets: Vec<Reset>,
    pub reason: Value,
}

/// What a choice asks for: the checkpoint that reaches furthest without passing a seq.
pub trait Choosing {
    type Error;

    /// The furthest cumulative checkpoint with `to_seq <= upto` whose summary can be read. Those that cannot be read are
    /// kept for [`Choosing::unavailable`].
    fn cumulative(&mut self, upto: u64) -> Result<Option<Checkpoint>, Self::Error>;
    /// The furthest checkpoint with `to_seq <= upto`, of whatever kind.
    fn any(&mut self, upto: u64) -> Result<Option<Checkpoint>, Self::Error>;
    /// Checkpoints that were passed over because their summary could not be read.
    fn unavailable(&mut self) -> Vec<Checkpoint>;
}

/// Chooses checkpoints for a context that ends at `from_seq`. Without a wish, the strategy follows from how many there are.
pub fn choose<C: Choosing>(from: &mut C, from_seq: u64, wished: Option<Strategy>) -> Result<Choice, C::Error> {
    let most = wished.map_or(SUMMARY_REFS_MAX, Strategy::summaries_max);
    let checkpoints = pick(from, from_seq, most)?;
    let unavailable = from.unavailable();
    let other = if checkpoints.is_empty() && most > 0 { from.any(from_seq)? } else { None };
    let strategy = settled(wished, checkpoints.len());
    let mut resets: Vec<Reset> = unavailable.iter().map(unavailable_reset).collect();
    let cause = match (&other, checkpoints.len()) {
        _ if most == 0 => "requested",
        (None, 0) => "no_compaction_checkpoint",
        (Some(other), 0) if other.summary_kind != CUMULATIVE => {
            resets.push(unsupported_reset(other));
            "unsupported_compaction_summary_kind"
        }
        (Some(_), 0) => "no_supported_compaction_checkpoint",
        (_, 1) => "compaction_checkpoint",
        _ => "compaction_checkpoint_hierarchy",
    };
    let mut reason = json!({"cause": cause, "selected": strategy.id()});
    if checkpoints.len() > 1 {
        reason["levels"] = checkpoints.len().into();
        reason["to_seqs"] = checkpoints.iter().map(|checkpoint| checkpoint.to_seq).collect();
    }
    Ok(Choice { strategy, checkpoints, resets, reason })
}

/// Of the three strategies that differ only in how many summaries they have, the one that fits.
fn settled(wished: Option<Strategy>, picks: usize) -> Strategy {
    match (wished, picks) {
        (Some(Strategy::Lineage | Strategy::TokenBudget | Strategy::Retrieval | Strategy::ActorRoles), _) => {
            wished.unwrap_or(Strategy::Recent)
        }
        (_, 0) => Strategy::Recent,
        (_, 1) => Strategy::Summaries,
        _ => Strategy::Hierarchical,
    }
}

/// The furthest checkpoint, then each that reaches at most half as far as the one before.
fn pick<C: Choosing>(from: &mut C, from_seq: u64, most: usize) -> Result<Vec<Checkpoint>, C::Error> {
    let mut picked: Vec<Checkpoint> = Vec::new();
    let mut upto = from_seq;
    while picked.len() < most {
        let Some(checkpoint) = from.cumulative(upto)? else { break };
        upto = checkpoint.to_seq / 2;
        picked.push(checkpoint);
        if upto == 0 {
            break;
        }
    }
    picked.reverse();
    Ok(picked)
}

fn unsupported_reset(checkpoint: &Checkpoint) -> Reset {
    reset("ignored", "unsupported_summary_kind", json!({"summary_kind": checkpoint.summary_kind}))
}

fn unavailable_reset(checkpoint: &Checkpoint) -> Reset {
    let reference = json!({"checkpoint_id": checkpoint.checkpoint_id, "artifact_id": checkpoint.summary_artifact_id});
    reset("skipped", "summary_artifact_unavailable", reference)
}

fn reset(action: &str, reason: &str, reference: Value) -> Reset {
    Reset {
        input: "compaction_checkpoint".into(),
        action: action.into(),
        reason: reason.into(),
        reference: Some(Json::from(reference)),
        extra: Vec::new(),
    }
}

impl Choice {
    /// The bounds that the seed's strategies are held to; others add their own.
    pub fn limits() -> Value {
        json!({
            "hierarchical_summaries_v1_max_refs": SUMMARY_REFS_MAX,
            "recent_messages_v1_limit": RECENT_MESSAGES_LIMIT,
        })
    }

    /// Where the messages begin: after everything that the longest summary covers.
    pub fn after_seq(&self) -> Option<u64> {
        self.checkpoints.last().map(|checkpoint| checkpoint.to_seq)
    }
}

impl From<&Checkpoint> for CheckpointRef {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            checkpoint_id: checkpoint.checkpoint_id.clone(),
            summary_kind: checkpoint.summary_kind.clone(),
            summary_artifact_id: checkpoint.summary_artifact_id.clone(),
            to_seq: checkpoint.to_seq,
            extra: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints as (to_seq, kind, readable), in the order of their frames.
    struct Told<'a>(&'a [(u64, &'a str, bool)], Vec<Checkpoint>);

    impl Told<'_> {
        fn back(&self, upto: u64) -> Vec<(Checkpoint, bool)> {
            let all = self.0.iter().enumerate().filter(|(_, (to_seq, ..))| *to_seq <= upto);
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|(at, (to_seq, ..))| std::cmp::Reverse((*to_seq, *at)));
            let checkpoint = |at: usize, to_seq: u64, kind: &str| Checkpoint {
                checkpoint_id: format!("k{at}"),
                summary_kind: kind.into(),
                summary_artifact_id: "f".into(),
                to_seq,
            };
            all.into_iter().map(|(at, (to_seq, kind, ok))| (checkpoint(at, *to_seq, kind), *ok)).collect()
        }
    }

    impl Choosing for Told<'_> {
        type Error = ();

        fn cumulative(&mut self, upto: u64) -> Result<Option<Checkpoint>, ()> {
            for (checkpoint, readable) in self.back(upto) {
                match (checkpoint.summary_kind == CUMULATIVE, readable) {
                    (true, true) => return Ok(Some(checkpoint)),
                    (true, false) => self.1.push(checkpoint),
                    (false, _) => {}
                }
            }
            Ok(None)
        }

        fn any(&mut self, upto: u64) -> Result<Option<Checkpoint>, ()> {
            Ok(self.back(upto).into_iter().next().map(|(checkpoint, _)| checkpoint))
        }

        fn unavailable(&mut self) -> Vec<Checkpoint> {
            std::mem::take(&mut self.1)
        }
    }

    fn chosen(told: &[(u64, &str, bool)], from_seq: u64) -> Choice {
        choose(&mut Told(told, Vec::new()), from_seq, None).unwrap()
    }

    fn check(to_seqs: &[u64], expected: &[u64], strategy: Strategy) {
        let told: Vec<_> = to_seqs.iter().map(|to_seq| (*to_seq, CUMULATIVE, true)).collect();
        let choice = chosen(&told, 1_000);
        let found: Vec<_> = choice.checkpoints.iter().map(|checkpoint| checkpoint.to_seq).collect();
        assert_eq!((found.as_slice(), choice.strategy), (expected, strategy), "{to_seqs:?}");
    }

    #[test]
    fn each_summary_reaches_at_least_twice_as_far_as_the_one_before() {
        check(&[8, 16, 32], &[8, 16, 32], Strategy::Hierarchical);
        check(&[10, 11, 40], &[11, 40], Strategy::Hierarchical);
        check(&[1, 2], &[1, 2], Strategy::Hierarchical);
        check(&[5], &[5], Strategy::Summaries);
        check(&[100, 200, 300, 400], &[100, 200, 400], Strategy::Hierarchical);
        check(&[], &[], Strategy::Recent);
        check(&[1], &[1], Strategy::Summaries);
        check(&[0], &[0], Strategy::Summaries);
    }

    #[test]
    fn of_several_at_one_cut_the_last_frame_counts() {
        let choice = chosen(&[(5, CUMULATIVE, true), (5, CUMULATIVE, true), (9, CUMULATIVE, true)], 8);
        assert_eq!(choice.checkpoints[0].checkpoint_id, "k1");
        assert_eq!(
            choice.reason,
            json!({"cause": "compaction_checkpoint", "selected": "summaries_recent_messages_v1"})
        );
    }

    #[test]
    fn reasons_name_what_decided() {
        let reason = |told: &[(u64, &str, bool)]| chosen(told, 50);
        assert_eq!(reason(&[]).reason, json!({"cause": "no_compaction_checkpoint", "selected": "recent_messages_v1"}));
        let other = reason(&[(5, "segment_v1", true)]);
        assert_eq!(other.reason["cause"], "unsupported_compaction_summary_kind");
        assert_eq!(other.resets[0].reference.as_ref().unwrap().get(), r#"{"summary_kind":"segment_v1"}"#);
        let levels = reason(&[(5, CUMULATIVE, true), (20, CUMULATIVE, true), (30, "segment_v1", true)]);
        let expected = json!({
            "cause": "compaction_checkpoint_hierarchy", "levels": 2,
            "selected": "hierarchical_summaries_recent_messages_v1", "to_seqs": [5, 20],
        });
        assert_eq!((levels.reason, levels.resets), (expected, Vec::new()));
    }

    #[test]
    fn a_summary_that_cannot_be_read_is_passed_over_and_said_so() {
        let choice = chosen(&[(5, CUMULATIVE, true), (20, CUMULATIVE, false)], 50);
        assert_eq!((choice.strategy, choice.after_seq()), (Strategy::Summaries, Some(5)));
        let [reset] = choice.resets.as_slice() else { panic!("{:?}", choice.resets) };
        assert_eq!((reset.action.as_str(), reset.reason.as_str()), ("skipped", "summary_artifact_unavailable"));
        let none = chosen(&[(20, CUMULATIVE, false)], 50);
        assert_eq!(none.reason["cause"], "no_supported_compaction_checkpoint");
        assert_eq!((none.strategy, none.resets.len()), (Strategy::Recent, 1));
    }

    #[test]
    fn limits_have_both_keys() {
        let expected = r#"{"hierarchical_summaries_v1_max_refs":3,"recent_messages_v1_limit":16}"#;
        assert_eq!(Choice::limits().to_string(), expected);
    }

    #[test]
    fn ids_are_read_as_written() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_id(strategy.id()), Some(strategy));
        }
    }
}
