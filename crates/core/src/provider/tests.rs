//! Answers in each dialect, whole and cut at every byte; and what is no answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::frame::{Body, ProviderEvent, SessionBody};

const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\"}}\n\n",
    ": a comment\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"žlu\\u0165\"}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\ndata: \"delta\":\" k\\u016f\\u0148\"}\n\n",
    "data: {not json\n\n",
    "data: [1,2]\n\n",
    "data: {\"type\":\"of.tomorrow\",\"n\":1.50}\n\n",
    "event: lonely\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":4,",
    "\"input_tokens_details\":{\"cached_tokens\":5}}}}\n\ndata: [DONE]\n\n",
);

const CHAT: &str = concat!(
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"let me\"}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"k\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"k\",\"function\":{\"name\":\"rm\"}}]}}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
);

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"usage\":{\"input_tokens\":3}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"k\",\"name\":\"ls\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":1}\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":8}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

/// Reads an answer from pieces.
fn read<'p>(dialect: Dialect, pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Body>, Answer) {
    let mut reader = AnswerReader::new(dialect);
    let mut frames: Vec<Body> = pieces.into_iter().flat_map(|piece| reader.push(piece).frames).collect();
    frames.extend(reader.finish().frames);
    (frames, reader.into_answer())
}

fn whole(dialect: Dialect, text: &str) -> (Vec<Body>, Answer) {
    read(dialect, [text.as_bytes()])
}

fn events(frames: &[Body]) -> Vec<&ProviderEvent> {
    let event = |body: &'_ Body| matches!(body, Body::Session(SessionBody::ProviderEvent(_)));
    let all = frames.iter().filter(|body| event(body));
    all.filter_map(|body| if let Body::Session(SessionBody::ProviderEvent(event)) = body { Some(event) } else { None })
        .collect()
}

fn said(frames: &[Body]) -> String {
    let deltas = frames.iter().map(|body| match body {
        Body::Session(SessionBody::OutputTextDelta(piece)) => piece.delta.as_str(),
        _ => "",
    });
    deltas.collect()
}

#[test]
fn every_event_is_kept_and_text_follows_its_event() {
    let (frames, answer) = whole(Dialect::Responses, RESPONSES);
    let events = events(&frames);
    let statuses: Vec<&str> = events.iter().map(|event| event.status.as_str()).collect();
    assert_eq!(
        statuses,
        ["event", "event", "event", "invalid_json", "event", "event", "invalid_json", "event", "done"]
    );
    assert_eq!((events[3].raw.as_deref(), events[3].data.is_none()), (Some("{not json"), true));
    assert_eq!(events[4].errors, ["the event is JSON, but no object"]);
    assert_eq!(events[5].data.as_ref().unwrap().get(), r#"{"type":"of.tomorrow","n":1.50}"#, "as it came");
    assert_eq!((events[6].event_name.as_deref(), events[6].raw.as_deref()), (Some("lonely"), Some("")));
    assert_eq!(events[8].raw.as_deref(), Some("[DONE]"));
    let names: Vec<_> = frames.iter().map(Body::type_name).take(4).collect();
    assert_eq!(names, ["provider_event", "provider_event", "output_text_delta", "provider_event"]);
    assert_eq!((said(&frames), answer.text.as_str()), ("žluť kůň".into(), "žluť kůň"));
    let usage = Usage { input_tokens: 4, output_tokens: 4, cache_read_tokens: 5, ..Usage::default() };
    assert_eq!(
        (answer.response_id.as_deref(), answer.usage, answer.stop),
        (Some("r1"), Some(usage), Some(Stop::Completed))
    );
    assert_eq!(tokens_of(&usage), 13);
}

#[test]
fn calls_are_read_in_each_dialect_and_count_once() {
    let call = Call { call_id: "k".into(), item_id: None, name: "ls".into(), arguments: r#"{"a":1}"#.into() };
    for (dialect, text) in [(Dialect::Chat, CHAT), (Dialect::Messages, MESSAGES)] {
        let (_, answer) = whole(dialect, text);
        assert_eq!((answer.calls, answer.stop), (vec![call.clone()], Some(Stop::ToolCalls)), "{dialect:?}");
    }
    let item = json!({"type": "function_call", "id": "i", "call_id": "k", "name": "ls", "arguments": "{\"a\":1}"});
    let done = json!({"type": "response.output_item.done", "item": item});
    let over = json!({"type": "response.completed", "response": {"output": [item, {"type": "reasoning"}]}});
    let (_, answer) = whole(Dialect::Responses, &format!("data: {done}\n\ndata: {done}\n\ndata: {over}\n\n"));
    let call = Call { item_id: Some("i".into()), ..call };
    assert_eq!((answer.calls, answer.stop), (vec![call], Some(Stop::ToolCalls)));
}

#[test]
fn where_bytes_are_cut_makes_no_difference() {
    for (dialect, text) in [(Dialect::Responses, RESPONSES), (Dialect::Chat, CHAT), (Dialect::Messages, MESSAGES)] {
        let expected = whole(dialect, text);
        for spelled in
            [text.to_owned(), text.replace('\n', "\r\n"), text.replace('\n', "\r"), format!("\u{feff}{text}")]
        {
            assert_eq!(whole(dialect, &spelled), expected, "{dialect:?}");
            let bytes = spelled.as_bytes();
            assert_eq!(read(dialect, bytes.chunks(1)), expected, "{dialect:?}, byte by byte");
            for at in 0..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(read(dialect, [head, tail]), expected, "{dialect:?}, cut at {at}");
            }
        }
    }
}

#[test]
fn a_stream_that_ends_anywhere_keeps_what_came() {
    for at in 0..RESPONSES.len() {
        let (frames, answer) = read(Dialect::Responses, [&RESPONSES.as_bytes()[..at]]);
        assert!("žluť kůň".starts_with(&said(&frames)), "{at}");
        assert_eq!(said(&frames), answer.text);
        let is_cut = answer.stop.is_none();
        assert!(is_cut || at >= RESPONSES.find("\"response.completed\"").unwrap(), "{at}");
    }
    let (frames, _) = whole(Dialect::Chat, "data: {\"id\":1");
    assert_eq!(events(&frames)[0].errors[0], SseFault::Unfinished.as_str());
}

#[test]
fn refusals_limits_and_failures_are_ends_of_their_own() {
    let check = |dialect: Dialect, event: Value, expected: Stop| {
        let (_, answer) = whole(dialect, &format!("data: {event}\n\n"));
        assert_eq!(answer.stop, Some(expected), "{event}");
    };
    let incomplete =
        |reason: &str| json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
    check(Dialect::Responses, incomplete("max_output_tokens"), Stop::OutputLimit);
    check(Dialect::Responses, incomplete("content_filter"), Stop::Refused("the answer was filtered".into()));
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}});
    check(Dialect::Responses, failed, Stop::Failed("server_error: no".into()));
    check(Dialect::Responses, json!({"type": "error", "message": "no"}), Stop::Failed("no".into()));
    let chat = |delta: Value, reason: &str| json!({"choices": [{"delta": delta, "finish_reason": reason}]});
    check(Dialect::Chat, chat(json!({}), "length"), Stop::OutputLimit);
    check(Dialect::Chat, chat(json!({"refusal": "I will not"}), "stop"), Stop::Refused("I will not".into()));
    check(Dialect::Chat, json!({"error": {"code": 500, "message": "no"}}), Stop::Failed("500: no".into()));
    let messages = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    check(Dialect::Messages, messages("max_tokens"), Stop::OutputLimit);
    check(Dialect::Messages, messages("refusal"), Stop::Refused("the model refused".into()));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "later"}});
    check(Dialect::Messages, overloaded, Stop::Failed("overloaded_error: later".into()));
}

