//! Searching a thread for what is like the message answered, and recording what was found.

use enjamb_core::compile::{
    Choice, RECENT_MESSAGES_LIMIT, RETRIEVAL_SCHEMA, RETRIEVED_MAX, RetrievalResults, Retrieved, excerpt,
};
use enjamb_core::frame::{Body, ContinuityBody, RetrievalDecided};
use enjamb_core::lexicon::{Evidence, LEXICAL, Ranking, terms};
use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::{Ledger, LedgerError};

use crate::timeline::MessageAt;
use crate::{Result, Store};

/// Words of a message that are searched for.
const QUERY_WORDS_MAX: usize = 32;
/// Messages that are looked at for one word, the last first.
const POSTINGS_MAX: usize = 10_000;

impl Store {
    /// What was said before the last messages and is like the message answered.
    pub(super) fn retrieve(
        &self,
        thread: &StreamId,
        anchor: &MessageAt,
        from_seq: u64,
        choice: &Choice,
    ) -> Result<RetrievalResults> {
        let window = self.messages_back(thread, choice.after_seq(), from_seq, RECENT_MESSAGES_LIMIT)?;
        let first = window.last().map_or(anchor.seq, |message| message.seq);
        let query = self.message_content(thread, anchor.seq)?.1;
        self.search_with(LEXICAL, thread, &query, first)
    }

    /// Ranks a thread's messages before a seq.
    fn search_with(&self, ranking: Ranking, thread: &StreamId, query: &str, before: u64) -> Result<RetrievalResults> {
        let mut evidence = Evidence { messages: self.thread_summary(thread)?.messages, ..Evidence::default() };
        if let Some(upto) = before.checked_sub(1) {
            for (word, _) in terms(query).iter().take(QUERY_WORDS_MAX) {
                evidence.postings.push(self.ledger.postings(thread, word, upto, POSTINGS_MAX)?);
            }
        }
        let mut results = Vec::new();
        for ranked in (ranking.rank)(&evidence).into_iter().take(RETRIEVED_MAX) {
            let ((message_id, actor_id), content) = self.message_content(thread, ranked.seq)?;
            let (thread_id, seq, milli_score) = (thread.id.clone(), ranked.seq, ranked.milli_score);
            results.push(Retrieved { thread_id, seq, message_id, actor_id, milli_score, excerpt: excerpt(&content) });
        }
        let (schema, query, strategy_id) = (RETRIEVAL_SCHEMA.into(), excerpt(query), ranking.id.into());
        Ok(RetrievalResults { schema, query, strategy_id, results })
    }

    /// The id, the actor and the words of the message at a seq.
    fn message_content(&self, thread: &StreamId, seq: u64) -> Result<((String, String), String)> {
        let frame = self.frame_at(thread, seq)?;
        match frame.body {
            Body::Continuity(ContinuityBody::MessageAppended(said)) => Ok(((frame.id, said.actor_id), said.content)),
            _ => Err(LedgerError::corrupt(format!("frame {seq} of {thread}"), "it is no message").into()),
        }
    }
}

/// That a search was made for a run, and where its results are. The index is derived from the thread itself.
pub(super) fn retrieval_decided(
    run: &str,
    message: &str,
    results: &RetrievalResults,
    artifact: ArtifactId,
    (actor_id, origin): (String, String),
) -> Body {
    RetrievalDecided {
        run_session_id: run.to_owned(),
        message_id: message.to_owned(),
        query: results.query.clone(),
        strategy_id: results.strategy_id.clone(),
        index_artifact_ids: Vec::new(),
        results_artifact_id: artifact.to_hex(),
        actor_id,
        origin,
    }
    .into()
}
