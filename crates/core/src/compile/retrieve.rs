//! What was found for a message among those before: stored as an artifact, so that a replay need not search again.

use serde::{Deserialize, Serialize};

pub const RETRIEVAL_SCHEMA: &str = "enjamb.retrieval_results.v1";
/// How an item says that it refers to such results.
pub const RETRIEVAL_MIME: &str = "application/vnd.enjamb.retrieval+json";
/// Messages that a context refers to because they are like the one answered.
pub const RETRIEVED_MAX: usize = 8;
const EXCERPT_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrievalResults {
    pub schema: String,
    pub query: String,
    /// The ranking, by its id.
    pub strategy_id: String,
    pub results: Vec<Retrieved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrieved {
    pub thread_id: String,
    pub seq: u64,
    pub message_id: String,
    pub actor_id: String,
    pub milli_score: u64,
    pub excerpt: String,
}

impl RetrievalResults {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are always written")
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|results: &Self| results.schema == RETRIEVAL_SCHEMA)
    }

    /// The results as a model reads them, in the order in which they were said.
    pub fn text(&self) -> String {
        let mut results: Vec<&Retrieved> = self.results.iter().collect();
        results.sort_by_key(|result| result.seq);
        let lines =
            results.iter().map(|result| format!("- {} ({}): {}\n", result.actor_id, result.seq, result.excerpt));
        format!("Earlier messages like the last one:\n{}", lines.collect::<String>())
    }
}

/// The beginning of a message, on one line.
pub fn excerpt(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(EXCERPT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back_and_told_in_order() {
        let result = |seq: u64, text: &str| Retrieved {
            thread_id: "t".into(),
            seq,
            message_id: format!("m{seq}"),
            actor_id: "bob".into(),
            milli_score: 1_500,
            excerpt: excerpt(text),
        };
        let results = RetrievalResults {
            schema: RETRIEVAL_SCHEMA.into(),
            query: "retry".into(),
            strategy_id: "lexical_bm25_v1".into(),
            results: vec![result(9, "retry\n twice"), result(3, "retry")],
        };
        assert_eq!(RetrievalResults::parse(&results.to_bytes()), Some(results.clone()));
        assert_eq!(results.text(), "Earlier messages like the last one:\n- bob (3): retry\n- bob (9): retry twice\n");
        assert_eq!(RetrievalResults::parse(b"{}"), None);
        assert_eq!(excerpt(&"x".repeat(300)).len(), 200);
    }
}
