//! Everything that a provider may do wrong.

use std::sync::atomic::Ordering;
use std::time::Instant;

use enjamb_core::frame::{ProviderEvent, SessionBody};
use enjamb_testkit::provider::Step;
use serde_json::json;

use super::*;

/// The events of a session that came from a provider.
fn events(frames: &[Frame]) -> Vec<&ProviderEvent> {
    let event = |frame: &'_ Frame| matches!(&frame.body, Body::Session(SessionBody::ProviderEvent(_)));
    let all = frames.iter().filter(|frame| event(frame)).filter_map(|frame| match &frame.body {
        Body::Session(SessionBody::ProviderEvent(event)) => Some(event),
        _ => None,
    });
    all.filter(|event| event.provider != "enjamb").collect()
}

/// Takes a turn with these scripts in every dialect, and says how it ended.
fn check(script: impl Fn(Dialect) -> Vec<Script>, text: &str, reason: EndReason) -> Vec<(Turned, Vec<Frame>)> {
    check_within(Duration::from_secs(60), script, text, reason)
}

fn check_within(
    idle_timeout: Duration,
    script: impl Fn(Dialect) -> Vec<Script>,
    text: &str,
    reason: EndReason,
) -> Vec<(Turned, Vec<Frame>)> {
    let each = Dialect::ALL.map(|dialect| {
        let stage = Stage::new();
        let (_server, options) = provider(dialect, script(dialect));
        let turned = stage.turn("hi", ProviderOptions { idle_timeout, ..options });
        assert_eq!((turned.text.as_str(), turned.ending.reason), (text, reason), "{dialect:?}: {:?}", turned.ending);
        let frames = stage.session(&turned.run);
        (turned, frames)
    });
    each.into()
}

#[test]
fn events_cut_at_every_byte_and_other_ends_of_lines_change_nothing() {
    check(|dialect| vec![Script::events(hello(dialect)).byte_by_byte()], "hello", EndReason::Completed);
    check(|dialect| vec![Script::events(hello(dialect).replace('\n', "\r\n"))], "hello", EndReason::Completed);
    check(
        |dialect| vec![Script::events(hello(dialect).replace('\n', "\r")).byte_by_byte()],
        "hello",
        EndReason::Completed,
    );
}

#[test]
fn what_is_no_json_is_kept_and_passed_over() {
    let odd = |dialect| Speech::new(dialect).text("hel").raw(None, "{broken").raw(None, "7").text("lo").end(1, 1);
    for (_, frames) in check(|dialect| vec![Script::events(odd(dialect))], "hello", EndReason::Completed) {
        let events = events(&frames);
        let broken: Vec<_> = events.iter().filter_map(|event| event.raw.as_deref()).take(2).collect();
        assert_eq!(broken, ["{broken", "7"]);
    }
}

#[test]
fn a_stall_is_a_timeout_and_keeps_what_came() {
    let stalls = |dialect| {
        let begun = Speech::new(dialect).text("hel").unfinished();
        vec![Script::events(hello(dialect)).cut_at(begun.len(), Step::Pause(Duration::from_secs(300)))]
    };
    check_within(Duration::from_secs(2), stalls, "hel", EndReason::Timeout);
}

#[test]
fn a_stream_that_breaks_off_is_told_so_wherever_it_breaks() {
    for resets in [false, true] {
        let cut = |dialect: Dialect| {
            let begun = Speech::new(dialect).text("hel").unfinished();
            let script = Script::events(hello(dialect)).cut_at(begun.len() + 9, Step::HangUp);
            vec![if resets { script.resetting() } else { script }]
        };
        for (turned, frames) in check(cut, "hel", EndReason::StreamCut) {
            assert!(!turned.ending.detail.is_empty());
            let fault = frames.iter().rev().find_map(|frame| match &frame.body {
                Body::Session(SessionBody::ProviderEvent(event)) if event.provider == "enjamb" => {
                    Some(event.errors.clone())
                }
                _ => None,
            });
            assert!(fault.is_some());
        }
    }
    // A stream that ends in good order, but before the answer does.
    check(|dialect| vec![Script::events(Speech::new(dialect).text("hel").unfinished())], "hel", EndReason::StreamCut);
}

