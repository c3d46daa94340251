//! Answers as they look on the wire: the same members as the commands print with `--json`.

mod care;
mod compaction;
mod compile;
mod context;
mod pack;
mod run;
mod source;
mod stream;
mod sync;
mod task;
mod thread;
mod workspace;

pub use care::*;
pub use compaction::*;
pub use compile::*;
pub use context::*;
pub use pack::*;
pub use run::*;
pub use source::*;
pub use stream::*;
pub use sync::*;
pub use task::*;
pub use thread::*;
pub use workspace::*;

use enjamb_core::{Json, Timestamp};
use serde_json::Value;

/// An instant of a frame, as text.
pub fn instant(ms: u64) -> String {
    Timestamp::from_millis(ms.min(i64::MAX as u64) as i64).to_string()
}

fn parsed(json: &Json) -> Value {
    serde_json::from_str(json.get()).unwrap_or(Value::Null)
}
