//! One JSON array. Items keep their bytes, and so does the space between those of one delta.

use serde_json::value::RawValue;

use super::{Content, Item, Items, Unframed};
use crate::position::Position;

pub(super) fn items(bytes: &[u8]) -> Result<Items<'_>, Unframed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|cause| unframed(0, cause.valid_up_to(), "holds bytes that are not UTF-8".to_owned()))?;
    let values: Vec<&RawValue> = serde_json::from_str(text).map_err(|cause| {
        let offset = offset_of(bytes, cause.line(), cause.column());
        unframed(0, offset, format!("expected one JSON array: {}", reason(&cause)))
    })?;
    let items = values.into_iter().zip(1..).map(|(value, number)| item(bytes, value, number)).collect();
    Ok(Items { items, ..Items::default() })
}

fn item<'a>(bytes: &'a [u8], value: &'a RawValue, number: u64) -> Item<'a> {
    let start = value.get().as_ptr() as usize - bytes.as_ptr() as usize;
    Item {
        at: Position::Item { number, offset: start as u64 },
        range: start..start + value.get().len(),
        content: Content::Json(value.get().into()),
    }
}

fn unframed(number: u64, offset: usize, reason: String) -> Unframed {
    Unframed { at: Position::Item { number, offset: offset as u64 }, reason }
}

fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// The offset of a line and column as serde_json counts them: lines from one, columns in bytes.
fn offset_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column.saturating_sub(1)).min(bytes.len())
}
