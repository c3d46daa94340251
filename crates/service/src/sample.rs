//! A small recorded conversation that comes with the program, so that there is something to see on any machine.

/// A thread, the run that answered it, and a compaction of it: frames as JSON lines.
pub const SAMPLE_THREAD: &str = include_str!("../sample/thread.jsonl");
