//! An event as a line of the spool.
//!
//! A record is a newline, one line of text, and a newline. What was said is kept on that line, with a space for each of
//! its own line breaks, which mean nothing in JSON. So no payload can pass for a record, and after one that was cut short
//! the next begins on a line of its own.

use enjamb_core::Digest;

use crate::Runtime;

/// How much of what a runtime says is kept. What matters stands at its beginning.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;

const VERSION: &str = "event1";
const DIGEST_CHARS: usize = 16;

/// Something that a runtime said to a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub at_ms: u64,
    pub runtime: Runtime,
    /// How long it was, of which `payload` is the beginning.
    pub said_bytes: u64,
    pub payload: Vec<u8>,
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let head = format!("{VERSION}\t{}\t{}\t{}\t", self.at_ms, self.runtime.as_str(), self.said_bytes);
        let mut line = head.into_bytes();
        line.extend(self.payload.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        let digest = digest(&line);
        [b"\n", line.as_slice(), b"\t", digest.as_bytes(), b"\n"].concat()
    }

    /// Reads a line without its newline; `None` for one that is damaged, or that a later version wrote.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let at = line.len().checked_sub(DIGEST_CHARS + 1)?;
        let (said, check) = line.split_at(at);
        if check[0] != b'\t' || check[1..] != *digest(said).as_bytes() {
            return None;
        }
        let mut parts = said.splitn(5, |byte| *byte == b'\t');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        if text()? != VERSION {
            return None;
        }
        let at_ms = text()?.parse().ok()?;
        let runtime = Runtime::from_name(text()?)?;
        let said_bytes = text()?.parse().ok()?;
        Some(Self { at_ms, runtime, said_bytes, payload: parts.next()?.to_vec() })
    }
}

/// What a spool holds.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub whole: Vec<Record>,
    /// Lines that hold no record: cut short by a full disk or a power failure.
    pub damaged: u64,
}

pub(super) fn records(bytes: &[u8]) -> Records {
    let mut found = Records::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match Record::decode(line) {
            Some(record) => found.whole.push(record),
            None => found.damaged += 1,
        }
    }
    found
}

fn digest(line: &[u8]) -> String {
    let mut hex = Digest::of(line).to_hex();
    hex.truncate(DIGEST_CHARS);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> Record {
        Record { at_ms: 17, runtime: Runtime::Codex, said_bytes: 900, payload: payload.to_vec() }
    }

    #[test]
    fn a_record_comes_back_as_one_line_whatever_was_said() {
        for (said, kept) in [
            (&b"{\"a\":1}"[..], &b"{\"a\":1}"[..]),
            (b"", b""),
            (b"{\n\t\"a\": 1\r\n}", b"{ \t\"a\": 1  }"),
            (b"\xff\xfe\0\t\t", b"\xff\xfe\0\t\t"),
        ] {
            let encoded = record(said).encode();
            assert_eq!(encoded.iter().filter(|byte| **byte == b'\n').count(), 2);
            assert_eq!(records(&encoded).whole, [record(kept)]);
        }
    }

    #[test]
    fn a_record_that_is_cut_anywhere_takes_none_with_it() {
        let (first, last) = (record(b"{\"first\":1}"), record(b"{\"last\":1}"));
        let bytes = first.encode();
        for cut in 0..bytes.len() - 1 {
            let found = records(&[&bytes[..cut], &last.encode()].concat());
            assert_eq!(found.whole, std::slice::from_ref(&last), "cut after {cut}");
            assert_eq!(found.damaged, u64::from(cut > 1));
        }
    }

    #[test]
    fn any_bit_that_flips_is_noticed() {
        let bytes = record(b"{\"a\":1}").encode();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            let found = records(&flipped).whole;
            let is_border = at / 8 == 0 || at / 8 == bytes.len() - 1;
            assert!(found.is_empty() || is_border, "bit {at}: {found:?}");
        }
    }

    #[test]
    fn what_is_said_cannot_pass_for_a_record() {
        let forged = record(b"{\"forged\":1}").encode();
        let mut torn = record(&[b"x", forged.as_slice(), b"y"].concat()).encode();
        torn.truncate(torn.len() - 5);
        assert!(records(&torn).whole.is_empty());
    }
}
