//! One CBOR array. Items are copied as they are and never made canonical; only the header is ours.

use super::{Content, Item, Items, Unframed};
use crate::cbor::{self, Fault};
use crate::position::Position;

/// Null is how some writers put an empty array.
pub(super) fn items(bytes: &[u8]) -> Result<Items<'_>, Unframed> {
    let elements = cbor::elements(bytes).map_err(unframed)?;
    let end = cbor::array_end(bytes).map_err(unframed)?;
    if end < bytes.len() {
        return Err(unframed(Fault { offset: end, reason: "bytes follow the array" }));
    }
    let items = elements.into_iter().zip(1..).map(|((start, value), number)| Item {
        at: Position::Item { number, offset: start as u64 },
        range: start..start + value.len(),
        content: Content::Cbor(value.into()),
    });
    Ok(Items { items: items.collect(), ..Items::default() })
}

/// The header of an array of definite length, in the fewest bytes.
pub(super) fn header(count: u64) -> Vec<u8> {
    cbor::write_array_head(count)
}

fn unframed(fault: Fault) -> Unframed {
    let at = Position::Item { number: 0, offset: fault.offset as u64 };
    Unframed { at, reason: format!("expected one CBOR array: {}", fault.reason) }
}
