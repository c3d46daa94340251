//! Strings of JSON, sixty-four bytes at a time: where one ends, and whether all of a text is one value.
//!
//! Transcripts are long strings full of escapes. Stopping at each escape would take longer than all else, so a block is
//! looked at as a whole: which of its bytes are quotes, which are backslashes, and which of them are escaped.

use wide::u8x16;

const BLOCK: usize = 64;
/// Bytes up to this one may only stand in a string as escapes.
const CONTROL_MAX: u8 = 0x1f;

/// A bit for each byte of a block, the first lowest.
struct Marks {
    quotes: u64,
    backslashes: u64,
}

/// Where the string ends whose opening quote stands before `at`: the place of its closing quote.
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    short_end(bytes, at).or_else(|| find_end(bytes, at, |_, _, _| true))
}

/// The same for a short string of nothing but plain characters, as names and ids are: for those a block is much.
fn short_end(bytes: &[u8], at: usize) -> Option<usize> {
    let sixteen = u8x16::new(*bytes.get(at..)?.first_chunk()?);
    let equal = |wanted| sixteen.simd_eq(u8x16::splat(wanted)).to_bitmask();
    let odd = equal(b'\\') | sixteen.min(u8x16::splat(CONTROL_MAX)).simd_eq(sixteen).to_bitmask();
    let ends = equal(b'"');
    let is_plain = ends != 0 && odd & (ends ^ (ends - 1)) == 0;
    is_plain.then(|| at + ends.trailing_zeros() as usize)
}

/// Goes through a string block by block. `admit` is given where each block begins, which of its bytes are escaped, and
/// which belong to the string; nothing is found once it refuses one.
fn find_end(bytes: &[u8], mut at: usize, mut admit: impl FnMut(usize, u64, u64) -> bool) -> Option<usize> {
    let mut is_escaped = false;
    while at < bytes.len() {
        let Marks { quotes, backslashes } = marks(&block(bytes, at));
        let escaped = escaped(backslashes, &mut is_escaped);
        let ends = quotes & !escaped;
        let within = if ends == 0 { u64::MAX } else { (ends & ends.wrapping_neg()) - 1 };
        if !admit(at, escaped & within, within) {
            return None;
        }
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
    None
}

/// The block that begins there; what is missing at the end is zero, which is neither a quote nor a backslash.
fn block(bytes: &[u8], at: usize) -> [u8; BLOCK] {
    match bytes[at..].first_chunk() {
        Some(block) => *block,
        None => {
            let mut block = [0; BLOCK];
            block[..bytes.len() - at].copy_from_slice(&bytes[at..]);
            block
        }
    }
}

fn marks(block: &[u8; BLOCK]) -> Marks {
    Marks { quotes: equal(block, b'"'), backslashes: equal(block, b'\\') }
}

fn equal(block: &[u8; BLOCK], wanted: u8) -> u64 {
    each(block, |sixteen| sixteen.simd_eq(u8x16::splat(wanted)))
}

/// The bytes of a block for which the vectors that are made of it have their bits set.
fn each(block: &[u8; BLOCK], mark: impl Fn(u8x16) -> u8x16) -> u64 {
    let (parts, _) = block.as_chunks::<16>();
    let bits = |part: usize| u64::from(mark(u8x16::new(parts[part])).to_bitmask());
    bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48
}

/// Which bytes stand behind a backslash that is not escaped itself. `is_escaped` tells it of the first byte, and then of
/// the first of the next block.
fn escaped(backslashes: u64, is_escaped: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let first = u64::from(*is_escaped);
    if backslashes == 0 {
        *is_escaped = false;
        return first;
    }
    // A run that begins at an odd place is carried past its end by the addition, so that from there on places are turned.
    let backslashes = backslashes & !first;
    let after = backslashes << 1 | first;
    let odd_starts = backslashes & !EVEN & !after;
    let (carried, goes_on) = odd_starts.overflowing_add(backslashes);
    *is_escaped = goes_on;
    (EVEN ^ (carried << 1)) & after
}

/// How many bytes the text of a string has, given what stands between its quotes. None where something in it is escaped
/// by its number, which has to be read to be measured.
pub(super) fn text_len(inner: &[u8]) -> Option<usize> {
    let (mut escapes, mut is_escaped) = (0, false);
    for at in (0..inner.len()).step_by(BLOCK) {
        let block = block(inner, at);
        let escaped = escaped(equal(&block, b'\\'), &mut is_escaped);
        if escaped != 0 && escaped & equal(&block, b'u') != 0 {
            return None;
        }
        escapes += escaped.count_ones() as usize;
    }
    Some(inner.len() - escapes)
}

/// Whether the string whose opening quote stands before `at` is as JSON has them; if so, the place of its closing quote.
pub(super) fn checked_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let admit = |at: usize, mut escaped: u64, within: u64| {
        let mut is_good = controls(&block(bytes, at)) & within == 0;
        while is_good && escaped != 0 {
            is_good = is_escape(&bytes[at + escaped.trailing_zeros() as usize..]);
            escaped &= escaped - 1;
        }
        is_good
    };
    short_end(bytes, at).or_else(|| find_end(bytes, at, admit))
}

fn controls(block: &[u8; BLOCK]) -> u64 {
    each(block, |sixteen| sixteen.min(u8x16::splat(CONTROL_MAX)).simd_eq(sixteen))
}

