//! Compaction of threads and chains: cuts, jobs as frames, and what may not happen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_core::StreamId;
use enjamb_core::Timestamp;
use enjamb_core::chain::CommitKind;
use enjamb_core::compact::STRIDE_DEFAULT;
use enjamb_core::frame::{Body, ContinuityBody};
use enjamb_core::thread::Selector;
use enjamb_testkit::home::Home;
use serde_json::Value;

use super::*;
use crate::{Checkpoint, Content, Env, Note, Post, ServiceError};

struct Lab {
    store: Store,
    thread: StreamId,
    _home: Home,
}

fn by() -> Actor {
    Actor { actor_id: "alice".into(), origin: "cli".into() }
}

/// A store with a thread of so many messages; ids count up.
fn lab(messages: u64) -> Lab {
    let home = Home::new();
    let ids = Arc::new(AtomicU64::new(0));
    let next = move || format!("id{}", ids.fetch_add(1, Ordering::SeqCst));
    let store = Store::create(&home.store(), Env::with(|| Timestamp::from_millis(5), next)).unwrap();
    let thread = store.create_thread("/w", None).unwrap();
    let lab = Lab { store, thread, _home: home };
    (1..=messages).for_each(|at| lab.post(&long(at)));
    lab
}

/// A message that takes more than a summary of it.
fn long(at: u64) -> String {
    format!("message {at}\n{}", "and so on, in the same few words as before ".repeat(40))
}

fn auto(stride: u64, new_max: u32) -> AutoCompact {
    AutoCompact { stride, new_max, dry_run: false, summarizer: ThreadSummarizer::Rule, growth: Growth::Refused }
}

impl Lab {
    fn post(&self, text: &str) {
        self.store.post(&self.thread, Post { content: text.into(), ..Post::default() }, &by()).unwrap();
    }

    /// The types of frames from a seq on, without the family's name.
    fn types(&self, from: u64) -> Vec<String> {
        let frames = self.store.frames(&self.thread, from, 100).unwrap();
        let of = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap()["type"].as_str().unwrap().to_owned();
        frames.iter().map(|frame| of(&frame.json).replace("continuity_", "")).collect()
    }

    fn head(&self) -> u64 {
        self.store.thread_head(&self.thread).unwrap()
    }

    fn auto(&self, request: &AutoCompact) -> AutoCompacted {
        self.store.compact_auto(&self.thread, request, &by()).unwrap()
    }

    fn schedule(&self, block: bool, execute: bool) -> Scheduled {
        let policy = SchedulePolicy { block_on_inflight: block, execute };
        self.store.compact_schedule(&self.thread, &auto(2, 1), policy, &by()).unwrap()
    }

    fn refused<T>(&self, act: impl FnOnce(&Store, &StreamId) -> crate::Result<T>, code: &str) {
        let before = self.head();
        let error = act(&self.store, &self.thread).err().expect("it is refused");
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(self.head(), before, "nothing was written");
    }
}

#[test]
fn cuts_are_listed_the_last_first_and_say_if_they_were_made() {
    let lab = lab(7);
    let points = lab.store.cut_points(&lab.thread, 2, 9).unwrap();
    let seqs: Vec<_> = points.cuts.iter().map(|cut| (cut.ordinal, cut.to_seq)).collect();
    assert_eq!(
        (seqs, points.messages, points.rule.as_str()),
        (vec![(6, 6), (4, 4), (2, 2)], 7, "stride_messages_v1/2")
    );
    assert_eq!(lab.store.cut_points(&lab.thread, 2, 0).unwrap().cuts.len(), 1);
    assert_eq!(lab.store.cut_points(&lab.thread, STRIDE_DEFAULT, 1).unwrap().cuts, []);
    let made = lab.auto(&auto(3, 1)).created.remove(0);
    let again = lab.store.cut_points(&lab.thread, 2, 9).unwrap();
    assert_eq!(again.cuts[0].checkpoint_id, Some(made.checkpoint_id), "a cut of whatever rule counts");
    lab.refused(|store, thread| store.cut_points(thread, 0, 1), "invalid-stride");
}

