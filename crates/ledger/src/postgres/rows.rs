//! Rows of the index in a table: each payload with a checksum over its key and itself.

use crate::index::IndexError;

const CRC_LEN: usize = 4;

/// A payload as it is stored.
pub(super) fn seal(key: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let crc = checksum(key, &payload);
    payload.extend(crc.to_le_bytes());
    payload
}

/// The payload of a stored value, refused when it is not what was stored under this key.
pub(super) fn unseal<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8], IndexError> {
    let whole =
        value.split_last_chunk::<CRC_LEN>().filter(|(payload, crc)| checksum(key, payload).to_le_bytes() == **crc);
    let damaged = || {
        let shown: String =
            key.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).take(80).collect();
        IndexError::Damaged(crate::index::Damaged(format!("row {shown} does not match its checksum")))
    };
    whole.map(|(payload, _)| payload).ok_or_else(damaged)
}

fn checksum(key: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_a_row_is_noticed() {
        let stored = seal(b"key", b"payload".to_vec());
        assert_eq!(unseal(b"key", &stored).unwrap(), b"payload");
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(b"key", &flipped).is_err(), "bit {bit}");
        }
        assert!(unseal(b"kez", &stored).is_err());
        assert!(unseal(b"key", b"abc").is_err());
    }
}
