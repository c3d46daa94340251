//! Names of files as text, and which of them a tree may hold.

use std::cmp::Ordering;

use crate::digest::nibble;

/// No file system has longer names.
const NAME_BYTES_MAX: usize = 255;

/// Why a name may not stand in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    #[error("is empty")]
    Empty,
    #[error("is longer than 255 bytes")]
    Long,
    #[error("leads elsewhere")]
    LeadsAway,
    #[error("belongs to a repository")]
    Repository,
}

/// A name that stays where it is put, and that no version control takes for its own.
pub fn check_name(name: &[u8]) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameFault::Long);
    }
    if name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(NameFault::LeadsAway);
    }
    // Some file systems take .GIT for .git, and what is in there may be run.
    if name.eq_ignore_ascii_case(b".git") { Err(NameFault::Repository) } else { Ok(()) }
}

/// The order of paths, name by name.
pub fn order(a: &[u8], b: &[u8]) -> Ordering {
    // A name ends before any other byte comes.
    let key = |byte: u8| if byte == b'/' { 0 } else { byte };
    match a.iter().zip(b).find(|(one, other)| one != other) {
        Some((one, other)) => key(*one).cmp(&key(*other)),
        None => a.len().cmp(&b.len()),
    }
}

/// A name or a path as text: what is not printable UTF-8 is `%` and two hex digits, and so is `%` itself.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    escape_into(&mut text, bytes);
    text
}

/// As [`escape`], after what is there already.
pub(super) fn escape_into(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        // Names hardly ever need it.
        if valid.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'%') {
            text.push_str(valid);
        } else {
            valid.chars().for_each(|c| push_char(text, c));
        }
        chunk.invalid().iter().for_each(|byte| push_escaped(text, *byte));
    }
}

fn push_char(text: &mut String, c: char) {
    if c == '%' || c.is_control() || is_break(c) {
        c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escaped(text, byte));
    } else {
        text.push(c);
    }
}

/// Separators that are no control characters, yet end a line for some readers.
fn is_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

fn push_escaped(text: &mut String, byte: u8) {
    text.push('%');
    push_hex(text, byte);
}

pub(super) fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push(DIGITS[usize::from(byte >> 4)].into());
    text.push(DIGITS[usize::from(byte & 15)].into());
}

/// Reads what [`escape`] wrote; `None` for a `%` without its digits.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (pair, after) = after.split_first_chunk::<2>()?;
        bytes.push(nibble(pair[0])? << 4 | nibble(pair[1])?);
        rest = after;
    }
    Some(bytes)
}