#[test]
fn a_job_is_spawned_makes_its_cuts_and_ends() {
    let lab = lab(5);
    let from = lab.head() + 1;
    let done = lab.auto(&auto(2, 2));
    assert_eq!((done.status, done.created.len()), ("completed", 2));
    let made = "compaction_checkpoint_created";
    assert_eq!(lab.types(from), ["job_spawned", made, made, "job_ended"]);
    assert_eq!(done.created.iter().map(|cut| cut.to_seq).collect::<Vec<_>>(), [2, 4], "the nearest first");
    let ContinuityBody::JobSpawned(spawned) = lab.store.said_at(&lab.thread, from).unwrap() else { panic!() };
    let first = &lab.store.frame_at(&lab.thread, 2).unwrap().id;
    let fourth = &lab.store.frame_at(&lab.thread, 4).unwrap().id;
    let expected = format!(
        r#"{{"cut_rule_id":"stride_messages_v1/2","planned":[{{"target_message_ordinal":4,"to_message_id":"{fourth}","to_seq":4}},{{"target_message_ordinal":2,"to_message_id":"{first}","to_seq":2}}],"schema":"rip.job.compaction_summarizer.v1","stride_messages":2}}"#
    );
    assert_eq!((spawned.job_kind.as_str(), spawned.details.unwrap().get()), ("compaction_summarizer_v1", &*expected));
    let second = lab.store.summary_artifact(&done.created[1].summary_artifact_id).unwrap();
    assert_eq!(second.basis.unwrap().base_summary_artifact_id, Some(done.created[0].summary_artifact_id.clone()));
    assert!(second.summary_markdown.contains("- delta_message_count: 2\n"), "{}", second.summary_markdown);
    assert_eq!(second.provenance.produced_by.unwrap().kind, "job");
    let frame = lab.store.frame_at(&lab.thread, from + 1).unwrap();
    assert_eq!(frame.id, done.created[0].checkpoint_id, "the frame's id is the checkpoint's");
    assert_eq!(lab.auto(&auto(2, 2)).status, "noop");
    let dry = lab.auto(&AutoCompact { dry_run: true, ..auto(1, 1) });
    assert_eq!((dry.status, dry.planned.len(), lab.head()), ("noop", 1, from + 3));
}

#[test]
fn a_job_that_fails_says_so_and_keeps_what_it_made() {
    let lab = lab(4);
    let command = "read line; case $(cat) in *'message 3'*) exit 3;; *) echo '# so far';; esac";
    let summarizer = ThreadSummarizer::Written(Writer::Command(command.into()));
    let done = lab.auto(&AutoCompact { summarizer, ..auto(2, 2) });
    assert_eq!((done.status, done.created.len()), ("failed", 1));
    assert!(done.error.as_ref().unwrap().contains("exit status: 3"), "{:?}", done.error);
    let job = lab.store.jobs(&lab.thread).unwrap().remove(0);
    assert_eq!((job.status.as_deref(), job.kind.as_str()), (Some("failed"), "compaction_command_summarizer_v1"));
    let summary = lab.store.summary_artifact(&done.created[0].summary_artifact_id).unwrap();
    assert_eq!(summary.summary_markdown, "# so far\n");
}

#[test]
fn a_program_whose_summary_does_not_shrink_fails_the_job() {
    let lab = lab(2);
    let summarizer = ThreadSummarizer::Written(Writer::Command("yes 'as long as it gets' | head -999".into()));
    let done = lab.auto(&AutoCompact { summarizer, ..auto(2, 1) });
    assert_eq!((done.status, done.created.len()), ("failed", 0));
    assert!(done.error.as_ref().unwrap().contains("what it stands for takes"), "{:?}", done.error);
    let silent = ThreadSummarizer::Written(Writer::Command("cat >/dev/null".into()));
    let done = lab.auto(&AutoCompact { summarizer: silent, ..auto(2, 1) });
    assert!(done.error.as_ref().unwrap().contains("it wrote nothing"), "{:?}", done.error);
}

#[test]
fn what_does_not_shrink_is_refused_however_it_is_made() {
    let lab = lab(0);
    (1..=4).for_each(|at| lab.post(&format!("message {at}")));
    let refused = lab.store.compact_auto(&lab.thread, &auto(2, 1), &by()).unwrap_err();
    assert!(refused.to_string().ends_with("and what it stands for takes 12"), "its heading is longer: {refused}");
    lab.refused(|store, thread| store.compact_auto(thread, &auto(2, 2), &by()), "does-not-shrink");
    for execute in [true, false] {
        let policy = SchedulePolicy { block_on_inflight: true, execute };
        lab.refused(|store, thread| store.compact_schedule(thread, &auto(2, 1), policy, &by()), "does-not-shrink");
    }
    let words = |text: &str| ManualCompact {
        markdown: Some(text.into()),
        artifact: None,
        at: Selector::Seq(2),
        stride: 2,
        growth: Growth::Refused,
    };
    let exact = words("one two three four five six");
    lab.refused(|store, thread| store.compact_by_hand(thread, &exact, &by()), "does-not-shrink");
    let stored = ManualCompact { growth: Growth::Allowed, ..exact };
    let made = lab.store.compact_by_hand(&lab.thread, &stored, &by()).unwrap();
    let artifact = Some(made.summary_artifact_id.parse().unwrap());
    let given = ManualCompact { artifact, ..words("") };
    lab.refused(|store, thread| store.compact_by_hand(thread, &given, &by()), "does-not-shrink");
    lab.store.compact_by_hand(&lab.thread, &words("one two three four five"), &by()).unwrap();
    let contract = lab.auto(&AutoCompact { growth: Growth::Allowed, ..auto(2, 1) });
    assert_eq!((contract.status, contract.created.len()), ("completed", 1));
}

