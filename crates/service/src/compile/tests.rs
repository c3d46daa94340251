//! What a thread compiles to: the seed's strategies byte for byte, and ours by what they promise.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_core::compile::{Basis, Coverage, Item, RenderTarget, SUMMARY_SCHEMA, Strategy, Summary, SummaryProvenance};
use enjamb_core::conversation::Role;
use enjamb_core::frame::{Body, CompactionCheckpointCreated, OutputTextDelta, RunEnded};
use enjamb_core::thread::Selector;
use enjamb_core::{ArtifactId, StreamId, StreamKind, Timestamp};
use enjamb_formats::TokenCounting;
use enjamb_testkit::home::Home;

use super::*;
use crate::{Env, Handoff, Post, PutOptions, RunId};

/// A store whose ids count up.
struct Lab {
    store: Store,
    _home: Home,
}

fn lab() -> (Lab, StreamId) {
    let home = Home::new();
    let ids = Arc::new(AtomicU64::new(0));
    let next = move || format!("id{}", ids.fetch_add(1, Ordering::SeqCst));
    let store = Store::create(&home.store(), Env::with(|| Timestamp::from_millis(5), next)).unwrap();
    let thread = store.create_thread("/w", None).unwrap();
    (Lab { store, _home: home }, thread)
}

fn by() -> Actor {
    Actor { actor_id: "alice".into(), origin: "cli".into() }
}

impl Lab {
    fn post(&self, thread: &StreamId, text: &str) -> String {
        let post = Post { content: text.into(), ..Post::default() };
        self.store.post(thread, post, &by()).unwrap().message
    }

    /// A message, and a run that answers it in two pieces.
    fn ask(&self, thread: &StreamId, text: &str, answer: &str) -> String {
        let post = Post { content: text.into(), run: Some(RunId::New), idempotency_key: None };
        let posted = self.store.post(thread, post, &by()).unwrap();
        let run = posted.run.unwrap();
        self.answer(thread, &posted.message, &run, answer);
        posted.message
    }

    fn answer(&self, thread: &StreamId, message: &str, run: &str, answer: &str) {
        let session = StreamId::new(StreamKind::Session, run).unwrap();
        let (first, second) = answer.split_at(answer.len() / 2);
        let deltas: Vec<Body> = [first, second].map(|delta| OutputTextDelta { delta: delta.into() }.into()).into();
        self.store.append_bodies(&session, &deltas, Vec::new()).unwrap();
        let ended = RunEnded {
            run_session_id: run.into(),
            message_id: message.into(),
            reason: "failed".into(),
            actor_id: None,
            origin: None,
        };
        self.store.append_bodies(thread, &[ended.into()], Vec::new()).unwrap();
    }

    /// A checkpoint at a message; its summary is stored unless `lost`.
    fn summarise(&self, thread: &StreamId, to_seq: u64, kind: &str, lost: bool) -> ArtifactId {
        let summary = Summary {
            schema: SUMMARY_SCHEMA.into(),
            kind: kind.into(),
            coverage: Coverage {
                thread_id: thread.id.clone(),
                from_seq: 0,
                from_message_id: None,
                to_seq,
                to_message_id: None,
            },
            provenance: SummaryProvenance { actor_id: "a".into(), origin: "o".into(), produced_by: None },
            basis: Basis::of(None, None),
            summary_markdown: format!("up to {to_seq}"),
        };
        let bytes = summary.to_bytes();
        let id = ArtifactId::of(&bytes);
        if !lost {
            self.store.put(&mut bytes.as_slice(), &PutOptions::default()).unwrap();
        }
        let body = CompactionCheckpointCreated {
            checkpoint_id: format!("k{to_seq}"),
            cut_rule_id: "fixture_v1".into(),
            summary_kind: kind.into(),
            summary_artifact_id: id.to_hex(),
            from_seq: 0,
            from_message_id: None,
            to_seq,
            to_message_id: None,
            actor_id: "a".into(),
            origin: "o".into(),
        };
        self.store.append_bodies(thread, &[body.into()], Vec::new()).unwrap();
        id
    }

    fn compile(&self, thread: &StreamId, request: Compile) -> Compiled {
        self.store.compile(thread, &request, &by()).unwrap()
    }

