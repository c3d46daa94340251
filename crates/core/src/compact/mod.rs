//! Compaction: where a thread is cut, what a summary by rule says, and what a summary has lost.

mod facts;
mod summarize;

pub use facts::{Category, CategoryScore, FactSet, Lost, Score, score};
pub(crate) use summarize::topic_words as words;
pub use summarize::{Delta, Heading, SUMMARY_CHARS_MAX, chain_markdown, is_placeholder, summary_markdown};

/// Messages between two cuts, where nobody says another number.
pub const STRIDE_DEFAULT: u64 = 10_000;
/// Cuts that one answer lists, and one job makes.
pub const CUTS_MAX: u64 = 32;
/// The rule of a cut that a person chose.
pub const MANUAL_RULE: &str = "manual_v1";
/// Jobs that write summaries by rule.
pub const SUMMARIZER_JOB: &str = "compaction_summarizer_v1";
pub const JOB_SCHEMA: &str = "rip.job.compaction_summarizer.v1";
pub const JOB_RESULT_SCHEMA: &str = "rip.job_result.compaction_summarizer.v1";

/// The rule by which every so many messages are cut.
pub fn stride_rule(stride: u64) -> String {
    format!("stride_messages_v1/{stride}")
}

/// The numbers of the messages at which a stride cuts, the last first; at most `limit`, and that between 1 and 32.
/// `None` for a stride of 0.
pub fn cut_ordinals(messages: u64, stride: u64, limit: u64) -> Option<Vec<u64>> {
    let cuts = messages.checked_div(stride)?;
    let limit = limit.clamp(1, CUTS_MAX);
    Some((0..limit.min(cuts)).map(|back| (cuts - back) * stride).collect())
}

/// The policy of scheduled compaction, with everything it was resolved to.
pub fn schedule_policy(stride: u64, new_max: u32, block_on_inflight: bool) -> String {
    format!(
        "compaction_auto_schedule_v1/{}/max_new_checkpoints_v1/{new_max}/block_on_inflight_v1/{block_on_inflight}",
        stride_rule(stride)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_multiples_of_the_stride_the_last_first() {
        assert_eq!(cut_ordinals(25, 10, 5), Some(vec![20, 10]));
        assert_eq!(cut_ordinals(25, 10, 0), Some(vec![20]), "at least one is listed");
        assert_eq!(cut_ordinals(9, 10, 5), Some(vec![]));
        assert_eq!(cut_ordinals(9, 0, 5), None);
        assert_eq!(cut_ordinals(1_000, 1, 99).map(|cuts| (cuts.len(), cuts[0], cuts[31])), Some((32, 1_000, 969)));
        assert_eq!(cut_ordinals(u64::MAX, u64::MAX, 9), Some(vec![u64::MAX]));
    }

    #[test]
    fn a_policy_names_all_that_it_was_resolved_to() {
        let expected =
            "compaction_auto_schedule_v1/stride_messages_v1/2/max_new_checkpoints_v1/1/block_on_inflight_v1/true";
        assert_eq!(schedule_policy(2, 1, true), expected);
    }
}