#[test]
fn who_is_busy_is_asked_again_and_who_stays_so_is_left() {
    let busy = || Script::refusal(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "0");
    let later = |dialect| vec![busy(), Script::refusal(503, "{}"), Script::events(hello(dialect))];
    for (turned, frames) in check(later, "hello", EndReason::Completed) {
        assert_eq!(turned.requests, 3);
        assert_eq!(names(&frames).iter().filter(|name| **name == "openresponses_request_started").count(), 3);
    }
    for (turned, _) in check(|_| vec![busy(), busy(), busy()], "", EndReason::RateLimited) {
        assert_eq!((turned.requests, turned.ending.detail.as_str()), (3, "it answered 429: slow down"));
    }
    let long = || Script::refusal(429, "{}").header("retry-after", "9000");
    for (turned, _) in check(|_| vec![long()], "", EndReason::RateLimited) {
        assert!(turned.ending.detail.contains("come back in 9000 s"), "{}", turned.ending.detail);
    }
    let down = || Script::refusal(500, "<html>");
    check(|_| vec![down(), down(), down()], "", EndReason::ProviderError);
}

#[test]
fn a_bad_key_is_said_without_the_key() {
    let said = json!({"error": {"message": format!("no such key: {KEY}")}}).to_string();
    for (turned, _) in check(|_| vec![Script::refusal(401, &said)], "", EndReason::Unauthorized) {
        assert_eq!(turned.ending.detail, "it answered 401: no such key: [key]");
    }
    let echoes = |dialect| {
        let text = format!("your key is {KEY}!");
        vec![Script::events(Speech::new(dialect).text(&text).end(1, 1)).byte_by_byte()]
    };
    check(echoes, "your key is [key]!", EndReason::Completed);
}

