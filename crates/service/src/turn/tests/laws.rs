//! What is recorded is enough: to read a turn again, to go on from it elsewhere, and to end one whose process is gone.

use enjamb_core::frame::SessionBody;
use enjamb_core::provider::AnswerReader;
use enjamb_testkit::home::times;

use super::super::journal::Journal;
use super::*;
use crate::Compile;

/// What a session says when its provider's events are read again.
fn read_again(frames: &[Frame], dialect: Dialect) -> String {
    let mut reader = AnswerReader::new(dialect);
    let mut text = String::new();
    for frame in frames {
        let Body::Session(SessionBody::ProviderEvent(event)) = &frame.body else { continue };
        if event.provider == dialect.provider() {
            let data = event.data.as_ref().map(|data| data.get().to_owned()).or_else(|| event.raw.clone());
            text.push_str(&reader.push(format!("data: {}\n\n", data.unwrap_or_default()).as_bytes()).text);
        }
    }
    text
}

#[test]
fn recorded_frames_give_the_same_text_and_the_same_next_bundle() {
    for dialect in Dialect::ALL {
        let stage = Stage::new();
        let scripts =
            ["one", "two"].map(|text| Script::events(Speech::new(dialect).text(text).raw(None, "{").end(5, 1)));
        let (_server, options) = provider(dialect, scripts.to_vec());
        for words in ["first?", "second?"] {
            let turned = stage.turn(words, options.clone());
            assert_eq!(read_again(&stage.session(&turned.run), dialect), turned.text);
        }
        let mut exported = Vec::new();
        stage.store.export_frames(&mut exported).unwrap();
        let other = Stage::new();
        let imported = other.store.import_frames(&mut exported.as_slice()).unwrap();
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let next = |store: &Store| {
            let request = Compile { dry_run: true, ..Compile::default() };
            store.compile(&stage.thread, &request, &stage.by).unwrap().bytes
        };
        assert_eq!(next(&other.store), next(&stage.store), "no provider is needed");
    }
}

/// Leaves a store as a process does that was killed after so many bytes came and so many frames of them were stored.
fn killed(stage: &Stage, said: &str, came: usize, stored: usize) -> String {
    let run = stage.store.env.new_id();
    let mut journal = Journal::begin(&stage.home.store(), &run, &stage.thread.id).unwrap();
    let post = Post { content: "hi".into(), run: Some(RunId::Given(run.clone())), idempotency_key: None };
    let posted = stage.store.post(&stage.thread, post, &stage.by).unwrap();
    let session = Session::begin(&stage.store, &stage.thread, posted, "hi", &stage.by).unwrap();
    journal.request(0, Dialect::Chat).unwrap();
    journal.bytes(&said.as_bytes()[..came]).unwrap();
    let started = enjamb_core::frame::RequestStarted {
        endpoint: "e".into(),
        model: None,
        request_index: 0,
        kind: "initial_items".into(),
    };
    let received = AnswerReader::new(Dialect::Chat).push(&said.as_bytes()[..came]).frames;
    let frames: Vec<Body> = [started.into()].into_iter().chain(received.into_iter().take(stored)).collect();
    stage.store.append_bodies(&session.stream, &frames, Vec::new()).unwrap();
    run
}

#[test]
fn a_run_whose_process_is_gone_is_ended_and_loses_nothing() {
    let said = Speech::new(Dialect::Chat).text("a").text("b").text("c").end(1, 1);
    let places: Vec<usize> = (0..=said.len()).step_by(290 / times(10) as usize).collect();
    for came in places {
        for stored in 0..5 {
            let stage = Stage::new();
            let run = killed(&stage, &said, came, stored);
            let mut whole = AnswerReader::new(Dialect::Chat);
            let expected: usize = whole.push(&said.as_bytes()[..came]).frames.len() + whole.finish().frames.len();
            let ended = stage.store.end_dead_runs().unwrap();
            assert_eq!(ended.len(), 1);
            let frames = stage.session(&run);
            let received =
                names(&frames).iter().filter(|name| matches!(**name, "provider_event" | "output_text_delta")).count();
            assert_eq!(received, expected, "{came} bytes came, {stored} frames were stored");
            assert_eq!(stage.store.run_text(&run).unwrap(), whole.answer().text);
            let text = stage.store.run_text(&run).unwrap();
            let ending = Ending::new(EndReason::Interrupted, "");
            let commit = stage.store.revision("@").unwrap();
            let turned = Turned {
                message: String::new(),
                run,
                text,
                ending,
                usage: Usage::default(),
                cost: None,
                requests: 1,
                tool_calls: 0,
                commit: Some(commit),
                replayed: false,
            };
            stage.check(&turned);
            assert!(stage.store.end_dead_runs().unwrap().is_empty(), "once");
        }
    }
}

#[test]
fn a_run_that_never_began_or_has_ended_leaves_only_a_journal_to_remove() {
    let stage = Stage::new();
    drop(Journal::begin(&stage.home.store(), "never", &stage.thread.id).unwrap());
    let (_server, options) = provider(Dialect::Chat, vec![Script::events(hello(Dialect::Chat))]);
    let turned = stage.turn_unchecked("hi", options);
    drop(Journal::begin(&stage.home.store(), &turned.run, &stage.thread.id).unwrap());
    assert!(stage.store.end_dead_runs().unwrap().is_empty());
    stage.check(&turned);
}

#[test]
fn a_post_that_is_sent_again_is_not_run_again() {
    let stage = Stage::new();
    let (server, options) = provider(Dialect::Chat, vec![Script::events(hello(Dialect::Chat))]);
    let provider = Provider::new(options).unwrap();
    let turn = Turn { content: "hi".into(), idempotency_key: Some("k".into()), ..Turn::default() };
    let means = Means { provider: &provider, tools: &Toolbox::none(), by: &stage.by, cancel: &AtomicBool::new(false) };
    let take = || stage.store.take_turn(&stage.thread, &turn, &means, &mut |_| {}).unwrap();
    let (first, again) = (take(), take());
    assert_eq!((first.replayed, again.replayed, &again.text), (false, true, &first.text));
    assert_eq!((again.run, again.ending.reason), (first.run, EndReason::Completed));
    assert_eq!(server.asked().len(), 1);
}
