//! What a kept materialization is: where its bytes are, how they are checked, and what was said of them.

use enjamb_core::Digest;
use enjamb_formats::{FidelityLedger, Outcome, Tier};
use serde_json::{Value, json};

use super::CHUNK_BYTES;
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
        let chunks: String = self.chunks.iter().map(Digest::to_hex).collect();
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
        let chunks = value["chunks"].as_str()?;
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
        let chunks = chunks_in(chunks)?;
        let is_whole = chunks.len() as u64 == said.bytes.div_ceil(CHUNK_BYTES);
        is_whole.then_some(Self { data: word("data")?, chunks, said })
    }
}

/// The digests of chunks, one after the other in hex.
fn chunks_in(hex: &str) -> Option<Vec<Digest>> {
    let (each, rest) = hex.as_bytes().as_chunks::<{ Digest::HEX_LEN }>();
    rest.is_empty().then_some(())?;
    each.iter().map(|hex| Digest::from_hex(std::str::from_utf8(hex).ok()?)).collect()
}

fn row(row: &Value) -> Option<(Outcome, String, u64)> {
    let outcome = *Outcome::ALL.iter().find(|outcome| Some(outcome.as_str()) == row[0].as_str())?;
    Some((outcome, row[1].as_str()?.to_owned(), row[2].as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_if_it_names_all_chunks() {
        let said = Materialized {
            tier: Tier::Native,
            format: "generic-v1".into(),
            commits: 3,
            bytes: 2 * CHUNK_BYTES + 1,
            messages: 4,
            tokens: 5,
            ledger: None,
        };
        let chunks = [b"a", b"b", b"c"].map(|bytes| Digest::of(bytes)).to_vec();
        let entry = Entry { data: "d".into(), chunks, said };
        assert_eq!(Entry::parse(&entry.to_text()).as_ref(), Some(&entry));
        let short = Entry { chunks: entry.chunks[..2].to_vec(), ..entry };
        assert_eq!(Entry::parse(&short.to_text()), None);
    }
}
