//! What a request may be answered instead of a result, as a problem document.

use enjamb_core::redact::mask;
use enjamb_service::ServiceError;
use serde_json::{Value, json};

use crate::wire;

/// A failure on its way to a caller: a stable code, a status, a sentence, and what else helps.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub status: u16,
    pub code: &'static str,
    document: Value,
    /// Headers that go with the status.
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    pub fn new(status: u16, code: &'static str, title: impl Into<String>) -> Self {
        let retryable = matches!(status, 408 | 429 | 503);
        let document = json!({
            "type": wire::type_of(code), "code": code, "title": title.into(), "status": status,
            "exit": exit_of(status), "retryable": retryable, "outcome": "none",
        });
        Self { status, code, document, headers: Vec::new() }
    }

    /// Something that is not there, or not for this caller: one answer for both.
    pub fn not_found(what: &'static str, name: &str) -> Self {
        ServiceError::Unknown { what, name: name.to_owned() }.into()
    }

    /// A member of a request that is not what it has to be.
    pub fn schema(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let place = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
        Self::new(422, "schema", format!("{place}{detail}")).with("pointer", pointer)
    }

    pub fn bad_cursor(text: &str) -> Self {
        let shown: String = text.chars().take(100).collect();
        Self::new(400, "bad-cursor", format!("{shown:?} is no cursor that this server gave: begin without one"))
    }

    pub fn shutting_down() -> Self {
        Self::new(503, "shutting-down", "the server is shutting down").header("retry-after", "2")
    }

    pub fn rate_limited(what: &str) -> Self {
        Self::new(429, "rate-limited", format!("too many {what}: try again in a second")).header("retry-after", "1")
    }

    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.document[member] = value.into();
        self
    }

    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        self.with("help", help.into())
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The document, with the path that was asked for.
    pub fn document(&self, instance: Option<&str>) -> Value {
        let mut document = self.document.clone();
        // What was asked for is said again, and may hold a secret.
        document["title"] = mask(self.title()).into();
        if let Some(instance) = instance {
            document["instance"] = instance.into();
        }
        document
    }

    pub fn title(&self) -> &str {
        self.document["title"].as_str().unwrap_or_default()
    }
}

/// The exit code of a command that a status ends.
fn exit_of(status: u16) -> u8 {
    match status {
        401 | 403 => 7,
        404 | 410 => 3,
        409 | 412 => 5,
        408 | 429 | 503 => 9,
        500 => 70,
        507 => 8,
        _ => 2,
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        Self {
            status: wire::status(&error),
            code: error.code(),
            document: wire::problem(&error),
            headers: retry_after(wire::numbers(error.kind()).retryable),
        }
    }
}

fn retry_after(retryable: bool) -> Vec<(&'static str, String)> {
    if retryable { vec![("retry-after", "1".into())] } else { Vec::new() }
}

macro_rules! through_service {
    ($($error:ty),*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                ServiceError::from(error).into()
            }
        })*
    };
}

through_service!(
    enjamb_ledger::LedgerError,
    enjamb_core::ParseIdError,
    enjamb_core::ParseStreamError,
    enjamb_core::pack::PackError,
    enjamb_service::ThreadError
);

pub type Result<T> = std::result::Result<T, Problem>;
