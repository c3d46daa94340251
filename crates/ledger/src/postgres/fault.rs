//! What the server, or the way to it, says when something fails, sorted by what is to be done.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::address::causes;
use crate::error::{LedgerError, Outcome};

/// Tries of one write, and of finding out what became of one.
pub(super) const TRIES_MAX: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(2_000);

/// A failure, before anyone is told.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection is gone, or there was none: another one may do.
    Lost(LedgerError),
    /// The server gave up this transaction in favour of another: the same again will do.
    Conflict(LedgerError),
    /// The same again would fail again.
    Final(LedgerError),
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self::Final(error)
    }
}

impl Fault {
    /// What an error means while something is being done on a connection.
    pub(super) fn of(doing: &'static str, error: &Error) -> Self {
        let failed = |detail| LedgerError::Database { doing, detail, outcome: Outcome::None };
        let Some(state) = error.code() else {
            // Without a state it was not the server who spoke.
            return Self::Lost(failed(causes(error)));
        };
        let detail = told(error, state);
        match state {
            state if is_conflict(state) => Self::Conflict(failed(detail)),
            state if is_parting(state) => Self::Lost(failed(detail)),
            &SqlState::DISK_FULL => Self::Final(LedgerError::Full { doing }),
            &SqlState::LOCK_NOT_AVAILABLE => Self::Final(LedgerError::Busy { doing, waited_s: 60 }),
            _ => Self::Final(failed(detail)),
        }
    }

    /// What an error means when there is no connection yet.
    pub(super) fn connecting(server: &str, error: &Error) -> Self {
        let unreachable = |detail| LedgerError::Unreachable { server: server.to_owned(), detail };
        let Some(state) = error.code() else { return Self::Lost(unreachable(causes(error))) };
        let detail = told(error, state);
        match state.code().get(..2) {
            Some("28" | "42") => Self::Final(LedgerError::Denied { path: server.into(), detail }),
            Some("3D") => Self::Final(unreachable(detail)),
            _ => Self::Lost(unreachable(detail)),
        }
    }

    pub(super) fn into_error(self) -> LedgerError {
        match self {
            Self::Lost(error) | Self::Conflict(error) | Self::Final(error) => error,
        }
    }
}

/// Whether an error that came after COMMIT was sent says for sure that nothing was stored.
pub(super) fn is_definite(error: &Error) -> bool {
    error.code().is_some_and(|state| {
        // 23 a constraint, 42 a wrong statement, 53 no room, 54 a limit, 55 not in this state, 25 not in a transaction.
        is_conflict(state) || matches!(state.code().get(..2), Some("22" | "23" | "25" | "42" | "53" | "54" | "55"))
    })
}

fn is_conflict(state: &SqlState) -> bool {
    *state == SqlState::T_R_SERIALIZATION_FAILURE || *state == SqlState::T_R_DEADLOCK_DETECTED
}

/// The server goes away, starts, ends this session, or is a copy that only reads.
fn is_parting(state: &SqlState) -> bool {
    state.code().starts_with("57P")
        || state.code().starts_with("08")
        || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *state == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn told(error: &Error, state: &SqlState) -> String {
    let words = error.as_db_error().map_or_else(|| error.to_string(), |told| told.message().to_owned());
    format!("{words} ({})", state.code())
}

/// How long to wait before try number `tried`, the first being 1: longer each time, and never the same for two.
pub(super) fn pause(tried: u32) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << tried.min(16)).min(PAUSE_MAX);
    let share = uuid::Uuid::new_v4().as_u128() as u32;
    longest.mul_f64(0.5 + f64::from(share) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_somewhere() {
        for tried in 1..40 {
            let pause = pause(tried);
            assert!(pause <= PAUSE_MAX && pause >= PAUSE_FIRST, "{tried}: {pause:?}");
        }
        assert!(pause(1) < pause(6));
    }
}