    fn dry(&self, thread: &StreamId, strategy: Option<Strategy>) -> Compiled {
        self.compile(thread, Compile { strategy, dry_run: true, explain: true, ..Compile::default() })
    }
}

fn said(compiled: &Compiled) -> Vec<String> {
    let say = |item: &Item| match item {
        Item::Message { content, .. } => content.clone(),
        Item::SummaryRef { note, .. } => note.clone().unwrap_or_default(),
        other => other.type_name().to_owned(),
    };
    compiled.bundle.items.iter().map(say).collect()
}

#[test]
fn a_thread_compiles_to_its_messages_and_what_was_answered() {
    let (lab, thread) = lab();
    let first = lab.ask(&thread, "hi", "ack: hi");
    let second = lab.post(&thread, "go on");
    let compiled = lab.compile(&thread, Compile::default());
    let expected = format!(
        concat!(
            r#"{{"schema":"rip.context_bundle.v1","compiler":{{"id":"rip.context_compiler.v1","strategy":"recent_messages_v1"}},"#,
            r#""source":{{"thread_id":"{thread}","from_seq":5,"from_message_id":"{second}"}},"#,
            r#""provenance":{{"run_session_id":"{run}","actor_id":"alice","origin":"cli"}},"items":["#,
            r#"{{"type":"message","role":"user","content":"hi","actor_id":"alice","origin":"cli","thread_seq":1,"thread_event_id":"{first}"}},"#,
            r#"{{"type":"message","role":"assistant","content":"ack: hi","actor_id":null,"origin":null,"thread_seq":null,"thread_event_id":null}},"#,
            r#"{{"type":"message","role":"user","content":"go on","actor_id":"alice","origin":"cli","thread_seq":4,"thread_event_id":"{second}"}}]}}"#,
        ),
        thread = thread.id,
        run = compiled.bundle.provenance.run_session_id,
        first = first,
        second = second,
    );
    assert_eq!(String::from_utf8(compiled.bytes.clone()).unwrap(), expected);
    assert_eq!(lab.store.get_small(&compiled.artifact).unwrap(), compiled.bytes);
    let seq = compiled.decided_seq.unwrap();
    let ContinuityBody::SelectionDecided(decided) = lab.store.said_at(&thread, seq).unwrap() else { panic!() };
    assert_eq!(decided.limits.get(), r#"{"hierarchical_summaries_v1_max_refs":3,"recent_messages_v1_limit":16}"#);
    assert_eq!(
        decided.reason.unwrap().get(),
        r#"{"cause":"no_compaction_checkpoint","selected":"recent_messages_v1"}"#
    );
    let ContinuityBody::ContextCompiled(recorded) = lab.store.said_at(&thread, seq + 1).unwrap() else { panic!() };
    assert_eq!((recorded.bundle_artifact_id, recorded.from_seq), (compiled.artifact.to_hex(), 5));
}

#[test]
fn a_context_ends_before_the_next_message_and_holds_sixteen() {
    let (lab, thread) = lab();
    let messages: Vec<_> = (1..=20).map(|at| lab.post(&thread, &format!("m{at}"))).collect();
    let at = |message: &str| {
        let message = Some(message.to_owned());
        lab.compile(&thread, Compile { message, dry_run: true, ..Compile::default() })
    };
    let last = at(&messages[19]);
    assert_eq!(said(&last), (5..=20).map(|at| format!("m{at}")).collect::<Vec<_>>());
    let third = at(&messages[2]);
    assert_eq!((said(&third), third.bundle.source.from_seq), (vec!["m1".into(), "m2".into(), "m3".into()], 3));
    let unknown = Compile { message: Some("nobody".into()), ..Compile::default() };
    let error = lab.store.compile(&thread, &unknown, &by()).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        ("message-not-found", format!("thread {} has no message nobody", thread.id))
    );
    assert_eq!(lab.store.thread_head(&thread).unwrap(), 20, "nothing was written");
}

