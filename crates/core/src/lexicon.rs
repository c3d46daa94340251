//! The words by which a message is found again, and how messages are ranked by them.

use std::collections::HashMap;

use crate::compact::words;

/// Words of one message that are kept; a message longer than that is found by how it begins.
const TERMS_MAX: usize = 256;
/// Bytes of a word that is kept.
const TERM_BYTES_MAX: usize = 64;

/// The words of a text in lower case, each once with how often it comes, in the order in which they come first.
pub fn terms(text: &str) -> Vec<(String, u64)> {
    let mut terms: Vec<(String, u64)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for word in words(text).map(|word| word.to_lowercase()).filter(|word| word.len() <= TERM_BYTES_MAX) {
        match places.get(&word) {
            Some(at) => terms[*at].1 += 1,
            None if terms.len() < TERMS_MAX => {
                places.insert(word.clone(), terms.len());
                terms.push((word, 1));
            }
            None => {}
        }
    }
    terms
}

/// Where a word comes in a thread: (seq of the message, how often).
pub type Postings = Vec<(u64, u64)>;

/// What a ranking is made from.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Messages in the thread.
    pub messages: u64,
    /// For each word asked for, where it comes.
    pub postings: Vec<Postings>,
}

/// A message and how well it fits; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    pub seq: u64,
    pub milli_score: u64,
}

/// A way to rank messages. Others, such as by vectors, take this one's place or join it.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    pub id: &'static str,
    pub rank: fn(&Evidence) -> Vec<Ranked>,
}

/// Rare words count more, and repeating one counts less each time.
pub const LEXICAL: Ranking = Ranking { id: "lexical_bm25_v1", rank: lexical };

fn lexical(evidence: &Evidence) -> Vec<Ranked> {
    const SATURATION: f64 = 1.2;
    let mut scores: HashMap<u64, f64> = HashMap::new();
    for postings in &evidence.postings {
        let (all, with) = (evidence.messages as f64, postings.len() as f64);
        let rarity = (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln();
        for (seq, count) in postings {
            let count = *count as f64;
            *scores.entry(*seq).or_default() += rarity * count * (SATURATION + 1.0) / (count + SATURATION);
        }
    }
    let milli = |(seq, score): (u64, f64)| Ranked { seq, milli_score: (score * 1_000.0).round() as u64 };
    let mut ranked: Vec<Ranked> = scores.into_iter().map(milli).collect();
    // Of those that fit alike, the later one is nearer.
    ranked.sort_by_key(|ranked| std::cmp::Reverse((ranked.milli_score, ranked.seq)));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_once_each_and_bounded() {
        let found = terms("Retry the retry, the loop");
        assert_eq!(found, [("retry".into(), 2), ("loop".into(), 1)]);
        assert_eq!(terms("ÄRGER Ärger"), [("ärger".into(), 2)]);
        let many: String = (0..300).map(|at| format!("word{at} ")).collect();
        assert_eq!(terms(&many).len(), 256);
        assert_eq!(terms(&"x".repeat(65)), []);
    }

    #[test]
    fn rare_words_count_more_and_later_messages_win_ties() {
        let evidence = Evidence { messages: 100, postings: vec![vec![(1, 1)], (2..60).map(|seq| (seq, 1)).collect()] };
        let ranked = (LEXICAL.rank)(&evidence);
        assert_eq!((ranked[0].seq, ranked[1].seq, ranked.last().unwrap().seq), (1, 59, 2));
        let repeated = Evidence { messages: 100, postings: vec![vec![(1, 1), (2, 9)]] };
        assert_eq!((LEXICAL.rank)(&repeated)[0].seq, 2);
        assert_eq!((LEXICAL.rank)(&Evidence::default()), []);
    }
}