#[test]
fn what_does_not_fit_a_frame_is_kept_beside_it() {
    let long = "ž".repeat(2 << 20);
    let event = json!({"type": "response.output_text.delta", "delta": long}).to_string();
    let mut reader = AnswerReader::new(Dialect::Responses);
    let kept = reader.push(format!("data: {event}\n\n").as_bytes());
    assert_eq!(kept.artifacts, [event.into_bytes()]);
    assert_eq!(overlong_kept(events(&kept.frames)[0]), Some(crate::ArtifactId::of(&kept.artifacts[0])));
    assert_eq!(said(&kept.frames), long);
    let stream = crate::StreamId::new(crate::StreamKind::Session, "s").unwrap();
    kept.frames.iter().for_each(|body| drop(crate::Draft::of(&stream, body).unwrap()));
    for depth in [125, 126, 127, 128, 500] {
        let deep = format!("data: {{\"a\":{}{}}}\n\n", "[".repeat(depth), "]".repeat(depth));
        let frames = AnswerReader::new(Dialect::Chat).push(deep.as_bytes()).frames;
        frames.iter().for_each(|body| drop(crate::Draft::of(&stream, body).unwrap()));
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd_and_no_cut_matters(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200),
        cuts in prop::collection::vec(0_usize..200, 0..6),
        prefix in prop::bool::ANY,
    ) {
        let bytes = if prefix { [b"data: ", &bytes[..]].concat() } else { bytes };
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        for dialect in Dialect::ALL {
            prop_assert_eq!(read(dialect, pieces.iter().copied()), read(dialect, [&bytes[..]]));
        }
    }
}

#[test]
fn requests_say_what_was_said_and_done() {
    let call = Call { call_id: "k".into(), item_id: None, name: "ls".into(), arguments: "{}".into() };
    let outcome = ToolOutcome { call_id: "k".into(), output: "out".into(), is_error: false };
    let rounds = [Round { text: "let me".into(), calls: vec![call], outcomes: vec![outcome] }];
    let tools = [ToolSpec { name: "ls".into(), description: "lists".into(), parameters: json!({"type": "object"}) }];
    let asked = |dialect: Dialect, context: &str| -> Value {
        let request = Request {
            model: Some("m"),
            context: context.as_bytes(),
            rounds: &rounds,
            tools: &tools,
            output_tokens_max: Some(9),
            previous_response_id: None,
        };
        serde_json::from_slice(&body(dialect, &request).unwrap()).unwrap()
    };
    let responses = asked(Dialect::Responses, r#"[{"type":"message","role":"user","content":"hi"}]"#);
    let kinds: Vec<_> = responses["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["message", "message", "function_call", "function_call_output"]);
    assert_eq!(responses["input"][2]["id"], "fc_k");
    assert_eq!((&responses["stream"], &responses["max_output_tokens"]), (&json!(true), &json!(9)));
    let chat = asked(Dialect::Chat, r#"[{"role":"user","content":"hi"}]"#);
    let roles: Vec<_> = chat["messages"].as_array().unwrap().iter().map(|item| item["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    let messages = asked(Dialect::Messages, r#"{"system":[],"messages":[{"role":"user","content":"hi"}]}"#);
    assert_eq!(
        messages["messages"][1]["content"][1],
        json!({"type": "tool_use", "id": "k", "name": "ls", "input": {}})
    );
    assert_eq!(messages["tools"][0]["input_schema"], json!({"type": "object"}));
}
