//! Turns against a provider that behaves, and one that does not: every case gives a whole, valid stream and a clear end.

mod faults;
mod laws;
mod lineage;
mod parallel;
mod tooling;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use enjamb_core::frame::{Body, Frame};
use enjamb_core::provider::Dialect;
use enjamb_core::{StreamId, StreamKind};
use enjamb_testkit::home::Home;
use enjamb_testkit::provider::{LoopbackProvider, Script, Speech};

use super::*;
use crate::{Env, Key};

const KEY: &str = "sk-very-secret-key";

/// A store with a thread, and what it is to talk to.
struct Stage {
    home: Home,
    store: Store,
    thread: StreamId,
    by: Actor,
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let thread = store.create_thread("/w", None).unwrap();
        Self { home, store, thread, by: Actor { actor_id: "user".into(), origin: "test".into() } }
    }

    fn turn(&self, content: &str, options: ProviderOptions) -> Turned {
        self.turn_with(content, options, &Toolbox::none())
    }

    fn turn_with(&self, content: &str, options: ProviderOptions, tools: &Toolbox) -> Turned {
        let provider = Provider::new(options).unwrap();
        let turn = Turn { content: content.into(), ..Turn::default() };
        let means = Means { provider: &provider, tools, by: &self.by, cancel: &AtomicBool::new(false) };
        let mut shown = String::new();
        let turned = self.store.take_turn(&self.thread, &turn, &means, &mut |event| {
            if let TurnEvent::Text(text) = event {
                shown.push_str(text);
            }
        });
        let turned = turned.unwrap();
        assert_eq!(shown, turned.text, "what was shown is what was said");
        self.check(&turned);
        turned
    }

    fn turn_unchecked(&self, content: &str, options: ProviderOptions) -> Turned {
        let provider = Provider::new(options).unwrap();
        let turn = Turn { content: content.into(), ..Turn::default() };
        let means =
            Means { provider: &provider, tools: &Toolbox::none(), by: &self.by, cancel: &AtomicBool::new(false) };
        self.store.take_turn(&self.thread, &turn, &means, &mut |_| {}).unwrap()
    }

    /// Everything that holds of every turn, however it ended.
    fn check(&self, turned: &Turned) {
        let checked = self.store.verify(false, &mut |_, _| {}).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        assert_eq!(self.store.run_text(&turned.run).unwrap(), turned.text, "the frames say the same");
        let frames = self.session(&turned.run);
        assert_eq!(frames[0].body.type_name(), "session_started");
        let reason = turned.ending.reason.as_str();
        assert_eq!(ended(frames.last().unwrap()), Some(reason.to_owned()));
        let last = self.frames(&self.thread).pop().unwrap();
        assert_eq!(ended(&last), Some(reason.to_owned()), "{last:?}");
        let commit = self.store.show(&turned.commit.unwrap()).unwrap();
        assert_eq!(commit.commit.agent_session_id.as_deref(), Some(turned.run.as_str()));
        assert!(!self.holds(KEY), "the key is nowhere in the store");
        assert!(std::fs::read_dir(self.home.store().join("turns")).unwrap().next().is_none(), "no journal is left");
    }

    fn session(&self, run: &str) -> Vec<Frame> {
        self.frames(&StreamId::new(StreamKind::Session, run).unwrap())
    }

    fn frames(&self, stream: &StreamId) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.store
            .replay(stream, 0..u64::MAX, &mut |frame| {
                frames.push(frame);
                Ok(())
            })
            .unwrap();
        frames
    }

    /// Whether any file of the store has these bytes, packed ones unpacked.
    fn holds(&self, text: &str) -> bool {
        let mut exported = Vec::new();
        self.store.export_frames(&mut exported).unwrap();
        let within = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        let mut dirs = vec![self.home.path().to_owned()];
        let mut found = within(&exported);
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => dirs.push(entry.path()),
                    false => found |= within(&std::fs::read(entry.path()).unwrap()),
                }
            }
        }
        found
    }
}

