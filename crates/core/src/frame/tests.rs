//! Laws and examples of reading and writing frames.

use proptest::prelude::*;

use super::examples::{EXAMPLES, HEX, written};
use super::*;
use crate::{ArtifactId, ErrorKind, limits};

fn raw(text: &str) -> RawFrame {
    RawFrame::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn again(text: &str) -> String {
    String::from_utf8(raw(text).decode().unwrap_or_else(|error| panic!("{text}: {error}")).to_json()).unwrap()
}

#[test]
fn every_type_is_written_as_it_was_read() {
    for (kind, type_name, payload) in EXAMPLES {
        let text = written(kind, type_name, payload);
        assert_eq!(again(&text), text);
        assert_eq!(raw(&text).decode().unwrap().extra, [], "{type_name}");
        assert_eq!(Frame::parse(text.as_bytes()), raw(&text).decode(), "{type_name}");
    }
}

#[test]
fn every_type_has_an_example_and_its_family_is_told_by_its_prefix() {
    let families = [
        (SessionBody::TYPES, StreamKind::Session),
        (TaskBody::TYPES, StreamKind::Task),
        (ContinuityBody::TYPES, StreamKind::Continuity),
        (ArtifactBody::TYPES, StreamKind::Artifact),
        (ContextBody::TYPES, StreamKind::Context),
        (SourceBody::TYPES, StreamKind::Source),
    ];
    for (types, kind) in families {
        for type_name in types {
            assert!(EXAMPLES.iter().any(|example| example.1 == *type_name), "{type_name}");
            assert_eq!(Body::kind_by_prefix(type_name), kind, "{type_name}");
        }
    }
}

#[test]
fn a_missing_member_is_named_or_read_as_nothing() {
    for (kind, type_name, payload) in EXAMPLES {
        let text = written(kind, type_name, payload).replace("1e400", "1");
        let whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        for key in whole.keys().filter(|key| !envelope::is_envelope_key(key)) {
            let mut less = whole.clone();
            less.remove(key);
            match raw(&serde_json::to_string(&less).unwrap()).decode() {
                Ok(frame) => assert_reads_as_nothing(&frame, key),
                Err(error) => {
                    let says = format!("member {key} of {type_name} is missing: expected ");
                    assert!(error.to_string().starts_with(&says), "{error}");
                }
            }
        }
    }
}

fn assert_reads_as_nothing(frame: &Frame, key: &str) {
    let written: serde_json::Value = serde_json::from_slice(&frame.to_json()).unwrap();
    let value = &written[key];
    assert!(value.is_null() || value == "", "{key} of {} is {value}", frame.body.type_name());
}

fn check_again(kind: &str, type_name: &str, given: &str, expected_type: &str, expected: &str) {
    assert_eq!(again(&written(kind, type_name, given)), written(kind, expected_type, expected));
}

#[test]
fn absent_and_null_are_read_alike_and_each_is_written_in_its_style() {
    let kind = "continuity";
    check_again(
        kind,
        "continuity_provider_cursor_updated",
        r#""provider":"p","endpoint":null,"action":"x","actor_id":"a","origin":"o""#,
        "continuity_provider_cursor_updated",
        r#""provider":"p","cursor":null,"action":"x","actor_id":"a","origin":"o""#,
    );
    check_again(
        kind,
        "continuity_created",
        r#""workspace":"w""#,
        "continuity_created",
        r#""workspace":"w","title":null"#,
    );
}

#[test]
fn old_names_are_read() {
    let check = |given_type, given, expected_type, expected| {
        check_again("session", given_type, given, expected_type, expected);
    };
    check("session_started", r#""prompt":"hi""#, "session_started", r#""input":"hi""#);
    check("session_started", r#""reason":1"#, "session_started", r#""input":"","reason":1"#);
    check("output", r#""content":"hi""#, "output_text_delta", r#""delta":"hi""#);
    check("output_text_delta", r#""delta":"b","content":"a""#, "output_text_delta", r#""delta":"b","content":"a""#);
}

#[test]
fn what_is_not_known_survives() {
    let payload = r#""b":1.0,"a":{"z":[1,  2],"y":"\u00e9"},"b":-0"#;
    check_again("wild", "dreamt", payload, "dreamt", payload);
    check_again("session", "session_ended", r#""new":1e5,"reason":"r""#, "session_ended", r#""reason":"r","new":1e5"#);
    check_again(
        "task",
        "tool_task_resized",
        r#""task_id":"x1","rows":1,"cols":2,"type2":null"#,
        "tool_task_resized",
        r#""task_id":"x1","rows":1,"cols":2,"type2":null"#,
    );
}

#[test]
fn of_a_member_given_twice_the_last_counts() {
    check_again("session", "session_ended", r#""reason":"a","reason":"b""#, "session_ended", r#""reason":"b""#);
    let raw = |payload: &str| {
        let envelope = r#""id":"i","session_id":"s","timestamp_ms":0,"seq":0,"type":"dreamt""#;
        RawFrame::parse(format!("{{{envelope},{payload}}}")).unwrap()
    };
    assert_eq!(raw(r#""z":1,"a":1,"\u007a":2,"a":1,"a":3"#).repeated_members(), ["a", "z"]);
    assert_eq!(raw(r#""a":{"b":1,"b":2}"#).repeated_members(), Vec::<String>::new());
}

#[test]
fn values_made_here_have_sorted_keys() {
    let args = Json::from(serde_json::json!({"z": 1, "a": {"y": 1, "b": 2}}));
    assert_eq!(args.get(), r#"{"a":{"b":2,"y":1},"z":1}"#);
}

#[test]
fn a_stream_is_known_by_its_id_and_by_the_kind_of_its_type() {
    for (envelope, stream) in [
        (r#""session_id":"s","type":"session_started""#, "session/s"),
        (r#""stream_id":"s","type":"continuity_context_compiled""#, "continuity/s"),
        (r#""stream_id":"s","session_id":"s","type":"tool_task_spawned""#, "task/s"),
        (r#""stream_id":"s","type":"artifact_tagged""#, "artifact/s"),
        (r#""stream_id":"s","type":"context_noted""#, "context/s"),
        (r#""stream_id":"s","type":"tool_tasks""#, "session/s"),
        (r#""stream_id":"s","type":"continuity_dreamt","stream_kind":"wild""#, "wild/s"),
    ] {
        let text = format!(r#"{{"id":"e","timestamp_ms":1,"seq":2,{envelope}}}"#);
        assert_eq!(raw(&text).stream().to_string(), stream);
        assert_eq!(raw(&text).bytes(), text.as_bytes());
    }
}

fn check_error(bytes: impl Into<Vec<u8>>, code: &str, says: &str) {
    let bytes = bytes.into();
    let error = RawFrame::parse(bytes.clone()).unwrap_err();
    assert_eq!(Frame::parse(&bytes).unwrap_err().to_string(), error.to_string());
    assert_eq!((error.code(), error.kind()), (code, ErrorKind::Invalid), "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn faults_of_the_envelope_name_the_field_and_what_was_expected() {
    let with = |members: &str| format!(r#"{{"id":"e","session_id":"s","type":"t",{members}}}"#);
    for literal in ["1.0", "1e3", "\"1\"", "-1", "18446744073709551616", "null", "[]", "-0"] {
        check_error(
            with(&format!(r#""seq":{literal},"timestamp_ms":1"#)),
            "bad-field",
            &format!("seq is {literal}: expected an"),
        );
    }
    check_error(with(r#""seq":0"#), "missing-field", "timestamp_ms is missing: expected an unsigned");
    check_error(with(r#""seq":0,"timestamp_ms":0,"seq":0"#), "duplicate-key", "seq is given twice");
    check_error(with(r#""\u0073eq":0,"timestamp_ms":0,"seq":0"#), "duplicate-key", "seq is given twice");
    check_error(
        with(r#""stream_id":"z","seq":0,"timestamp_ms":1"#),
        "stream-mismatch",
        r#"session_id "s" and stream_id "z""#,
    );
    check_error(with(r#""stream_kind":"a/b","seq":0,"timestamp_ms":1"#), "bad-stream", "slash");
    check_error(r#"{"id":7,"session_id":"s","type":"t"}"#, "bad-field", "id is 7: expected a string");
    check_error(r#"{"id":"","session_id":"s","type":"t"}"#, "bad-field", "id is \"\": expected a string");
    check_error(r#"{"id":"e","timestamp_ms":0,"seq":0,"type":"t"}"#, "missing-field", "session_id is missing");
    check_error(r#"{"id":"e","session_id":"s","timestamp_ms":0,"seq":0}"#, "missing-field", "type is missing");
    check_error(written("task", "session_started", r#""input":"""#), "stream-mismatch", "expected \"session\"");
    check_error(written("session", "context_noted", r#""x":0"#), "stream-mismatch", "context_noted live");
}

#[test]
fn what_is_not_json_says_where() {
    check_error("", "invalid-json", "line 1, column 0");
    check_error("[]", "invalid-json", "expected a JSON object");
    check_error("{\"id\":\n nul}", "invalid-json", "line 2");
    check_error(written("session", "a", r#""x":1"#) + " x", "invalid-json", "trailing characters");
    check_error(b"{\"id\":\"\xff\"}", "invalid-utf8", "byte 7");
    check_error(written("session", "a", "\"x\":\"\u{1}\""), "invalid-json", "control character");
}

#[test]
fn limits_are_met_exactly() {
    let sized = |bytes: usize| {
        let empty = written("session", "a", r#""x":"""#).len();
        written("session", "a", &format!(r#""x":"{}""#, "y".repeat(bytes - empty)))
    };
    raw(&sized(limits::FRAME_BYTES_MAX));
    check_error(sized(limits::FRAME_BYTES_MAX + 1), "frame-too-large", "1048577 bytes: expected at most 1048576");

    let nested = |levels: usize| {
        let inside = levels - 1;
        written("session", "a", &format!(r#""q":"\"[[[","p":"\\","x":{}{}"#, "[".repeat(inside), "]".repeat(inside)))
    };
    raw(&nested(limits::JSON_DEPTH_MAX));
    check_error(nested(limits::JSON_DEPTH_MAX + 1), "too-deep", "at most 128 levels");
    check_error("[".repeat(limits::FRAME_BYTES_MAX), "too-deep", "at byte 128");
    raw(&written("session", "a", &format!(r#""x":"{}","y":[{}[]]"#, "[".repeat(500), "[],".repeat(500))));
}

#[test]
fn faults_of_a_payload_are_found_by_decoding_alone() {
    for (payload, says) in [
        (r#""tool_id":"t""#, "member name of tool_started is missing: expected a string"),
        (r#""tool_id":5"#, "member tool_id of tool_started is wrong: invalid type: integer `5`, expected a string"),
        (r#""tool_id":"t","name":"n""#, "member args of tool_started is missing: expected a JSON value"),
        (r#""tool_id":"t","name":"n","args":1,"timeout_ms":-1"#, "member timeout_ms of tool_started is wrong"),
        (r#""tool_id":"\ud800""#, "member tool_id of tool_started is wrong"),
    ] {
        let error = raw(&written("session", "tool_started", payload)).decode().unwrap_err();
        assert_eq!(error.code(), "bad-member");
        assert!(error.to_string().starts_with(says), "{error}");
    }
    let planned = r#""decision_id":"d","policy_id":"p","decision":"x","execute":true,"stride_messages":1,"max_new_checkpoints":1,"block_on_inflight":true,"message_count":1,"cut_rule_id":"c","planned":[{"to_seq":"4"}]"#;
    let frame = raw(&written("continuity", "continuity_compaction_auto_schedule_decided", planned));
    assert!(frame.decode().unwrap_err().to_string().contains("member planned"), "{:?}", frame.decode());
}

fn check_draft(draft: &str, expected: Result<&str, &str>) {
    let stream = "session/s".parse().unwrap();
    let with = Completion { stream: &stream, id: "new", seq: 3, timestamp_ms: 70 };
    let result = Draft::parse(draft).and_then(|draft| draft.complete(with)).map(|whole| whole.raw);
    match (result, expected) {
        (Ok(frame), Ok(text)) => assert_eq!(frame.text(), text),
        (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{error}"),
        (result, _) => panic!("{draft}: {result:?}"),
    }
}

#[test]
fn drafts_are_filled_where_something_is_missing() {
    check_draft(
        r#"{ "b" : 1.0, "type":"dreamt", "a": "\u00e9" }"#,
        Ok(
            r#"{"id":"new","session_id":"s","stream_kind":"session","stream_id":"s","timestamp_ms":70,"seq":3,"type":"dreamt","b":1.0,"a":"\u00e9"}"#,
        ),
    );
    check_draft(
        r#"{"type":"t","seq":3,"id":"mine","timestamp_ms":1,"x":[ 1 ]}"#,
        Ok(
            r#"{"id":"mine","session_id":"s","stream_kind":"session","stream_id":"s","timestamp_ms":1,"seq":3,"type":"t","x":[ 1 ]}"#,
        ),
    );
}

#[test]
fn whole_drafts_stay_as_they_are() {
    for whole in [
        r#"{"x":1, "type":"dreamt","seq":3,"id":"mine","timestamp_ms":1,"session_id":"s"}"#,
        r#"{"id":"e","session_id":"s","stream_kind":"session","stream_id":"s","timestamp_ms":1,"seq":3,"type":"session_started","prompt":"x"} "#,
    ] {
        check_draft(whole, Ok(whole));
    }
}

#[test]
fn a_kind_that_only_follows_from_a_prefix_is_filled_in() {
    check_draft(
        r#"{"type":"continuity_dreamt","seq":3,"id":"mine","timestamp_ms":1,"session_id":"s"}"#,
        Ok(
            r#"{"id":"mine","session_id":"s","stream_kind":"session","stream_id":"s","timestamp_ms":1,"seq":3,"type":"continuity_dreamt"}"#,
        ),
    );
}

#[test]
fn drafts_that_contradict_the_stream_are_refused() {
    check_draft(r#"{"type":"t","seq":4}"#, Err("seq is 4: expected 3, the next of stream session/s"));
    check_draft(r#"{"type":"t","stream_id":"z"}"#, Err("stream session/z: expected session/s"));
    check_draft(r#"{"type":"t","stream_kind":"task"}"#, Err("stream task/s: expected session/s"));
    check_draft(r#"{"type":"context_noted"}"#, Err("expected \"context\""));
    check_draft(r#"{"type":"t","stream_id":"a\nb"}"#, Err("control character"));
    check_draft(r#"{"seq":3}"#, Err("type is missing"));
    let large = format!(r#"{{"type":"t","x":"{}"}}"#, "y".repeat(limits::FRAME_BYTES_MAX - 20));
    check_draft(&large, Err("expected at most"));
}

#[test]
fn a_body_becomes_a_draft_and_a_frame() {
    let stream: StreamId = "continuity/main".parse().unwrap();
    let body = Body::from(MessageAppended { actor_id: "a".into(), origin: "cli".into(), content: "hi".into() });
    let draft = Draft::of(&stream, &body).unwrap();
    assert_eq!((draft.stream(), draft.seq()), (Some(stream.clone()), None));
    let frame = draft.complete(Completion { stream: &stream, id: "m1", seq: 0, timestamp_ms: 5 }).unwrap().raw;
    let decoded = Frame { id: "m1".into(), stream, timestamp_ms: 5, seq: 0, body, extra: vec![] };
    assert_eq!(frame.decode().unwrap(), decoded);
    assert_eq!(decoded.into_raw().unwrap(), frame);
}

fn check_mentions(text: &str, expected: &[&str]) {
    let found: Vec<String> = artifact_mentions(text.as_bytes()).iter().map(ArtifactId::to_hex).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn mentions_are_runs_of_exactly_sixty_four_digits() {
    let other = "f".repeat(64);
    check_mentions(&format!(r#"{{"a":"{HEX}","b":["art-{other}","{HEX}"]}}"#), &[HEX, &other]);
    check_mentions(HEX, &[HEX]);
    check_mentions(&format!("{HEX}0 0{HEX} {}", &HEX[1..]), &[]);
    check_mentions(&format!("{} {}", HEX.to_uppercase(), &HEX[..63]), &[]);
    check_mentions(&format!("{}{HEX}{}{other}", "x".repeat(40), "y".repeat(77)), &[HEX, &other]);
}

#[test]
fn escapes_before_a_mention_do_not_hide_it() {
    for escape in ["\\b", "\\f", "\\n", "\\u00e9", "\\u00E9", "\\u0007", "\\\\"] {
        check_mentions(&format!("\"x{escape}{HEX}\""), &[HEX]);
    }
    check_mentions(&format!("\"xb{HEX}\""), &[]);
}

/// Members as they may come: shuffled, with others in between, some of them odd.
fn any_frame() -> impl Strategy<Value = String> {
    let odd = prop::collection::vec(("[a-z]{1,3}", "\\PC*", any::<f64>()), 0..4);
    (0..EXAMPLES.len(), odd, any::<u64>(), any::<u64>()).prop_map(|(index, odd, seq, shift)| {
        let (kind, type_name, payload) = EXAMPLES[index];
        let text = written(kind, type_name, payload).replace("\"seq\":0", &format!("\"seq\":{seq}"));
        let whole: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&text.replace("1e400", "1")).unwrap();
        let mut members: Vec<String> = whole.iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect();
        members.extend(odd.into_iter().map(|(key, text, number)| {
            format!(
                "{}:[{},{}]",
                serde_json::json!(format!("_{key}")),
                serde_json::json!(text),
                serde_json::json!(number)
            )
        }));
        let shift = shift as usize % members.len();
        members.rotate_left(shift);
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = RawFrame::parse(bytes.as_slice()).map(|frame| frame.decode());
        let _ = Draft::parse(bytes.as_slice());
        let _ = artifact_mentions(&bytes);
    }

    #[test]
    fn nothing_like_a_frame_makes_the_reader_panic(text in any_frame(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = RawFrame::parse(bytes.as_slice()).map(|frame| (frame.decode(), crate::marks(&frame)));
        let _ = Draft::parse(bytes);
    }

    #[test]
    fn decoding_and_writing_come_to_rest(text in any_frame()) {
        let first = raw(&text).decode().unwrap();
        let written = first.to_json();
        let second = RawFrame::parse(written.as_slice()).unwrap().decode().unwrap();
        prop_assert_eq!(&second, &first);
        prop_assert_eq!(second.to_json(), written);
    }

    #[test]
    fn mentions_agree_with_a_search_at_every_place(text in "([0-9a-f]{60,66}|[gx\"A]|art-){0,8}") {
        let bytes = text.as_bytes();
        let hex = |at: usize| bytes.get(at).is_some_and(|byte| crate::digest::nibble(*byte).is_some());
        let starts = (0..bytes.len()).filter(|at| *at == 0 || !hex(at - 1));
        let mut naive: Vec<&str> = Vec::new();
        for start in starts.filter(|start| (0..64).all(|digit| hex(start + digit)) && !hex(start + 64)) {
            let found = &text[start..start + 64];
            if !naive.contains(&found) {
                naive.push(found);
            }
        }
        check_mentions(&text, &naive);
    }
}