#[test]
fn what_was_answered_counts_for_what_a_summary_stands_for() {
    let lab = lab(0);
    let post = Post { content: "why?".into(), run: Some(crate::RunId::Given("r".into())), idempotency_key: None };
    let posted = lab.store.post(&lab.thread, post, &by()).unwrap();
    let words = ManualCompact {
        markdown: Some("it was asked why, and answered at length".into()),
        artifact: None,
        at: Selector::Seq(1),
        stride: 1,
        growth: Growth::Refused,
    };
    lab.refused(|store, thread| store.compact_by_hand(thread, &words, &by()), "does-not-shrink");
    let session = StreamId::new(enjamb_core::StreamKind::Session, "r").unwrap();
    let said = enjamb_core::frame::OutputTextDelta { delta: "because ".repeat(20) };
    lab.store.append_bodies(&session, &[said.into()], Vec::new()).unwrap();
    let ended = enjamb_core::frame::RunEnded {
        run_session_id: "r".into(),
        message_id: posted.message,
        reason: "completed".into(),
        actor_id: None,
        origin: None,
    };
    lab.store.append_bodies(&lab.thread, &[ended.into()], Vec::new()).unwrap();
    lab.store.compact_by_hand(&lab.thread, &words, &by()).unwrap();
}

#[test]
fn a_schedule_decides_and_one_job_runs_at_a_time() {
    let lab = lab(3);
    let from = lab.head() + 1;
    let left = lab.schedule(true, false);
    assert_eq!(
        (left.decision, lab.types(from)),
        ("scheduled", vec!["job_spawned".into(), "compaction_auto_schedule_decided".into()])
    );
    let decided = lab.store.frame_at(&lab.thread, from + 1).unwrap();
    assert_eq!(Some(decided.id), left.decision_id);
    let Body::Continuity(ContinuityBody::CompactionScheduleDecided(decision)) = decided.body else { panic!() };
    assert_eq!((decision.decision.as_str(), decision.job_id.clone()), ("scheduled", left.done.job_id.clone()));
    let skipped = lab.schedule(true, true);
    assert_eq!((skipped.decision, &skipped.inflight_job_id), ("skipped_inflight", &left.done.job_id));
    let job = left.done.job_id.unwrap();
    let status = lab.store.compaction_status(&lab.thread, 2).unwrap();
    assert_eq!(
        (status.inflight_job_id.as_ref(), status.last_decision.unwrap().decision),
        (Some(&job), "skipped_inflight".into())
    );
    let ran = lab.store.run_job(&lab.thread, &job, ThreadSummarizer::Rule, &by()).unwrap();
    assert_eq!((ran.status, ran.created.len()), ("completed", 1));
    lab.refused(|store, thread| store.run_job(thread, &job, ThreadSummarizer::Rule, &by()), "job-ended");
    assert_eq!(lab.schedule(true, true).decision, "noop");
    lab.post(&long(4));
    assert_eq!(lab.schedule(false, true).decision, "completed");
    let status = lab.store.compaction_status(&lab.thread, 2).unwrap();
    assert_eq!((status.messages, status.next, status.inflight_job_id), (4, None, None));
    assert_eq!(status.last_job.unwrap().status.as_deref(), Some("completed"));
}

#[test]
fn a_job_that_is_left_can_be_called_off() {
    let lab = lab(2);
    let job = lab.schedule(true, false).done.job_id.unwrap();
    lab.store.cancel_job(&lab.thread, &job, &by()).unwrap();
    assert_eq!(lab.store.jobs(&lab.thread).unwrap()[0].status.as_deref(), Some("cancelled"));
    assert_eq!(lab.schedule(true, false).decision, "scheduled");
    lab.refused(|store, thread| store.cancel_job(thread, &job, &by()), "job-ended");
    lab.refused(|store, thread| store.cancel_job(thread, "nobody", &by()), "job-not-found");
}