fn ended(frame: &Frame) -> Option<String> {
    use enjamb_core::frame::{ContinuityBody, SessionBody};
    match &frame.body {
        Body::Session(SessionBody::SessionEnded(ended)) => Some(ended.reason.clone()),
        Body::Continuity(ContinuityBody::RunEnded(ended)) => Some(ended.reason.clone()),
        _ => None,
    }
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.body.type_name()).collect()
}

fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Responses => "/v1/responses",
        Dialect::Chat => "/v1/chat/completions",
        Dialect::Messages => "/v1/messages",
    }
}

/// A provider and how to ask it.
fn provider(dialect: Dialect, scripts: Vec<Script>) -> (LoopbackProvider, ProviderOptions) {
    let server = LoopbackProvider::saying(scripts);
    let options = ProviderOptions {
        model: Some("small".into()),
        key: Some(Key::new(KEY.into())),
        idle_timeout: Duration::from_secs(60),
        backoff: Duration::from_millis(1),
        retries: 2,
        ..ProviderOptions::new(server.url(path(dialect)), 1_000_000)
    };
    (server, options)
}

fn hello(dialect: Dialect) -> String {
    Speech::new(dialect).text("hel").text("lo").end(10, 2)
}

#[test]
fn a_turn_is_told_in_order_in_every_dialect() {
    for dialect in Dialect::ALL {
        let stage = Stage::new();
        let (server, options) = provider(dialect, vec![Script::events(hello(dialect)).header("x-request-id", "q1")]);
        let prices = Some(Prices { input: 3_000_000, output: 15_000_000 });
        let turned = stage.turn("hi", ProviderOptions { prices, dump_requests: true, ..options });
        assert_eq!((turned.text.as_str(), &turned.ending), ("hello", &Ending::completed()), "{dialect:?}");
        assert_eq!((turned.usage.input_tokens, turned.usage.output_tokens), (10, 2));
        assert_eq!(turned.cost.as_deref(), Some("0.000060"));
        let frames = stage.session(&turned.run);
        let begin = ["session_started", "openresponses_request", "openresponses_request_started"];
        assert_eq!(names(&frames)[..3], begin);
        assert_eq!(names(&frames)[3..5], ["openresponses_response_headers", "openresponses_response_first_byte"]);
        assert_eq!(names(&frames)[frames.len() - 2..], ["provider_event", "session_ended"]);
        let mut thread = vec![
            "continuity_created",
            "continuity_message_appended",
            "continuity_run_spawned",
            "continuity_context_selection_decided",
            "continuity_context_compiled",
        ];
        thread.extend((dialect == Dialect::Responses).then_some("continuity_provider_cursor_updated"));
        thread.push("continuity_run_ended");
        assert_eq!(names(&stage.frames(&stage.thread)), thread);
        let asked = server.asked();
        assert!(asked[0].head.contains(KEY), "the key is sent");
        assert_eq!((asked[0].body["model"].as_str(), asked[0].body["stream"].as_bool()), (Some("small"), Some(true)));
    }
}

#[test]
fn turns_follow_one_another_as_commits_and_contexts() {
    let stage = Stage::new();
    let scripts = ["one", "two"].map(|text| Script::events(Speech::new(Dialect::Chat).text(text).end(5, 1)));
    let (server, options) = provider(Dialect::Chat, scripts.to_vec());
    let first = stage.turn("first?", options.clone());
    let second = stage.turn("second?", options);
    let commit = stage.store.show(&second.commit.unwrap()).unwrap();
    assert_eq!(commit.commit.parent, first.commit.map(|id| id.to_string()));
    let told = &server.asked()[1].body["messages"];
    let said: Vec<_> = told.as_array().unwrap().iter().map(|said| said["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first?", "one", "second?"]);
    let request = crate::Materialize { tip: second.commit, stop: enjamb_core::chain::Stop::Root, format: None };
    let mut bytes = Vec::new();
    let mut take = |some: &[u8]| {
        bytes.extend_from_slice(some);
        Ok(())
    };
    let materialized = stage.store.materialize(&request, &mut take).unwrap();
    assert_eq!(materialized.messages, 4);
    let roles: Vec<_> = String::from_utf8(bytes).unwrap().lines().map(|line| line.contains("assistant")).collect();
    assert_eq!(roles, [false, true, false, true]);
}
