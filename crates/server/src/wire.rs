//! Failures as RFC 9457 problem documents: one table from kinds to numbers, for every surface.

use enjamb_core::ErrorKind;
use enjamb_service::{Outcome, ServiceError};
use serde_json::{Value, json};

/// The numbers that a kind of failure has on each surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Exit code of a command.
    pub exit: u8,
    /// HTTP status.
    pub status: u16,
    /// Whether trying the same again may help.
    pub retryable: bool,
}

pub fn numbers(kind: ErrorKind) -> Numbers {
    let (exit, status, retryable) = match kind {
        ErrorKind::Invalid => (2, 400, false),
        ErrorKind::Unsupported => (2, 415, false),
        ErrorKind::NotFound => (3, 404, false),
        ErrorKind::Ambiguous => (4, 409, false),
        ErrorKind::Conflict => (5, 409, false),
        ErrorKind::Corrupt => (6, 500, false),
        ErrorKind::Denied => (7, 403, false),
        ErrorKind::Unavailable => (8, 503, true),
        ErrorKind::Busy => (9, 503, true),
        ErrorKind::Lossy => (11, 422, false),
        ErrorKind::Internal => (70, 500, false),
    };
    Numbers { exit, status, retryable }
}

/// The HTTP status of a failure: that of its kind, unless HTTP has a better one for this very code.
pub fn status(error: &ServiceError) -> u16 {
    match error.code() {
        "ref-moved" => 412,
        "too-large" | "frame-too-large" => 413,
        "bad-range" => 416,
        "hash-mismatch" | "idempotency-key-reused" | "bad-idempotency-key" | "malformed-delta" => 422,
        "storage-full" => 507,
        _ => numbers(error.kind()).status,
    }
}

/// A failure as a document.
pub fn problem(error: &ServiceError) -> Value {
    let numbers = numbers(error.kind());
    let outcome = match error.outcome() {
        Outcome::None => "none",
        Outcome::Indeterminate => "indeterminate",
    };
    let mut problem = json!({
        "type": type_of(error.code()),
        "code": error.code(),
        "title": error.to_string(),
        "status": status(error),
        "exit": numbers.exit,
        "retryable": numbers.retryable,
        "outcome": outcome,
    });
    if let ServiceError::Ambiguous { candidates, .. } = error {
        problem["candidates"] = candidates.clone().into();
    }
    if let Some(help) = error.help() {
        problem["help"] = help.into();
    }
    problem
}

/// The address that stands for a code.
pub fn type_of(code: &str) -> String {
    format!("https://enjamb.dev/errors/{code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_with_the_disk_is_told_apart() {
        use enjamb_ledger::LedgerError;
        let told = |error: LedgerError| {
            let problem = problem(&error.into());
            (problem["status"].as_u64().unwrap(), problem["code"].to_string(), problem["outcome"].to_string())
        };
        let expected = |status, code: &str, outcome: &str| (status, format!("{code:?}"), format!("{outcome:?}"));
        assert_eq!(told(LedgerError::Full { doing: "appending" }), expected(507, "storage-full", "none"));
        assert_eq!(told(LedgerError::Poisoned), expected(503, "storage-poisoned", "none"));
        let unsure = LedgerError::Disk { doing: "syncing", detail: "EIO".into(), outcome: Outcome::Indeterminate };
        let unsure = told(unsure);
        assert_eq!((unsure.0, unsure.2.as_str()), (503, "\"indeterminate\""));
        let damaged = LedgerError::Corrupt { what: "art-1".into(), detail: "its digest is another".into() };
        assert_eq!(told(damaged).0, 500);
    }

    #[test]
    fn a_problem_names_code_status_and_candidates() {
        let error = ServiceError::Ambiguous { prefix: "art-3f".into(), candidates: vec!["a".into(), "b".into()] };
        let problem = problem(&error);
        assert_eq!((problem["status"].as_u64(), problem["exit"].as_u64()), (Some(409), Some(4)));
        assert_eq!(problem["code"], "ambiguous-id");
        assert_eq!(problem["candidates"].as_array().map(Vec::len), Some(2));
    }
}