#[test]
fn a_checkpoint_by_hand_is_at_a_message_and_of_its_thread() {
    let lab = lab(4);
    let growth = Growth::Refused;
    let words = |at: Selector| ManualCompact { markdown: Some("so far".into()), artifact: None, at, stride: 3, growth };
    let hand = |request: &ManualCompact| lab.store.compact_by_hand(&lab.thread, request, &by());
    let made = hand(&words(Selector::Seq(2))).unwrap();
    assert_eq!((made.to_seq, made.cut_rule_id.as_str()), (2, "manual_v1"));
    let strided = hand(&words(Selector::Head)).unwrap();
    assert_eq!((strided.to_seq, strided.cut_rule_id.as_str()), (3, "stride_messages_v1/3"));
    let summary = lab.store.summary_artifact(&strided.summary_artifact_id).unwrap();
    assert_eq!(summary.basis.unwrap().base_summary_artifact_id, Some(made.summary_artifact_id.clone()));
    let artifact = Some(made.summary_artifact_id.parse().unwrap());
    let given = |at: Selector| ManualCompact { markdown: None, artifact, at, stride: 3, growth };
    assert_eq!(hand(&given(Selector::Seq(2))).unwrap().summary_artifact_id, made.summary_artifact_id);
    lab.refused(|store, thread| store.compact_by_hand(thread, &given(Selector::Seq(3)), &by()), "summary-mismatch");
    let other = lab.store.create_thread("/w", None).unwrap();
    lab.store.post(&other, Post { content: "x".into(), ..Post::default() }, &by()).unwrap();
    let wrong = lab.store.compact_by_hand(&other, &given(Selector::Seq(1)), &by()).unwrap_err();
    assert!(wrong.to_string().contains("thread_id of summary"), "{wrong}");
    lab.refused(|store, thread| store.compact_by_hand(thread, &words(Selector::Seq(0)), &by()), "not-a-message");
    lab.refused(
        |store, thread| store.compact_by_hand(thread, &words(Selector::Message("m".into())), &by()),
        "message-not-found",
    );
    let far = ManualCompact { stride: 9, ..words(Selector::Head) };
    lab.refused(|store, thread| store.compact_by_hand(thread, &far, &by()), "cut-not-reached");
    let none = ManualCompact { markdown: None, ..words(Selector::Head) };
    lab.refused(|store, thread| store.compact_by_hand(thread, &none, &by()), "summary-missing");
    lab.refused(
        |store, thread| store.compact_by_hand(thread, &ManualCompact { stride: 0, ..words(Selector::Head) }, &by()),
        "invalid-stride",
    );
}

#[test]
fn a_base_that_is_lost_begins_anew_and_is_named() {
    let lab = lab(4);
    lab.auto(&auto(2, 2));
    let lost = "0".repeat(64);
    let body = checkpoint_body(
        "k".into(),
        "manual_v1",
        lost.clone(),
        (4, lab.store.frame_at(&lab.thread, 4).unwrap().id),
        &by(),
    );
    lab.store.append_bodies(&lab.thread, &[body.into()], Vec::new()).unwrap();
    lab.post(&long(5));
    lab.post(&long(6));
    let done = lab.auto(&auto(2, 1));
    let summary = lab.store.summary_artifact(&done.created[0].summary_artifact_id).unwrap();
    let basis = summary.basis.unwrap();
    assert_eq!(basis.base_summary_artifact_id, Some(lost));
    assert!(basis.note.unwrap().starts_with("bootstrap_from_truth_v0.2/base_read_failed: "));
    assert!(summary.summary_markdown.contains("- delta_message_count: 6\n"));
}

/// Commits of `generic-v1` on one chain.
fn chain(lab: &Lab, deltas: &[(&str, &str)]) -> Vec<enjamb_core::CommitId> {
    let mut commits = Vec::new();
    for (at, (role, text)) in deltas.iter().enumerate() {
        let content = serde_json::json!({"role": role, "content": text}).to_string() + "\n";
        let request = Checkpoint {
            parent: commits.last().copied(),
            created_at: Some(Timestamp::from_millis(at as i64)),
            ..Checkpoint::new(Content::Bytes(content.into_bytes()), "generic-v1", "p")
        };
        commits.push(lab.store.checkpoint(request).unwrap().id);
    }
    commits
}