#[test]
fn what_is_asked_wrongly_or_answered_otherwise_is_an_end() {
    check(|_| vec![Script::refusal(400, r#"{"error":"no such model"}"#)], "", EndReason::InvalidRequest);
    check(|_| vec![Script::refusal(200, r#"{"output":[]}"#)], "", EndReason::ProviderError);
    let stage = Stage::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options =
        ProviderOptions { retries: 0, ..ProviderOptions::new(format!("http://{nobody}/v1/responses"), 1_000_000) };
    assert_eq!(stage.turn("hi", options).ending.reason, EndReason::ProviderError);
}

#[test]
fn who_was_asked_and_hangs_up_is_not_asked_again() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    let asked = std::thread::spawn(move || {
        gone.set_nonblocking(false).unwrap();
        let (mut connection, _) = gone.accept().unwrap();
        std::io::Read::read(&mut connection, &mut [0; 4_096]).unwrap();
        drop(connection);
        gone.set_nonblocking(true).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        gone.accept().is_err()
    });
    let stage = Stage::new();
    let options = ProviderOptions {
        backoff: Duration::ZERO,
        ..ProviderOptions::new(format!("http://{address}/v1/responses"), 1_000_000)
    };
    let turned = stage.turn("hi", options);
    assert_eq!((turned.ending.reason, turned.requests), (EndReason::ProviderError, 1));
    assert!(asked.join().unwrap(), "once");
}

#[test]
fn refusals_are_ends_of_their_own() {
    let refuses = |dialect: Dialect| {
        let speech = Speech::new(dialect).text("I ");
        let speech = match dialect {
            Dialect::Responses => speech.event(json!({"type": "response.refusal.delta", "delta": "will not"})),
            Dialect::Chat => speech.event(json!({"choices": [{"delta": {"refusal": "will not"}}]})),
            Dialect::Messages => speech.event(json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}})),
        };
        vec![Script::events(speech.end(1, 1))]
    };
    check(refuses, "I ", EndReason::Refused);
}

#[test]
fn huge_events_are_kept_whole() {
    let long = "žluť ".repeat(300_000);
    let huge = |dialect| vec![Script::events(Speech::new(dialect).text(&long).end(1, 1))];
    for (_, frames) in check(huge, &long, EndReason::Completed) {
        let aside =
            events(&frames).iter().filter(|event| enjamb_core::provider::overlong_kept(event).is_some()).count();
        assert_eq!(aside, 1);
    }
}

#[test]
fn a_budget_is_kept_to_by_who_listens_and_by_who_does_not() {
    let stage = Stage::new();
    let (server, options) = provider(Dialect::Chat, vec![Script::events(hello(Dialect::Chat))]);
    let turned = stage.turn("hi", ProviderOptions { budget_tokens: 5, ..options });
    assert_eq!((turned.ending.reason, turned.requests), (EndReason::TokenBudget, 0));
    assert!(server.asked().is_empty(), "nobody was asked");
    let mut endless = Speech::new(Dialect::Chat);
    for _ in 0..300 {
        endless = endless.text("word after word ");
    }
    let endless = endless.end(1, 1);
    for script in [Script::events(endless.clone()), Script::events(endless).byte_by_byte()] {
        let (server, options) = provider(Dialect::Chat, vec![script]);
        let turned = Stage::new().turn("hi", ProviderOptions { budget_tokens: 200, ..options });
        assert_eq!(turned.ending.reason, EndReason::TokenBudget);
        assert!(turned.text.len() < 1_600, "{}", turned.text.len());
        assert!(server.asked()[0].body["max_tokens"].as_u64().unwrap() < 200);
    }
}

#[test]
fn who_calls_a_run_off_is_heard_at_once() {
    let stage = Stage::new();
    let begun = Speech::new(Dialect::Chat).text("hel").unfinished();
    let script = Script::events(hello(Dialect::Chat)).cut_at(begun.len(), Step::Pause(Duration::from_secs(20)));
    let (_server, options) = provider(Dialect::Chat, vec![script]);
    let options = ProviderOptions { idle_timeout: Duration::from_secs(60), ..options };
    let provider = Provider::new(options).unwrap();
    let cancel = AtomicBool::new(false);
    let means = Means { provider: &provider, tools: &Toolbox::none(), by: &stage.by, cancel: &cancel };
    let turn = Turn { content: "hi".into(), ..Turn::default() };
    let began = Instant::now();
    let turned = stage.store.take_turn(&stage.thread, &turn, &means, &mut |event| {
        if matches!(event, TurnEvent::Text(_)) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    let turned = turned.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!((turned.text.as_str(), turned.ending.reason), ("hel", EndReason::Cancelled));
    stage.check(&turned);
}

#[test]
fn a_cursor_is_gone_on_with_and_the_thread_stands_in_when_it_is_lost() {
    let stage = Stage::new();
    let hello = || Script::events(hello(Dialect::Responses));
    let lost = Script::refusal(400, r#"{"error":{"code":"previous_response_not_found","message":"gone"}}"#);
    let (server, options) = provider(Dialect::Responses, vec![hello(), hello(), lost, hello(), hello()]);
    let options = ProviderOptions { use_cursor: true, ..options };
    let inputs = |at: usize| server.asked()[at].body["input"].as_array().unwrap().len();
    let previous = |at: usize| server.asked()[at].body["previous_response_id"].clone();
    stage.turn("one", options.clone());
    stage.turn("two", options.clone());
    assert_eq!((inputs(1), previous(1)), (1, json!("resp_1")), "only what is new is sent");
    let turned = stage.turn("three", options.clone());
    assert_eq!((turned.ending.reason, turned.requests), (EndReason::Completed, 2));
    assert_eq!((inputs(3), previous(3)), (5, json!(null)), "all of the thread is sent");
    stage.store.rotate_cursor(&stage.thread, &crate::CursorFilter::default(), None, &stage.by).unwrap().unwrap();
    stage.turn("four", options);
    assert_eq!((inputs(4), previous(4)), (7, json!(null)), "a dropped cursor is not used");
}
