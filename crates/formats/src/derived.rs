//! Ids and times in the spelling of transcripts, made from what is there rather than from chance.

use enjamb_core::{Digest, Timestamp};

/// RFC 3339 with milliseconds, as runtimes write times, or with microseconds where there are any.
pub(crate) fn milliseconds(at: Timestamp) -> String {
    let text = at.to_string();
    match text.strip_suffix("000Z") {
        Some(short) => format!("{short}Z"),
        None => text,
    }
}

pub(crate) fn is_uuid(text: &str) -> bool {
    let is_dash = |position| [8, 13, 18, 23].contains(&position);
    text.len() == 36
        && text.bytes().enumerate().all(
            |(position, byte)| {
                if is_dash(position) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            },
        )
}

/// A UUID (version 8) that the same parts always give.
pub(crate) fn derived_uuid(parts: &[&str]) -> String {
    let mut digits = Digest::of(parts.join("\0").as_bytes()).to_hex();
    digits.truncate(32);
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "8");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_uuids_and_differ_with_their_parts() {
        let (one, two) = (derived_uuid(&["a", "b"]), derived_uuid(&["ab"]));
        assert!(is_uuid(&one) && is_uuid(&two) && one != two);
        assert!(!is_uuid("ctx-1") && !is_uuid("019f05fa_59a1-7863-8863-855e7b57ee1a"));
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(milliseconds(Timestamp::from_millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(milliseconds(Timestamp::from_micros(1)), "1970-01-01T00:00:00.000001Z");
    }
}