/// Whether what follows a backslash stands for a character, or for half of one.
fn is_escape(rest: &[u8]) -> bool {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => true,
        [b'u', digits @ ..] => digits.first_chunk::<4>().is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)),
        _ => false,
    }
}

/// Whether a text is one JSON value and nothing else. What a strict parser takes is taken, and nothing more.
pub(super) fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    end_of_value(bytes, skip_space(bytes, 0)).is_some_and(|end| skip_space(bytes, end) == bytes.len())
}

fn skip_space(bytes: &[u8], at: usize) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    at + bytes[at..].iter().take_while(is_space).count()
}

/// Where the value that begins at `at` ends, whatever nests in it.
fn end_of_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    // What closes each list that is open.
    let mut open: Vec<u8> = Vec::new();
    loop {
        match *bytes.get(at)? {
            byte @ (b'{' | b'[') => {
                let close = byte + 2;
                at = skip_space(bytes, at + 1);
                if *bytes.get(at)? != close {
                    open.push(close);
                    at = begin_member(bytes, at, close)?;
                    continue;
                }
                at += 1;
            }
            _ => at = end_of_plain(bytes, at)?,
        }
        // A value is over, and perhaps lists are with it.
        loop {
            let Some(&close) = open.last() else { return Some(at) };
            at = skip_space(bytes, at);
            match *bytes.get(at)? {
                b',' => {
                    at = begin_member(bytes, skip_space(bytes, at + 1), close)?;
                    break;
                }
                byte if byte == close => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// Passes the name of a member, where the list is an object; where its value begins.
fn begin_member(bytes: &[u8], at: usize, close: u8) -> Option<usize> {
    if close == b']' {
        return Some(at);
    }
    let colon = skip_space(bytes, end_of_string(bytes, at)?);
    (*bytes.get(colon)? == b':').then(|| skip_space(bytes, colon + 1))
}

fn end_of_plain(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => end_of_string(bytes, at),
        b't' => end_of_word(bytes, at, b"true"),
        b'f' => end_of_word(bytes, at, b"false"),
        b'n' => end_of_word(bytes, at, b"null"),
        _ => end_of_number(bytes, at),
    }
}

fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let is_string = *bytes.get(at)? == b'"';
    is_string.then(|| checked_string_end(bytes, at + 1))?.map(|quote| quote + 1)
}

fn end_of_word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(word).then_some(at + word.len())
}

fn end_of_number(bytes: &[u8], at: usize) -> Option<usize> {
    let at = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = match bytes.get(at)? {
        b'0' => at + 1,
        _ => end_of_digits(bytes, at)?,
    };
    if bytes.get(end) == Some(&b'.') {
        end = end_of_digits(bytes, end + 1)?;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let is_signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = end_of_digits(bytes, end + 1 + usize::from(is_signed))?;
    }
    Some(end)
}

/// At least one digit.
fn end_of_digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// Where a string ends, found one byte after the other.
    fn slow_end(bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            match bytes.get(at)? {
                b'"' => return Some(at),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    fn compare(text: &str) {
        let expected = serde_json::from_str::<&RawValue>(text).is_ok();
        assert_eq!(is_value(text), expected, "{text:?}");
    }

    proptest! {
        #[test]
        fn ends_are_found_wherever_blocks_begin(text in r#"[\\"a]{0,200}"#, at in 0_usize..70) {
            let at = at.min(text.len());
            prop_assert_eq!(string_end(text.as_bytes(), at), slow_end(text.as_bytes(), at));
        }

        #[test]
        fn a_text_is_measured_as_it_is_read(text in r#"([a-zé]{0,40}[\n"\\\t]){0,8}"#) {
            let raw = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(text_len(&raw.as_bytes()[1..raw.len() - 1]), Some(text.len()));
        }

        #[test]
        fn what_a_parser_takes_is_taken(text in r#"[ \n{}\[\]:,"\\untrfalse0-9.eE+\-\u{1}é]{0,24}"#) {
            compare(&text);
        }

        #[test]
        fn strings_are_taken_as_a_parser_does(inner in r#"([a-z ]{0,40}(\\[nrtbfu"/\\x]|[0-9a-f]{4}|\t|"|é)){0,6}"#) {
            compare(&format!("\"{inner}\""));
            compare(&format!("{{\"k\":[\"{inner}\"]}}"));
        }

        #[test]
        fn values_with_one_byte_changed_are_taken_as_a_parser_does(
            text in r#"(\{"a":\[(1|-0\.5e\+9|true|null|"x\\n"),\{"b":("\\u00e9"|false|\[\])\}\],"c":\{\}\}){1}"#,
            at in 0_usize..60,
            byte in r#"[{}\[\]:,"\\0 a.-]"#,
        ) {
            compare(&text);
            let at = at % text.len();
            compare(&format!("{}{byte}{}", &text[..at], &text[at + 1..]));
            compare(&format!("{}{byte}{}", &text[..at], &text[at..]));
            compare(&text[..at]);
        }
    }

    #[test]
    fn numbers_and_words_are_those_of_the_grammar() {
        for text in [
            "0", "-0", "00", "-", "1.", ".1", "1.5", "1e", "1e5", "1E+5", "1e-", "1e999999", "+1", "nul", "nulll",
            "tru", "",
        ] {
            compare(text);
        }
    }

    #[test]
    fn what_nests_deeply_is_taken() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(is_value(&deep));
        assert!(!is_value(&deep[1..]) && !is_value(&deep[..deep.len() - 1]));
    }
}
