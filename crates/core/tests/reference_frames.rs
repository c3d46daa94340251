//! Frames as another project writes them. Its files are not part of this repository; without them there is nothing to
//! check.

use std::path::PathBuf;

use enjamb_core::RawFrame;

fn reference(name: &str) -> Option<String> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/facts/reference"));
    std::fs::read_to_string(dir.join(name)).ok()
}

fn check(frames: impl Iterator<Item = String>, stream: &str) {
    for (seq, text) in frames.enumerate() {
        let frame = RawFrame::parse(text.as_str()).unwrap();
        assert_eq!((frame.seq(), frame.stream().to_string()), (seq as u64, stream.to_owned()));
        let decoded = frame.decode().unwrap();
        assert!(decoded.extra.is_empty(), "{decoded:?}");
        // Those files are older than the two members that name the stream.
        let id = &frame.stream().id;
        let named = format!("\"stream_kind\":\"{}\",\"stream_id\":\"{id}\",", frame.stream().kind.as_str());
        let rewritten = String::from_utf8(decoded.to_json()).unwrap();
        assert_eq!(rewritten.replace(&named, ""), text);
    }
}

#[test]
fn a_session_without_stream_kind() {
    let Some(text) = reference("session-without-stream-kind.sse") else { return };
    check(text.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)), "session/s1");
}

#[test]
fn a_task_from_spawning_to_exit() {
    let Some(text) = reference("task-pipes-output-exit.events.jsonl") else { return };
    check(text.lines().map(str::to_owned), "task/task_pipes_output_exit");
}