#[test]
fn the_last_run_that_ended_before_the_cut_answers() {
    let (lab, thread) = lab();
    let first = lab.ask(&thread, "one", "early");
    lab.store.append_bodies(&thread, &[run_spawned("r2", &first, &by())], Vec::new()).unwrap();
    lab.answer(&thread, &first, "r2", "later");
    lab.post(&thread, "two");
    lab.store.append_bodies(&thread, &[run_spawned("r3", &first, &by())], Vec::new()).unwrap();
    lab.answer(&thread, &first, "r3", "too late");
    let message = Some(first);
    let compiled = lab.compile(&thread, Compile { message, dry_run: true, ..Compile::default() });
    assert_eq!(said(&compiled), ["one", "later"]);
    assert_eq!(said(&lab.dry(&thread, None)), ["one", "too late", "two"]);
}

#[test]
fn summaries_come_first_and_messages_after_the_furthest() {
    let (lab, thread) = lab();
    (1..=60).for_each(|at| drop(lab.post(&thread, &format!("m{at}"))));
    for to_seq in [8, 16, 32] {
        lab.summarise(&thread, to_seq, "cumulative_v1", false);
    }
    let notes: Vec<_> = [8, 16, 32].map(|to| format!("compaction checkpoint to_seq={to}")).into();
    let messages: Vec<_> = (45..=60).map(|at| format!("m{at}")).collect();
    let hierarchy = lab.dry(&thread, None);
    assert_eq!(said(&hierarchy), [notes.clone(), messages.clone()].concat());
    assert_eq!(hierarchy.choice.reason["to_seqs"], serde_json::json!([8, 16, 32]));
    let single = lab.dry(&thread, Some(Strategy::Summaries));
    assert_eq!(said(&single), [vec![notes[2].clone()], messages.clone()].concat());
    assert_eq!(said(&lab.dry(&thread, Some(Strategy::Recent))), messages);
    let rendered = lab.compile(&thread, Compile::default());
    let input = lab.store.render(&rendered.artifact, RenderTarget::OpenResponses).unwrap();
    let begins = r#"[{"content":"Compaction summary (earlier context)\ncompaction checkpoint to_seq=8\nup to 8","role":"system","type":"message"},"#;
    assert!(String::from_utf8(input).unwrap().starts_with(begins));
    lab.store.rebuild_index().unwrap();
    assert_eq!(lab.dry(&thread, None).bundle.items, hierarchy.bundle.items);
}

#[test]
fn a_summary_that_is_lost_is_a_reset_and_strictly_a_failure() {
    let (lab, thread) = lab();
    (1..=40).for_each(|at| drop(lab.post(&thread, &format!("m{at}"))));
    lab.summarise(&thread, 8, "cumulative_v1", false);
    let lost = lab.summarise(&thread, 32, "cumulative_v1", true);
    let compiled = lab.compile(&thread, Compile::default());
    assert_eq!(compiled.bundle.compiler.strategy, "summaries_recent_messages_v1");
    assert_eq!(said(&compiled)[0], "compaction checkpoint to_seq=8");
    let ContinuityBody::SelectionDecided(decided) = lab.store.said_at(&thread, compiled.decided_seq.unwrap()).unwrap()
    else {
        panic!()
    };
    let [reset] = decided.resets.as_slice() else { panic!("{:?}", decided.resets) };
    assert_eq!((reset.action.as_str(), reset.reason.as_str()), ("skipped", "summary_artifact_unavailable"));
    assert!(reset.reference.as_ref().unwrap().get().contains(&lost.to_hex()));
    let explained = lab.dry(&thread, None);
    let out: Vec<_> = explained.candidates.iter().filter(|it| !it.included).map(|it| it.reason.as_str()).collect();
    assert_eq!((out[0], &out[1..]), ("summary_artifact_unavailable", &["earlier than the last messages"; 16][..]));
    let strict = Compile { strict: true, ..Compile::default() };
    let error = lab.store.compile(&thread, &strict, &by()).unwrap_err();
    assert!(error.to_string().contains(&lost.to_string()), "{error}");
    assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty());
}

#[test]
fn a_summary_of_another_kind_is_ignored_and_said_so() {
    let (lab, thread) = lab();
    (1..=4).for_each(|at| drop(lab.post(&thread, &format!("m{at}"))));
    lab.summarise(&thread, 3, "segment_v1", false);
    let compiled = lab.dry(&thread, None);
    assert_eq!(compiled.choice.reason["cause"], "unsupported_compaction_summary_kind");
    assert_eq!(compiled.choice.resets[0].reason, "unsupported_summary_kind");
}

