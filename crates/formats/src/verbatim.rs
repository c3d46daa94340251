//! Lines and parts of a format that a conversation carries as they are, to be written back by the same format.

use enjamb_core::Json;
use enjamb_core::conversation::{Block, Raw, Verbatim};

/// How the kind of a part begins, as against that of a whole line.
pub(crate) const PART: &str = "part/";
/// The kind of the line that says which session it is.
pub(crate) const SESSION: &str = "session";

/// A whole line of a format, as against a part.
pub(crate) fn is_line_of(format: &str, verbatim: &Verbatim) -> bool {
    verbatim.format == format && !verbatim.kind.starts_with(PART)
}

/// Whether a block is the line of a format that says which session it is.
pub(crate) fn is_session_of(format: &str, block: &Block) -> bool {
    block.as_verbatim().is_some_and(|verbatim| verbatim.format == format && verbatim.kind == SESSION)
}

/// What is carried, where it is JSON.
pub(crate) fn carried(verbatim: &Verbatim) -> Option<Json> {
    match &verbatim.content {
        Raw::Json(json) => Some(json.clone()),
        Raw::Bytes(_) => None,
    }
}
