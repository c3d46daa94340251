//! Words in the index: which threads a word comes in, and in which of their messages.
//!
//! What is known of a word in a thread is one row that grows, so that a posting costs two or three bytes and not a row. A
//! row that is full is put away under the seq of its last message, and another one begins.

use enjamb_core::StreamId;
use enjamb_core::frame::{Body, ContinuityBody, RawFrame};
use enjamb_core::lexicon::{self, Postings};

use super::db;
use super::fold::View;
use super::queries::{Index, Lookup, decoded};
use super::rows::{varint, varints};
use crate::record::Fields;

const WORD: u8 = b'W';
/// Bytes of a row at which another one begins.
const ROW_BYTES_MAX: usize = 256;

/// The row of a word in a thread that grows. No word holds a NUL.
fn word_key(word: &str, thread: u32) -> Vec<u8> {
    [&[WORD], word.as_bytes(), b"\0", &thread.to_be_bytes()].concat()
}

/// A row that is full, by the seq of the last message in it. It sorts after the one that grows.
fn full_key(word: &str, thread: u32, last_seq: u64) -> Vec<u8> {
    [word_key(word, thread).as_slice(), &last_seq.to_be_bytes()].concat()
}

/// The word and the number of the thread in the key of a row that grows; `None` in that of a full one.
fn parse_word_key(key: &[u8]) -> Option<Option<(String, u32)>> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let (word, rest) = (key.get(1..end)?, &key[end + 1..]);
    let Ok(thread) = rest.try_into().map(u32::from_be_bytes) else { return Some(None) };
    Some(Some((String::from_utf8(word.to_vec()).ok()?, thread)))
}

/// Postings as a row holds them, the first message first: how far each is from the one before, doubled, and one more
/// where the word comes more than once, followed by how often.
fn encode(postings: &[(u64, u64)]) -> Vec<u8> {
    let mut before = 0;
    let mut numbers = Vec::with_capacity(postings.len() * 2);
    for (seq, count) in postings {
        let step = (seq - before) * 2;
        before = *seq;
        match count {
            1 => numbers.push(step),
            count => numbers.extend([step + 1, *count]),
        }
    }
    varints(&numbers)
}

fn decode(payload: &[u8]) -> Option<Postings> {
    let mut fields = Fields(payload);
    let mut postings = Postings::new();
    let mut seq = 0u64;
    while !fields.0.is_empty() {
        let step = varint(&mut fields)?;
        seq = seq.checked_add(step / 2)?;
        let count = if step % 2 == 1 { varint(&mut fields)? } else { 1 };
        postings.push((seq, count));
    }
    Some(postings)
}

/// Folds the words of a message.
pub(super) fn fold_words(view: &mut View<'_>, thread: u32, raw: &RawFrame) -> db::Result<()> {
    for (word, count) in words_of(raw) {
        let key = word_key(&word, thread);
        let mut postings = match view.get(&key)? {
            Some(payload) => decoded(decode(&payload), "word")?,
            None => Postings::new(),
        };
        postings.push((raw.seq(), count));
        let grown = encode(&postings);
        if grown.len() <= ROW_BYTES_MAX {
            view.put(key, grown);
            continue;
        }
        let newest = postings.split_off(postings.len() - 1);
        if let Some((last_seq, _)) = postings.last() {
            view.put(full_key(&word, thread, *last_seq), encode(&postings));
        }
        view.put(key, encode(&newest));
    }
    Ok(())
}

/// The words of a message, and how often each comes.
pub fn words_of(raw: &RawFrame) -> Vec<(String, u64)> {
    match raw.decode().map(|frame| frame.body) {
        Ok(Body::Continuity(ContinuityBody::MessageAppended(said))) => lexicon::terms(&said.content),
        _ => Vec::new(),
    }
}

impl Index<'_> {
    /// Up to `limit` messages of a thread, up to a seq, in which a word comes; the last first.
    pub fn postings(&self, thread: &StreamId, word: &str, upto: u64, limit: usize) -> db::Result<Postings> {
        let mut found = Postings::new();
        let Some(row) = self.stream(thread)?.filter(|_| limit > 0) else { return Ok(found) };
        let Some(growing) = self.get(&word_key(word, row.number))? else { return Ok(found) };
        let mut take = |payload: &[u8]| {
            let postings = decoded(decode(payload), "word")?;
            let left = limit - found.len();
            found.extend(postings.into_iter().rev().filter(|(seq, _)| *seq <= upto).take(left));
            Ok(found.len() < limit)
        };
        if !take(&growing)? {
            return Ok(found);
        }
        // Of the full rows, the first that reaches so far may hold some, and so may all before it.
        let (first, end) = (full_key(word, row.number, 0), full_key(word, row.number, u64::MAX));
        let mut last = full_key(word, row.number, upto);
        self.0.scan(&last.clone(), &[end.as_slice(), &[0]].concat(), &mut |key, _| {
            last = key.to_vec();
            Ok(false)
        })?;
        self.0.scan_back(&first, &[last.as_slice(), &[0]].concat(), &mut |_, payload| take(payload))?;
        Ok(found)
    }

    /// The words that begin so, each with the threads that it comes in: by word, and then by the name of the thread.
    pub fn words(&self, prefix: &str) -> db::Result<Vec<(String, StreamId)>> {
        let from = [&[WORD], prefix.as_bytes()].concat();
        // No byte of a word is 0xff.
        let to = [from.as_slice(), &[0xff]].concat();
        let mut numbers = Vec::new();
        self.0.scan(&from, &to, &mut |key, _| {
            numbers.extend(decoded(parse_word_key(key), "word")?);
            Ok(true)
        })?;
        let named = numbers.into_iter().map(|(word, number)| Ok((word, self.stream_numbered(Some(number))?)));
        let mut words = named.collect::<db::Result<Vec<_>>>()?;
        words.sort();
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_take_few_bytes_and_are_read_back() {
        let postings = vec![(0, 1), (1, 3), (70, 1), (u64::MAX / 4, 200)];
        assert_eq!(decode(&encode(&postings)), Some(postings));
        assert_eq!(encode(&[(40, 1), (41, 1), (90, 2)]), [80, 2, 99, 2]);
        assert_eq!(decode(&[1]), None, "how often is missing");
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn keys_say_which_rows_grow() {
        assert_eq!(parse_word_key(&word_key("retry", 7)), Some(Some(("retry".into(), 7))));
        assert_eq!(parse_word_key(&full_key("retry", 7, 9)), Some(None));
        assert_eq!(parse_word_key(b"Wretry"), None);
        assert!(word_key("retry", 7) < full_key("retry", 7, 0) && full_key("retry", 7, 9) < word_key("retry", 8));
    }
}
