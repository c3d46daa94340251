//! A document as the lines of a log: what a runtime writes anew as a whole, told so that it can be added to.

use std::ops::Range;

use serde_json::value::RawValue;

/// One line that a document amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrolledLine {
    /// JSON, without a newline.
    pub text: String,
    /// Where it stands in the document; none for what is gathered from several places.
    pub range: Option<Range<usize>>,
}

/// Where a value that was parsed out of a text stands in it.
pub(crate) fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// One JSON value and nothing else.
pub(crate) fn whole_value(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: &RawValue = serde_json::from_str(text).ok()?;
    Some(value.get())
}
