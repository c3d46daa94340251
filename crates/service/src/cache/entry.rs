//! What a kept materialization is: where its bytes are, how they are checked, and what was said of them.

use enjamb_core::Digest;
use enjamb_formats::{FidelityLedger, Outcome, Tier};
use serde_json::{Value, json};

use crate::Materialized;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The name of the file of bytes, of which the first `said.bytes` are meant.
    pub(super) data: String,
    /// Of each chunk; the last may be shorter than the others.
    pub(super) chunks: Vec<Digest>,
    pub(crate) said: Materialized,
}

impl Entry {
    /// A line with the digest of what follows, then JSON.
    pub(super) fn to_text(&self) -> String {
        let chunks: Vec<String> = self.chunks.iter().map(Digest::to_hex).collect();
        let rows = |ledger: &FidelityLedger| -> Vec<Value> {
            ledger.rows().map(|(outcome, reason, blocks)| json!([outcome.as_str(), reason, blocks])).collect()
        };
        let said = &self.said;
        let text = json!({
            "data": self.data, "chunks": chunks, "tier": said.tier.as_str(), "format": said.format,
            "commits": said.commits, "bytes": said.bytes, "messages": said.messages, "tokens": said.tokens,
            "ledger": said.ledger.as_ref().map(rows),
        })
        .to_string();
        format!("{}\n{text}", Digest::of(text.as_bytes()))
    }

    /// The entry, if the text is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (digest, text) = text.split_once('\n')?;
        if Digest::from_hex(digest)? != Digest::of(text.as_bytes()) {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |name: &str| value[name].as_u64();
        let word = |name: &str| value[name].as_str().map(str::to_owned);
        let chunks = value["chunks"].as_array()?.iter().map(|chunk| Digest::from_hex(chunk.as_str()?));
        let ledger = match value["ledger"].as_array() {
            Some(rows) => Some(FidelityLedger::from_rows(rows.iter().map(row).collect::<Option<Vec<_>>>()?)),
            None => None,
        };
        let said = Materialized {
            tier: *Tier::ALL.iter().find(|tier| Some(tier.as_str()) == value["tier"].as_str())?,
            format: word("format")?,
            commits: number("commits")?,
            bytes: number("bytes")?,
            messages: number("messages")?,
            tokens: number("tokens")?,
            ledger,
        };
        Some(Self { data: word("data")?, chunks: chunks.collect::<Option<_>>()?, said })
    }
}

fn row(row: &Value) -> Option<(Outcome, String, u64)> {
    let outcome = *Outcome::ALL.iter().find(|outcome| Some(outcome.as_str()) == row[0].as_str())?;
    Some((outcome, row[1].as_str()?.to_owned(), row[2].as_u64()?))
}