#[test]
fn the_same_request_gives_the_same_bytes_and_an_audit_agrees() {
    let (lab, thread) = lab();
    lab.ask(&thread, "hi", "ack");
    let message = lab.post(&thread, "go on");
    lab.store.append_bodies(&thread, &[run_spawned("r", &message, &by())], Vec::new()).unwrap();
    let request = Compile { run: Some("r".into()), dry_run: true, ..Compile::default() };
    let before = lab.compile(&thread, request.clone());
    let recorded = lab.compile(&thread, Compile { dry_run: false, ..request });
    assert_eq!(before.bytes, recorded.bytes);
    for at in 0..40 {
        lab.post(&thread, &format!("later {at}"));
    }
    lab.summarise(&thread, 1, "cumulative_v1", false);
    let audit = lab.store.audit(&recorded.artifact).unwrap();
    assert_eq!((audit.recompiled, audit.differences, audit.other_choice), (recorded.artifact, Vec::new(), None));
}

#[test]
fn a_branch_goes_on_from_its_parent_and_a_handoff_begins_with_what_was_handed_over() {
    let (lab, thread) = lab();
    (1..=20).for_each(|at| drop(lab.post(&thread, &format!("p{at}"))));
    let child = lab.store.branch_thread(&thread, &Selector::Seq(18), None, &by()).unwrap().thread;
    let grandchild = lab.store.branch_thread(&child, &Selector::Head, None, &by()).unwrap().thread;
    lab.post(&grandchild, "c1");
    let own = lab.dry(&grandchild, None);
    assert_eq!(said(&own), ["c1"], "the seed's strategies see their own thread only");
    let lineage = lab.dry(&grandchild, Some(Strategy::Lineage));
    let expected: Vec<_> = (4..=18).map(|at| format!("p{at}")).chain(["c1".into()]).collect();
    assert_eq!(said(&lineage), expected);
    let words = Handoff { markdown: Some("so far".into()), artifact: None };
    let handed = lab.store.handoff_thread(&thread, &Selector::Head, None, words, &by()).unwrap().thread;
    lab.post(&handed, "h1");
    let recorded = lab.compile(&handed, Compile { strategy: Some(Strategy::Lineage), ..Compile::default() });
    assert_eq!(said(&recorded), ["handoff_bundle_ref", "h1"]);
    assert!(lab.store.audit(&recorded.artifact).unwrap().differences.is_empty());
    let rendered = lab.store.render(&recorded.artifact, RenderTarget::OpenAiChat).unwrap();
    assert!(String::from_utf8(rendered).unwrap().contains("so far"));
}

fn within(tokens: u64) -> Compile {
    let budget = Some(Budget { tokens, counting: TokenCounting::Cheap });
    Compile { strategy: Some(Strategy::TokenBudget), budget, ..Compile::default() }
}

#[test]
fn a_budget_is_kept_and_pins_are_always_in() {
    let (lab, thread) = lab();
    let pinned = lab.post(&thread, "never push to main");
    // 28 bytes are 10 tokens.
    (1..=40).for_each(|at| drop(lab.post(&thread, &format!("message number {at:02} of some"))));
    lab.store.pin_message(&thread, &pinned, true, &by()).unwrap();
    for budget in [60, 100, 1_000] {
        let compiled = lab.compile(&thread, Compile { explain: true, ..within(budget) });
        let texts = said(&compiled);
        assert_eq!(
            (texts[0].as_str(), texts.last().unwrap().as_str()),
            ("never push to main", "message number 40 of some")
        );
        let tokens: u64 = texts.iter().map(|text| TokenCounting::Cheap.count(text)).sum();
        assert!(tokens <= budget, "{tokens} of {budget}");
        let counted: u64 = compiled.candidates.iter().filter(|it| it.included).map(|it| it.tokens).sum();
        assert_eq!(counted, tokens, "{budget}");
        assert_eq!(texts.len() == 41, budget == 1_000);
        assert_eq!(compiled.limits["token_budget_v1_method"], "bytes");
        lab.store.pin_message(&thread, &pinned, true, &by()).unwrap();
        assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty());
    }
    let head = lab.store.thread_head(&thread).unwrap();
    let error = lab.store.compile(&thread, &within(10), &by()).unwrap_err();
    assert_eq!((error.code(), lab.store.thread_head(&thread).unwrap()), ("budget-too-small", head));
}

