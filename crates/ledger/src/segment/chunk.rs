//! Where content is cut into chunks.
//!
//! The cut points are part of the format: chunks of two segments are the same only when both were cut alike. They are
//! those of FastCDC (2020) with normalization level 1, which the golden list below pins.

use enjamb_core::Digest;
use fastcdc::v2020::{self, Normalization, select_masks};

const BYTES_MIN: usize = 2 << 10;
const BYTES_AVG: usize = 8 << 10;
pub(super) const BYTES_MAX: usize = 64 << 10;
/// An object below this size is one piece: its repeats cost less to store again than to point at.
pub(super) const OBJECT_BYTES_MIN: usize = 4 << 10;

/// The length of the chunk that `rest` begins with. It depends on no more than the first [`BYTES_MAX`] bytes.
pub(super) fn first_len(rest: &[u8]) -> usize {
    let (strict, relaxed) = select_masks(BYTES_AVG, Normalization::Level1);
    let (_, len) = v2020::cut(rest, BYTES_MIN, BYTES_AVG, BYTES_MAX, strict, relaxed, strict << 1, relaxed << 1);
    len
}

/// A piece of an object that is cut: how long it is, and what its bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub len: u32,
    pub digest: Digest,
}

/// Cuts an artifact that is at hand as a whole. That needs no segment, so it can be done before there is one.
pub fn cut(artifact: &[u8]) -> Vec<Cut> {
    pieces(artifact).map(|piece| Cut { len: piece.len() as u32, digest: Digest::of(piece) }).collect()
}

/// The pieces that an object is stored as, in order.
pub(super) fn pieces(object: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = object;
    let whole = object.len() < OBJECT_BYTES_MIN;
    std::iter::from_fn(move || {
        let len = if whole { rest.len() } else { first_len(rest) };
        let (piece, after) = rest.split_at(len);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    fn lens(object: &[u8]) -> Vec<usize> {
        pieces(object).map(<[u8]>::len).collect()
    }

    #[test]
    fn cut_points_are_those_of_the_format() {
        let dense = [
            2_476, 12_352, 12_539, 2_666, 12_595, 14_542, 5_962, 3_803, 8_441, 7_138, 8_761, 3_271, 15_240, 2_110,
            10_343, 8_833,
        ];
        assert_eq!(lens(&noise(1, 128 << 10)), dense);
        let text: Vec<u8> = (0..6_000).flat_map(|line| format!("{{\"line\":{line}}}\n").into_bytes()).collect();
        assert_eq!(lens(&text), [4_242, 2_855, 8_509, 5_348, 4_077, 8_272, 4_705, 20_003, 7_387, 12_902, 3_737, 853]);
    }

    #[test]
    fn monotonous_content_is_cut_at_the_maximum() {
        assert_eq!(lens(&[0; 150_000]), [BYTES_MAX, BYTES_MAX, 150_000 - 2 * BYTES_MAX]);
    }

    #[test]
    fn small_objects_are_one_piece() {
        assert_eq!(lens(&noise(2, OBJECT_BYTES_MIN - 1)), [OBJECT_BYTES_MIN - 1]);
        assert_eq!(lens(&[]), [0; 0]);
    }
}
