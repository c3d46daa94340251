//! The compaction summary: words that stand for the messages of a thread up to a cut.

use serde::{Deserialize, Serialize};

use super::CUMULATIVE;

pub const SUMMARY_SCHEMA: &str = "rip.compaction_summary.v1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub schema: String,
    pub kind: String,
    pub coverage: Coverage,
    pub provenance: SummaryProvenance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    pub summary_markdown: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    pub thread_id: String,
    pub from_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_message_id: Option<String>,
    pub to_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_message_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryProvenance {
    pub actor_id: String,
    pub origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_by: Option<ProducedBy>,
}

/// Who wrote a summary: a `job`, a `task`, a `session`, or by hand (`manual`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducedBy {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

/// What a summary was made from, besides messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_summary_artifact_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Basis {
    /// A basis that says something, or none.
    pub fn of(base_summary_artifact_id: Option<String>, note: Option<String>) -> Option<Self> {
        (base_summary_artifact_id.is_some() || note.is_some()).then_some(Self { base_summary_artifact_id, note })
    }
}

impl Summary {
    /// A summary of a thread from its beginning up to a message.
    pub fn cumulative(
        thread_id: &str,
        (to_seq, to_message_id): (u64, String),
        provenance: SummaryProvenance,
        basis: Option<Basis>,
        summary_markdown: String,
    ) -> Self {
        let coverage = Coverage {
            thread_id: thread_id.to_owned(),
            from_seq: 0,
            from_message_id: None,
            to_seq,
            to_message_id: Some(to_message_id),
        };
        Self { schema: SUMMARY_SCHEMA.into(), kind: CUMULATIVE.into(), coverage, provenance, basis, summary_markdown }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are always written")
    }

    /// Reads a summary; the error says what it is instead.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let summary: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if summary.schema != SUMMARY_SCHEMA {
            return Err(format!("its schema is {:?}: expected {SUMMARY_SCHEMA}", summary.schema));
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out() {
        let text = r#"{"schema":"rip.compaction_summary.v1","kind":"cumulative_v1","coverage":{"thread_id":"t","from_seq":0,"to_seq":4},"provenance":{"actor_id":"a","origin":"cli"},"summary_markdown":"so"}"#;
        let summary = Summary::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(summary.to_bytes()).unwrap(), text);
        let nulls = text.replace("\"from_seq\":0", "\"from_seq\":0,\"from_message_id\":null,\"to_message_id\":null");
        assert_eq!(Summary::parse(nulls.as_bytes()), Ok(summary));
        assert!(Summary::parse(text.replace("summary.v1", "summary.v2").as_bytes()).unwrap_err().contains("expected"));
        assert_eq!(Basis::of(None, None), None);
    }
}