#[test]
fn what_is_large_is_kept_outside_a_budget_and_files_are_referred_to() {
    let (lab, thread) = lab();
    let long = "long ".repeat(2_000);
    lab.ask(&thread, "print it", &long);
    lab.post(&thread, "go on");
    let files = vec![("a.rs".to_owned(), b"fn main() {}".to_vec())];
    let compiled = lab.compile(&thread, Compile { files, ..within(2_000) });
    assert_eq!(said(&compiled), ["file_ref", "print it", "artifact_ref", "go on"]);
    let rendered =
        String::from_utf8(lab.store.render(&compiled.artifact, RenderTarget::OpenResponses).unwrap()).unwrap();
    assert!(rendered.contains("fn main() {}") && rendered.contains("10000 bytes, not shown"), "{rendered}");
    assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty());
    let files = vec![("a.rs".to_owned(), Vec::new())];
    let error = lab.store.compile(&thread, &Compile { files, ..Compile::default() }, &by()).unwrap_err();
    assert_eq!(error.code(), "bad-request");
}

#[test]
fn actors_speak_in_their_roles() {
    let (lab, thread) = lab();
    lab.post(&thread, "hi");
    let bob = Actor { actor_id: "bob".into(), origin: "cli".into() };
    lab.store.post(&thread, Post { content: "hello".into(), ..Post::default() }, &bob).unwrap();
    let roles = ActorRoles::from([("bob".to_owned(), Role::Assistant)]);
    let request = Compile { strategy: Some(Strategy::ActorRoles), roles, ..Compile::default() };
    let compiled = lab.compile(&thread, request);
    let roles: Vec<_> = compiled
        .bundle
        .items
        .iter()
        .filter_map(|item| if let Item::Message { role, .. } = item { Some(role.as_str()) } else { None })
        .collect();
    assert_eq!(roles, ["user", "assistant"]);
    assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty());
}

#[test]
fn those_who_compile_and_post_at_once_keep_order() {
    let (lab, thread) = lab();
    lab.post(&thread, "hi");
    std::thread::scope(|scope| {
        for at in 0..6 {
            let (lab, thread) = (&lab, &thread);
            scope.spawn(move || {
                for turn in 0..5 {
                    lab.post(thread, &format!("{at}.{turn}"));
                    lab.compile(thread, Compile::default());
                }
            });
        }
    });
    // What was said of each run, in order.
    let mut runs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for seq in 0..=lab.store.thread_head(&thread).unwrap() {
        match lab.store.said_at(&thread, seq).unwrap() {
            ContinuityBody::RunSpawned(run) => runs.entry(run.run_session_id).or_default().push("spawned"),
            ContinuityBody::SelectionDecided(run) => runs.entry(run.run_session_id).or_default().push("decided"),
            ContinuityBody::ContextCompiled(run) => {
                let audit = lab.store.audit(&run.bundle_artifact_id.parse().unwrap()).unwrap();
                assert!(audit.differences.is_empty(), "{seq}: {:?}", audit.differences);
                runs.entry(run.run_session_id).or_default().push("compiled");
            }
            _ => {}
        }
    }
    let compiled = runs.values().filter(|said| said.contains(&"compiled")).collect::<Vec<_>>();
    assert_eq!(compiled.len(), 6 * 5, "each has a run of its own");
    assert!(compiled.iter().all(|said| **said == ["spawned", "decided", "compiled"]), "{runs:?}");
}

