//! Whether a pack is what it says.

use super::{Algorithm, Message, Pack, PackError, canonical, count_sets, sources_hash};

/// One thing in a pack that is not what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable word for programs.
    pub code: &'static str,
    pub detail: String,
}

impl Pack {
    /// Everything that does not match; nothing when the pack is whole.
    pub fn verify(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |code, detail| findings.push(Finding { code, detail });
        let hash = self.hash();
        if self.session_hash != hash {
            find("pack-hash-mismatch", format!("sessionHash is {}, the content's is {hash}", self.session_hash));
        }
        let (messages, sets) = (self.messages.len() as u64, count_sets(&self.messages));
        if self.message_count != messages {
            find("message-count", format!("messageCount is {}, there are {messages}", self.message_count));
        }
        if self.sources_count != sets {
            find("sources-count", format!("sourcesCount is {}, there are {sets} sets of sources", self.sources_count));
        }
        for pair in self.messages.windows(2).filter(|pair| pair[0].seq >= pair[1].seq) {
            find("message-order", format!("message {} comes after message {}", pair[1].seq, pair[0].seq));
        }
        findings.extend(self.messages.iter().filter_map(Message::verify));
        findings
    }

    /// Refuses a pack that is not whole.
    pub fn check(&self) -> Result<(), PackError> {
        match self.verify().first() {
            None => Ok(()),
            Some(first) => Err(PackError::Mismatch { session: self.session.id.clone(), detail: first.detail.clone() }),
        }
    }
}

impl Message {
    fn verify(&self) -> Option<Finding> {
        let seq = self.seq;
        let told = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "null".to_owned());
        let hash = sources_hash(&canonical(self.sources.clone(), Algorithm::Compat));
        if self.sources_hash == hash {
            return None;
        }
        if self.sources_hash == sources_hash(&self.sources) {
            let detail = format!("message {seq} lists its sources out of order or twice");
            return Some(Finding { code: "sources-not-canonical", detail });
        }
        let given = told(&self.sources_hash);
        let detail = format!("used_sources_hash of message {seq} is {given}, its sources' is {}", told(&hash));
        Some(Finding { code: "sources-hash-mismatch", detail })
    }
}
