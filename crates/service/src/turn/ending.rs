//! How runs end. The word is what frames say and never changes; the rest is for people.

use enjamb_core::ErrorKind;

/// An end, and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    pub reason: EndReason,
    pub detail: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident, $word:literal, $code:literal, $kind:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EndReason {
            $($(#[$doc])* $reason,)*
        }

        impl EndReason {
            pub const ALL: &'static [Self] = &[$(Self::$reason),*];

            /// As `session_ended` and `continuity_run_ended` say it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $word,)* }
            }

            /// As errors say it.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$reason => $code,)* }
            }

            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$reason => ErrorKind::$kind,)* }
            }
        }
    };
}

reasons! {
    Completed, "completed", "run-completed", Internal;
    /// Somebody called it off.
    Cancelled, "cancelled", "run-cancelled", Unavailable;
    /// The process that ran it is gone.
    Interrupted, "interrupted", "run-interrupted", Unavailable;
    ContextFailed, "context_compile_failed", "run-context-failed", Invalid;
    /// The provider failed, or could not be reached.
    ProviderError, "provider_error", "run-provider-error", Unavailable;
    /// The provider says that it was asked wrongly.
    InvalidRequest, "invalid_request", "run-invalid-request", Invalid;
    /// The provider does not take the key.
    Unauthorized, "unauthorized", "run-unauthorized", Denied;
    RateLimited, "rate_limited", "run-rate-limited", Unavailable;
    Timeout, "timeout", "run-timeout", Unavailable;
    /// The answer broke off.
    StreamCut, "stream_cut", "run-stream-cut", Unavailable;
    Refused, "refused", "run-refused", Denied;
    /// The answer took as many tokens as one may.
    OutputLimit, "max_output_tokens", "run-output-limit", Invalid;
    TokenBudget, "token_budget_exceeded", "run-over-budget", Invalid;
    ToolCallLimit, "max_tool_calls_exceeded", "run-tool-call-limit", Invalid;
}

impl Ending {
    pub(crate) fn new(reason: EndReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    pub(crate) fn completed() -> Self {
        Self::new(EndReason::Completed, "")
    }

    /// What there is to say about it, to follow its word.
    pub(crate) fn said(&self) -> String {
        if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) }
    }

    pub fn is_completed(&self) -> bool {
        self.reason == EndReason::Completed
    }

    /// What an HTTP status says about a request.
    pub(crate) fn of_status(status: u16, said: &str) -> Self {
        let reason = match status {
            401 | 403 => EndReason::Unauthorized,
            408 => EndReason::Timeout,
            429 => EndReason::RateLimited,
            400..=499 => EndReason::InvalidRequest,
            _ => EndReason::ProviderError,
        };
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        Self::new(reason, format!("it answered {status}{said}"))
    }

    pub(crate) fn help(&self) -> Option<&'static str> {
        match self.reason {
            EndReason::Unauthorized => Some("set ENJAMB_ENDPOINT_KEY to a key that this endpoint takes"),
            EndReason::TokenBudget => Some("--budget TOKENS    gives it more"),
            EndReason::OutputLimit => Some("provider.max_output_tokens in the config file says how much one may take"),
            EndReason::Interrupted | EndReason::RateLimited | EndReason::Timeout | EndReason::StreamCut => {
                Some("post again: what was received is kept")
            }
            _ => None,
        }
    }
}
