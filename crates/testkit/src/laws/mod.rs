//! Laws that every ledger obeys, whatever it keeps its bytes in.
//!
//! Each law is a short story told to an empty ledger. What an engine promises beyond these (durability, repair, several
//! processes) is tested with the engine.

mod artifacts;
mod batches;
mod branches;
mod commits;
mod frames;
mod keys;
mod listings;
mod order;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};

use enjamb_ledger::Ledger;

/// A law, and how to tell whether an empty ledger obeys it.
#[derive(Clone, Copy)]
pub struct Law {
    pub name: &'static str,
    check: fn(&dyn Ledger),
}

impl Law {
    /// Panics if the law is broken.
    pub fn check(&self, ledger: &dyn Ledger) {
        (self.check)(ledger);
    }
}

macro_rules! laws {
    ($($module:ident: $($law:ident)*;)*) => {
        &[$($(Law { name: stringify!($law), check: $module::$law }),*),*]
    };
}

pub const ALL: &[Law] = laws! {
    frames:
        seq_starts_at_0_and_has_no_gaps
        frames_come_back_byte_for_byte
        what_a_draft_leaves_out_is_filled_in
        frames_past_the_end_are_none
        pages_of_frames_add_up
        equal_histories_have_equal_chains
        a_chain_covers_every_byte
        the_log_is_walked_in_order
        position_grows_with_every_append;
    batches:
        a_batch_is_all_or_nothing
        a_batch_may_span_streams
        batches_that_come_together_are_answered_each_for_itself
        an_expected_seq_that_is_not_next_is_a_conflict
        a_drafts_own_seq_that_is_not_next_is_a_conflict
        a_batch_has_at_most_so_many_frames
        an_empty_batch_changes_nothing
        a_frame_belongs_to_its_stream;
    keys:
        a_retry_answers_the_same_and_writes_nothing
        a_retry_over_several_streams_answers_all_of_it
        a_retry_may_have_another_id_and_time
        a_key_belongs_to_one_request
        a_key_belongs_to_one_stream
        a_refused_request_leaves_its_key_free
        a_key_is_short_and_visible;
    artifacts:
        bytes_come_back
        equal_bytes_are_one_artifact
        ranges_are_cut_exactly
        a_range_past_the_end_is_refused
        what_is_not_there_is_not_found
        an_artifact_said_to_be_there_has_to_be
        an_inline_artifact_has_a_largest_size
        writing_about_bytes_does_not_touch_them
        what_was_condemned_and_dropped_is_gone
        what_was_dropped_can_be_stored_again
        a_mention_spares_the_condemned
        what_was_not_condemned_is_not_dropped
        a_closed_output_ends_the_reading;
    listings:
        artifacts_are_listed_by_id_within_bounds
        streams_are_listed_by_recency
        streams_are_listed_by_name
        streams_are_listed_by_kind
        a_limit_of_none_lists_none
        totals_count_everything
        summaries_say_where_a_stream_stands
        what_is_unknown_is_nothing;
    order:
        nothing_follows_the_end_of_a_session
        a_job_ends_once
        a_compaction_cuts_at_a_message
        frames_of_one_batch_count_for_the_next
        a_malformed_payload_is_refused
        tags_move_from_where_they_are
        tags_are_listed
        marks_are_kept_per_stream
        messages_are_found_by_seq_and_by_number
        messages_are_found_by_their_words
        a_word_is_found_however_often_it_comes;
    commits:
        a_chain_is_walked_from_its_tip_to_the_stop
        any_commit_of_any_tree_leads_to_its_root
        children_are_listed_in_the_order_in_which_they_came
        of_commits_at_one_instant_the_one_stored_last_is_found
        a_timeline_is_newest_first_and_goes_on_where_it_ended
        commits_without_a_summary_are_listed_until_they_have_one
        refs_move_from_where_they_are
        the_same_commit_twice_is_one_and_another_under_its_id_is_refused
        a_compaction_and_what_it_replaces_come_together_or_not_at_all
        a_commit_follows_one_that_is_there
        what_is_present_is_told_of_many_at_once;
    branches:
        commits_of_a_branch_are_found_where_they_came_from
        a_commit_that_is_here_stays_what_it_is
        what_a_branch_says_moves_nothing_here
        a_branch_holds_what_follows_and_nothing_else
        a_key_of_elsewhere_is_kept_with_its_frame;
    threads:
        threads_share_a_stream_without_gaps
        threads_on_their_own_streams_lose_nothing
        threads_that_hand_in_several_at_a_time_lose_nothing
        one_of_many_rivals_wins
        readers_see_whole_batches;
};

/// Calls `check` with every law, and fails with the names of those that are broken.
pub fn each(check: impl Fn(&Law)) {
    let is_broken = |law: &&Law| catch_unwind(AssertUnwindSafe(|| check(law))).is_err();
    let broken: Vec<_> = ALL.iter().filter(is_broken).map(|law| law.name).collect();
    assert!(broken.is_empty(), "broken laws: {}", broken.join(", "));
}

/// Holds every law against a ledger made for it.
pub fn obey<L: Ledger>(make: impl Fn() -> L) {
    each(|law| law.check(&make()));
}
