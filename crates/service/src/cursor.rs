//! Provider cursors: where a provider's own conversation stands. A cache that may be dropped at any time, told in frames.

use enjamb_core::StreamId;
use enjamb_core::frame::{Body, ContinuityBody, Json, ProviderCursorUpdated};
use enjamb_core::order::MarkKey;
use enjamb_ledger::Ledger;
use serde_json::Value;

use crate::timeline::in_stream;
use crate::{Actor, Result, Store};

/// Cursors that one answer lists.
const CURSORS_MAX: usize = 32;

/// The last that was said of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorView {
    pub seq: u64,
    pub update: ProviderCursorUpdated,
}

/// Which cursors are meant; what is not given fits any.
#[derive(Clone, Debug, Default)]
pub struct CursorFilter {
    pub provider: Option<String>,
    pub endpoint: Option<String>,
    pub model: Option<String>,
}

impl CursorFilter {
    fn fits(&self, update: &ProviderCursorUpdated) -> bool {
        self.provider.as_ref().is_none_or(|provider| *provider == update.provider)
            && self.endpoint.as_ref().is_none_or(|endpoint| Some(endpoint) == update.endpoint.as_ref())
            && self.model.as_ref().is_none_or(|model| Some(model) == update.model.as_ref())
    }
}

impl Store {
    /// The cursors of a thread, by provider, endpoint and model; and which was spoken of last.
    pub fn cursors(&self, thread: &StreamId) -> Result<(Vec<CursorView>, Option<CursorView>)> {
        let mut all = self.all_cursors(thread)?;
        let active = all.iter().max_by_key(|cursor| cursor.seq).cloned();
        all.truncate(CURSORS_MAX);
        Ok((all, active))
    }

    fn all_cursors(&self, thread: &StreamId) -> Result<Vec<CursorView>> {
        self.thread_summary(thread)?;
        let mut all = Vec::new();
        for (_, seq) in self.ledger.marks(&in_stream(thread), &MarkKey::Cursor(String::new()))? {
            let Ok(seq) = seq.parse() else { continue };
            if let ContinuityBody::ProviderCursorUpdated(update) = self.said_at(thread, seq)? {
                all.push(CursorView { seq, update });
            }
        }
        all.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(all)
    }

    /// Says where a provider's conversation stands, for a run or for none.
    pub fn set_cursor(
        &self,
        thread: &StreamId,
        key: CursorFilter,
        cursor: Value,
        run: Option<String>,
        by: &Actor,
    ) -> Result<CursorView> {
        self.thread_summary(thread)?;
        let update = ProviderCursorUpdated {
            provider: key.provider.unwrap_or_else(|| "openresponses".into()),
            endpoint: key.endpoint,
            model: key.model,
            cursor: Some(Json::from(cursor)),
            action: "set".into(),
            reason: run.as_ref().map(|_| "run_completed".into()),
            run_session_id: run,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        self.record_cursor(thread, update)
    }

    /// Drops the cursor that was spoken of last among those that fit. `None` when none does, and nothing is written.
    pub fn rotate_cursor(
        &self,
        thread: &StreamId,
        filter: &CursorFilter,
        reason: Option<String>,
        by: &Actor,
    ) -> Result<Option<CursorView>> {
        if let Some(frame) = self.earlier(thread)?
            && let Body::Continuity(ContinuityBody::ProviderCursorUpdated(update)) = frame.body
        {
            return Ok(Some(CursorView { seq: frame.seq, update }));
        }
        let fitting = self.all_cursors(thread)?.into_iter().filter(|cursor| filter.fits(&cursor.update));
        let Some(last) = fitting.max_by_key(|cursor| cursor.seq) else { return Ok(None) };
        let update = ProviderCursorUpdated {
            cursor: None,
            action: "rotated".into(),
            reason,
            run_session_id: None,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
            ..last.update
        };
        self.record_cursor(thread, update).map(Some)
    }

    fn record_cursor(&self, thread: &StreamId, update: ProviderCursorUpdated) -> Result<CursorView> {
        let appended = self.append_bodies(thread, &[update.clone().into()], Vec::new())?;
        Ok(CursorView { seq: appended.frames[0].seq, update })
    }
}

fn key(cursor: &CursorView) -> (&str, Option<&str>, Option<&str>) {
    (&cursor.update.provider, cursor.update.endpoint.as_deref(), cursor.update.model.as_deref())
}
