//! Lets the store know of a session that was written into a runtime.

use enjamb_core::Timestamp;
use enjamb_core::frame::{Json, SourcePart, SourceRead};

use super::Resumed;
use crate::import::{path_text, stream_of};
use crate::{Actor, Result, Store};

impl Store {
    /// Lets the store know whose the file is and what it holds: what is added to it follows from the tip.
    pub(super) fn tell_planted(&self, resumed: &Resumed, lines: u64, by: &Actor) -> Result<()> {
        let path = path_text(&resumed.path);
        let artifact = self.artifact_of_file(&resumed.path)?;
        let part = SourcePart {
            commit_id: resumed.tip.to_string(),
            artifact_id: artifact.id.to_hex(),
            bytes: resumed.bytes,
            extra: Default::default(),
        };
        let modified = std::fs::metadata(&resumed.path).and_then(|meta| meta.modified()).ok();
        let modified = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let read = SourceRead {
            path: path.clone(),
            runtime: resumed.runtime.as_str().to_owned(),
            format: resumed.runtime.format().to_owned(),
            machine: None,
            agent_session_id: Some(resumed.session.clone()),
            from: 0,
            to: resumed.bytes,
            lines,
            parts: vec![part],
            tail_artifact_id: None,
            size: resumed.bytes,
            modified_us: modified.map(|since| Timestamp::from_micros(since.as_micros() as i64).as_micros()),
            records: Json::from(serde_json::json!({})),
            problems: 0,
            // They were counted where what was resumed was read.
            secrets: None,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        self.append_bodies(&stream_of(&path), &[read.into()], vec![artifact]).map(drop)
    }
}
