//! Instants, given by the caller and never asked for here.

use std::fmt;
use std::str::FromStr;

/// An instant in UTC, with microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970, as frames carry them; an instant before that is 0.
    pub const fn as_millis(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0 as u64 / 1000 }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let instant: jiff::Timestamp =
            text.parse().map_err(|_| ParseTimestampError(text.chars().take(100).collect()))?;
        Ok(Self(instant.as_microsecond()))
    }
}

/// A text that is no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time: expected RFC 3339, such as 2026-11-15T09:12:00Z")]
pub struct ParseTimestampError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_with_microseconds_and_read_at_any_offset() {
        let noon: Timestamp = "2026-11-15T13:00:00.5+01:00".parse().unwrap();
        assert_eq!(noon.to_string(), "2026-11-15T12:00:00.500000Z");
        assert!("yesterday".parse::<Timestamp>().unwrap_err().to_string().contains("RFC 3339"));
    }
}