#[test]
fn what_is_like_the_message_is_found_recorded_and_referred_to() {
    let (lab, thread) = lab();
    let found = lab.post(&thread, "the gateway bans us after five attempts of retry");
    (1..=30).for_each(|at| drop(lab.post(&thread, &format!("message {at} about lunch"))));
    lab.post(&thread, "how many retry attempts does the gateway allow?");
    let request = Compile { strategy: Some(Strategy::Retrieval), ..Compile::default() };
    let compiled = lab.compile(&thread, request.clone());
    let (results, id) = compiled.retrieved.as_ref().unwrap();
    assert_eq!(results.results[0].message_id, found);
    assert_eq!(said(&compiled)[0], "artifact_ref");
    let seq = compiled.decided_seq.unwrap();
    let ContinuityBody::RetrievalDecided(decided) = lab.store.said_at(&thread, seq - 1).unwrap() else { panic!() };
    assert_eq!((decided.results_artifact_id, decided.strategy_id.as_str()), (id.to_hex(), "lexical_bm25_v1"));
    let rendered = lab.store.render(&compiled.artifact, RenderTarget::OpenResponses).unwrap();
    assert!(String::from_utf8(rendered).unwrap().contains("alice (1): the gateway bans us after five"));
    lab.post(&thread, "more retry attempts at the gateway");
    lab.store.rebuild_index().unwrap();
    assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty(), "nothing is searched again");
    let again = lab.compile(&thread, Compile { dry_run: true, ..request });
    assert_eq!(again.retrieved.unwrap().0.results[0].message_id, found);
}

#[test]
fn a_budget_takes_the_furthest_summary_if_it_leaves_room_for_messages() {
    let (lab, thread) = lab();
    (1..=30).for_each(|at| drop(lab.post(&thread, &format!("message number {at:02} of some"))));
    lab.summarise(&thread, 10, "cumulative_v1", false);
    lab.summarise(&thread, 20, "cumulative_v1", false);
    let roomy = lab.compile(&thread, Compile { dry_run: true, ..within(1_000) });
    let texts = said(&roomy);
    assert_eq!((texts[0].as_str(), texts.len()), ("compaction checkpoint to_seq=20", 11));
    assert_eq!(roomy.choice.checkpoints.len(), 1);
    let tight = lab.compile(&thread, Compile { dry_run: true, ..within(40) });
    assert!(said(&tight).iter().all(|text| text.starts_with("message number")), "{:?}", said(&tight));
}

#[test]
fn an_ancestor_that_is_not_here_is_a_reset() {
    let (lab, _) = lab();
    let branched = |id: &str, relation: Body| {
        let stream = StreamId::new(StreamKind::Continuity, id).unwrap();
        let bodies = [crate::thread::created("/w", None), relation];
        lab.store.append_bodies(&stream, &bodies, Vec::new()).unwrap();
        lab.post(&stream, "here");
        lab.compile(&stream, Compile { strategy: Some(Strategy::Lineage), ..Compile::default() })
    };
    let (actor_id, origin) = (String::from("a"), String::from("o"));
    let branch = enjamb_core::frame::Branched {
        parent_thread_id: "elsewhere".into(),
        parent_seq: 3,
        parent_message_id: None,
        actor_id: actor_id.clone(),
        origin: origin.clone(),
    };
    let compiled = branched("b", branch.into());
    assert_eq!(
        (said(&compiled), compiled.choice.resets[0].reason.as_str()),
        (vec!["here".to_owned()], "parent_unavailable")
    );
    for lost in ["0".repeat(64), "no id".into()] {
        let handoff = enjamb_core::frame::HandoffCreated {
            from_thread_id: "elsewhere".into(),
            from_seq: 3,
            from_message_id: None,
            summary_artifact_id: Some(lost.clone()),
            summary_markdown: None,
            actor_id: actor_id.clone(),
            origin: origin.clone(),
        };
        let compiled = branched(&format!("h{}", lost.len()), handoff.into());
        assert_eq!(compiled.choice.resets[0].reason, "handoff_artifact_unavailable");
        assert!(lab.store.audit(&compiled.artifact).unwrap().differences.is_empty());
    }
}

#[test]
fn a_run_has_its_own_message() {
    let (lab, thread) = lab();
    let (first, second) = (lab.post(&thread, "one"), lab.post(&thread, "two"));
    lab.store.append_bodies(&thread, &[run_spawned("r", &first, &by())], Vec::new()).unwrap();
    let of = |message: &str| Compile { run: Some("r".into()), message: Some(message.into()), ..Compile::default() };
    assert_eq!(lab.store.compile(&thread, &of(&second), &by()).unwrap_err().code(), "bad-request");
    assert_eq!(said(&lab.compile(&thread, of(&first))), ["one"]);
    lab.answer(&thread, &first, "r", "done");
    assert_eq!(lab.store.compile(&thread, &of(&first), &by()).unwrap_err().code(), "run-ended");
}
