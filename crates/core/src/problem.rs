//! What a caller should do about a failure, whatever it was.

/// The kind of a failure. Each surface maps kinds in one table: exit code, HTTP status, MCP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; sending it again will not help.
    Invalid,
    /// No such thing.
    NotFound,
    /// The name fits several things.
    Ambiguous,
    /// The store has moved on, or holds something else under that name.
    Conflict,
    /// This version cannot do it.
    Unsupported,
    /// The caller may not.
    Denied,
    /// Someone else holds it; try again.
    Busy,
    /// The disk or the network did not do its part.
    Unavailable,
    /// More would be lost than the caller accepts.
    Lossy,
    /// Stored bytes are not what they were.
    Corrupt,
    /// Our mistake.
    Internal,
}
