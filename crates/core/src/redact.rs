//! Secrets, found by how they look and replaced by the name of what they were.
//!
//! A pass finds the words that secrets begin with; a form is looked at only where its word stands. What is found is told
//! by place and kind, never by the secret itself.

mod rules;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind, packed};
use regex::bytes::Regex;

pub use self::stream::{FoundSecret, SecretStream};

use self::rules::{Begins, RULES, Rule, STOP_WORDS};

/// The name of this set of rules, recorded wherever it was applied. Another set has another name.
pub const RULE_SET: &str = "enjamb-secrets-v2";

/// From the word of a secret to its end at most: a private key is the longest.
const SECRET_BYTES_MAX: usize = 16 << 10;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub rule: &'static str,
    pub range: Range<usize>,
}

/// How many secrets of each kind were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redacted {
    pub found: BTreeMap<&'static str, u64>,
}

impl Redacted {
    pub fn total(&self) -> u64 {
        self.found.values().sum()
    }

    pub fn add(&mut self, rule: &'static str) {
        *self.found.entry(rule).or_default() += 1;
    }
}

struct Finder {
    groups: Vec<Group>,
    /// Most are never needed, so each is made when its word is first seen.
    forms: Vec<OnceLock<Regex>>,
}

/// Words that are looked for together.
struct Group {
    words: Words,
    /// The rule of each word.
    owners: Vec<usize>,
}

enum Words {
    Vectors(packed::Searcher),
    /// Where the processor has no vectors.
    Automaton(AhoCorasick),
}

/// Words that vectors look for at once. With those of three bytes apart from longer ones, and with words together that
/// begin alike, a pass takes a third of the time.
const GROUP_WORDS_MAX: usize = 48;

static FINDER: LazyLock<Finder> = LazyLock::new(|| {
    let words = RULES.iter().enumerate().flat_map(|(index, rule)| rule.words.iter().map(move |word| (*word, index)));
    let (short, mut long): (Vec<_>, Vec<_>) = words.partition(|(word, _)| word.len() < 4);
    long.sort_unstable();
    let groups = [short, long];
    let groups = groups.iter().flat_map(|words| words.chunks(GROUP_WORDS_MAX)).map(Group::new).collect();
    Finder { groups, forms: RULES.iter().map(|_| OnceLock::new()).collect() }
});

impl Group {
    fn new(words: &[(&str, usize)]) -> Self {
        let owners = words.iter().map(|(_, owner)| *owner).collect();
        let words = words.iter().map(|(word, _)| *word);
        let vectors = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostLongest)
            .builder()
            .extend(words.clone())
            .build();
        let automaton = || AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(words);
        let words = match vectors {
            Some(vectors) => Words::Vectors(vectors),
            None => Words::Automaton(automaton().expect("the words are few")),
        };
        Self { words, owners }
    }

    /// Where words stand, and of which rules they are.
    fn places(&self, text: &[u8], places: &mut Vec<(usize, usize)>) {
        match &self.words {
            Words::Vectors(words) => {
                let found = words.find_iter(text);
                places.extend(found.map(|word| (word.start(), self.owners[word.pattern().as_usize()])));
            }
            Words::Automaton(words) => {
                let found = words.find_iter(text);
                places.extend(found.map(|word| (word.start(), self.owners[word.pattern().as_usize()])));
            }
        }
    }
}

impl Finder {
    /// Where words stand, from the first to the last, and of which rules they are.
    fn places(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        self.groups.iter().for_each(|group| group.places(text, &mut places));
        places.sort_unstable();
        places
    }

    fn form(&self, rule: usize) -> &Regex {
        let form = || Regex::new(&format!(r"\A(?:{})", RULES[rule].form)).expect("the rules are tested");
        self.forms[rule].get_or_init(form)
    }
}

/// The secrets in a text, or in JSON that holds one, in order of place. None overlaps another.
pub fn secrets(text: &[u8]) -> Vec<Secret> {
    let mut found: Vec<Secret> = Vec::new();
    for (at, index) in FINDER.places(text) {
        let rule = &RULES[index];
        let is_passed = found.last().is_some_and(|last| at < last.range.end);
        if is_passed || (rule.begins == Begins::AtWord && is_inside_word(text, at)) {
            continue;
        }
        let rest = &text[at..text.len().min(at + SECRET_BYTES_MAX)];
        let Some(range) = secret_in(FINDER.form(index), rest).filter(|range| is_secret(rule, &rest[range.clone()]))
        else {
            continue;
        };
        found.push(Secret { rule: rule.id, range: at + range.start..at + range.end });
    }
    found
}

fn secret_in(form: &Regex, rest: &[u8]) -> Option<Range<usize>> {
    let captures = form.captures(rest)?;
    captures.name("secret").or_else(|| captures.get(0)).map(|found| found.range())
}

/// Whether a letter or digit stands before. In JSON it may be that of an escaped line end.
fn is_inside_word(text: &[u8], at: usize) -> bool {
    match text[..at] {
        [.., b'\\', b'n' | b'r' | b't'] | [] => false,
        [.., before] => before.is_ascii_alphanumeric() || before == b'_',
    }
}

/// Whether it is as random as secrets of its kind are, and no word in place of one.
fn is_secret(rule: &Rule, secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret).to_ascii_lowercase();
    if rule.entropy_min > 0.0 && entropy(secret) < rule.entropy_min || STOP_WORDS.iter().any(|word| text.contains(word))
    {
        return false;
    }
    rule.id != "generic-api-key" || is_random(&text)
}

/// A value that is only known by its name must look like no name, path, hash or id itself.
fn is_random(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_word = |part: &str| part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let words = text.split(['_', '-', '.', '/']).filter(|part| is_word(part)).count();
    digits >= 2 && words < 2 && digits < text.len() && !is_hex && !text.contains("..") && !text.starts_with('/')
}

/// Bits for each byte, by how often each comes.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let total = bytes.len().max(1) as f64;
    let part = |count: &u32| {
        let share = f64::from(*count) / total;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(part).sum()
}

/// Replaces every secret in a text by `[redacted:KIND]`, and counts them.
pub fn redact(text: &mut String, redacted: &mut Redacted) {
    if let Cow::Owned(masked) = mask_counting(text, redacted) {
        *text = masked;
    }
}

/// The text with every secret in it replaced by `[redacted:KIND]`. JSON stays JSON.
pub fn mask(text: &str) -> Cow<'_, str> {
    mask_counting(text, &mut Redacted::default())
}

/// As [`mask`], of bytes that need not be text.
pub fn mask_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    let found = secrets(bytes);
    if found.is_empty() {
        return Cow::Borrowed(bytes);
    }
    let mut masked = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for Secret { rule, range } in found {
        masked.extend_from_slice(&bytes[done..range.start]);
        masked.extend_from_slice(format!("[redacted:{rule}]").as_bytes());
        done = range.end;
    }
    masked.extend_from_slice(&bytes[done..]);
    Cow::Owned(masked)
}

fn mask_counting<'t>(text: &'t str, redacted: &mut Redacted) -> Cow<'t, str> {
    let found = secrets(text.as_bytes());
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut done = 0;
    for Secret { rule, range } in found {
        redacted.add(rule);
        masked.push_str(text.get(done..range.start).unwrap_or_default());
        masked.push_str(&format!("[redacted:{rule}]"));
        done = range.end;
    }
    masked.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(masked)
}

#[cfg(test)]
mod tests;