fn by_rule(keep_turns: usize) -> ChainCompact {
    ChainCompact { keep_turns, summary: ChainSummary::Rule, dry_run: false }
}

#[test]
fn a_chain_is_compacted_by_a_commit_that_takes_less_and_keeps_pins() {
    let lab = lab(0);
    let long =
        format!("todo: look at src/pay.rs\n{}", "the retry loop sleeps twice in a row and that is slow. ".repeat(80));
    let commits = chain(
        &lab,
        &[
            ("system", "be brief"),
            ("user", "never push to main"),
            ("user", &long),
            ("assistant", "two sleeps in src/pay.rs"),
            ("user", "cap it at 3"),
            ("assistant", "done"),
        ],
    );
    lab.store.note(&commits[1], Note { summary: None, tags: Some(vec!["pin".into()]) }, &by()).unwrap();
    let tip = commits[5];
    let done = lab.store.compact_chain(&tip, &by_rule(1)).unwrap();
    assert!(done.tokens_after < done.tokens_before / 2, "{} of {}", done.tokens_after, done.tokens_before);
    let made = lab.store.show(&done.commit.unwrap().id).unwrap();
    assert_eq!((made.link.kind, made.link.parent), (CommitKind::Compaction, Some(tip)));
    let seen: Vec<_> = lab.store.chain_entries(&made.link.id).unwrap().into_iter().map(|(_, entry)| entry).collect();
    let texts: Vec<_> = seen.iter().map(|entry| entry.text()).collect();
    assert!(texts.contains(&"be brief".to_owned()) && texts.contains(&"never push to main".to_owned()), "{texts:?}");
    assert_eq!(texts[texts.len() - 2..], ["cap it at 3".to_owned(), "done".to_owned()]);
    assert_eq!(done.pinned, 2);
    let loss = lab.store.chain_loss(&made.link.id).unwrap();
    assert!(loss.lost.is_empty(), "{:?}", loss.lost);
    let variant = ChainCompact { summary: ChainSummary::Words("all is well".into()), ..by_rule(1) };
    let sibling = lab.store.compact_chain(&tip, &variant).unwrap().commit.unwrap();
    assert_eq!(lab.store.children(&tip).unwrap(), [made.link.id, sibling.id], "variants are siblings");
    let worse = lab.store.chain_loss(&sibling.id).unwrap();
    let lost: Vec<_> = worse.lost.iter().map(|lost| lost.fact.as_str()).collect();
    assert_eq!(lost, ["src/pay.rs", "todo: look at src/pay.rs"]);
    assert!(worse.percent < loss.percent);
}

#[test]
fn a_compaction_that_does_not_shrink_is_refused() {
    let lab = lab(0);
    let commits = chain(&lab, &[("user", "hi"), ("assistant", "hello")]);
    let error = lab.store.compact_chain(&commits[1], &by_rule(0)).unwrap_err();
    assert_eq!(error.code(), "does-not-shrink");
    assert_eq!(lab.store.children(&commits[1]).unwrap(), []);
    let error = lab.store.chain_loss(&commits[1]).unwrap_err();
    assert!(matches!(error, ServiceError::Invalid { .. }), "{error}");
}

#[test]
fn what_a_threads_summary_lost_is_counted() {
    let lab = lab(0);
    lab.post("never push to main");
    lab.post("look at `cap_retries` in src/pay.rs");
    let words = ManualCompact {
        markdown: Some("never push to main; see src/pay.rs".into()),
        artifact: None,
        at: Selector::Seq(2),
        stride: 1,
        growth: Growth::Refused,
    };
    lab.store.compact_by_hand(&lab.thread, &words, &by()).unwrap();
    let (_, score) = lab.store.thread_loss(&lab.thread).unwrap();
    assert_eq!((score.percent, score.lost.len(), score.lost[0].fact.as_str()), (66, 1, "cap_retries"));
}

#[test]
fn of_all_who_schedule_at_once_one_starts_a_job() {
    let lab = lab(2);
    let decisions: Vec<_> = std::thread::scope(|scope| {
        let deciding: Vec<_> = (0..6).map(|_| scope.spawn(|| lab.schedule(true, false).decision)).collect();
        deciding.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(decisions.iter().filter(|decision| **decision == "scheduled").count(), 1, "{decisions:?}");
    assert_eq!(decisions.iter().filter(|decision| **decision == "skipped_inflight").count(), 5, "{decisions:?}");
}
