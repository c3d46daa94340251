//! LEB128 and zigzag, as the footer's tables are packed.

use enjamb_core::Digest;

/// A value read out of a table, or what is wrong with the table.
pub(super) type Parsed<T> = Result<T, &'static str>;

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value - base`, which is short whenever the two are close, whichever is greater.
pub(super) fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let signed = value.wrapping_sub(base) as i64;
    put(out, ((signed << 1) ^ (signed >> 63)) as u64);
}

/// The part of a table that has not been read yet.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a>(&'a [u8]);

impl<'a> Unread<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn varint(&mut self) -> Parsed<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("a number is cut off")?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits")
    }

    pub(super) fn u32(&mut self) -> Parsed<u32> {
        self.varint()?.try_into().map_err(|_| "a number is longer than 32 bits")
    }

    /// Reads what [`put_difference`] wrote.
    pub(super) fn difference(&mut self, base: u64) -> Parsed<u64> {
        let packed = self.varint()?;
        let signed = (packed >> 1) as i64 ^ -((packed & 1) as i64);
        Ok(base.wrapping_add(signed as u64))
    }

    /// How many rows follow. Each takes at least `row_bytes`, so that a count alone cannot make a reader allocate.
    pub(super) fn count(&mut self, row_bytes: usize) -> Parsed<usize> {
        let count = self.u32()? as usize;
        if count > self.0.len() / row_bytes {
            return Err("a table counts more rows than the footer has room for");
        }
        Ok(count)
    }

    pub(super) fn digest(&mut self) -> Parsed<Digest> {
        let (bytes, rest) = self.0.split_first_chunk::<{ Digest::LEN }>().ok_or("a digest is cut off")?;
        self.0 = rest;
        Ok(Digest::from_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_difference(&mut bytes, value, 77);
            let mut unread = Unread::new(&bytes);
            assert_eq!((unread.varint(), unread.difference(77)), (Ok(value), Ok(value)));
            assert!(unread.is_empty());
        }
    }

    #[test]
    fn small_differences_are_one_byte() {
        for value in [40, 103, 104, 167] {
            let mut bytes = Vec::new();
            put_difference(&mut bytes, value, 104);
            assert_eq!(bytes.len(), 1, "{value}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(Unread::new(&[0x80]).varint().is_err());
        assert!(Unread::new(&[0xff; 11]).varint().is_err());
        assert!(Unread::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint().is_err());
        assert!(Unread::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).u32().is_err());
        assert!(Unread::new(&[3, 0, 0]).count(1).is_err());
    }
}
