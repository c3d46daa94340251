//! The summary by rule: topics, notable lines and highlights of messages, the same for the same messages.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// Characters of a summary.
pub const SUMMARY_CHARS_MAX: usize = 20_000;
const HIGHLIGHTS_MAX: usize = 12;
const TOPICS_MAX: usize = 12;
const ACTORS_MAX: usize = 6;
const LINE_CHARS_MAX: usize = 200;
const SCANNED_CHARS_MAX: usize = 8_192;
const WORDS_MAX: usize = 512;
const WORD_BYTES_MIN: usize = 3;
const NOTABLE_MAX: usize = 32;
const NOTABLE_PER_MESSAGE_MAX: usize = 8;
const NOTABLE_LINES_SCANNED: usize = 64;

const SECTION: &str = "## Cumulative Summary";
const TITLE: &str = "# Compaction summary (auto)";

const STOPWORDS: &str = "a an and are as at be by can cant could don for from had has have how i if in into is it its \
    me my not of on or our ours should than that the their them then they this to was we were what when why will with \
    won would you your yours";

const NOTABLE: [&str; 14] = [
    "todo",
    "fix",
    "decision",
    "plan",
    "goal",
    "acceptance",
    "risk",
    "next",
    "open question",
    "- todo",
    "- fix",
    "- decision",
    "- plan",
    "- goal",
];

/// What a summary says of itself before it says anything else.
#[derive(Clone, Debug)]
pub struct Heading<'a> {
    pub thread_id: &'a str,
    pub cut_rule_id: &'a str,
    pub stride_messages: u64,
    pub target_message_ordinal: u64,
    pub to_seq: u64,
    pub to_message_id: &'a str,
    pub base_summary_artifact_id: Option<&'a str>,
    pub basis_note: Option<&'a str>,
}

/// Messages that a summary is to add, taken in one after the other.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    messages: u64,
    actors: HashMap<String, u64>,
    words: HashMap<String, u64>,
    notable: VecDeque<String>,
    highlights: VecDeque<String>,
}

impl Delta {
    pub fn add(&mut self, actor_id: &str, content: &str) {
        self.messages += 1;
        *self.actors.entry(actor_id.to_owned()).or_default() += 1;
        for word in topic_words(content) {
            *self.words.entry(word).or_default() += 1;
        }
        notable_lines(content).for_each(|line| self.note(line));
        if let Some(first) = content.lines().map(str::trim).find(|line| !line.is_empty()) {
            keep_last(&mut self.highlights, format!("{actor_id}: {}", cut(first, LINE_CHARS_MAX)), HIGHLIGHTS_MAX);
        }
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// A line that was said lately is not said again.
    fn note(&mut self, line: String) {
        if !self.notable.contains(&line) {
            keep_last(&mut self.notable, line, NOTABLE_MAX);
        }
    }

    fn topics(&self) -> String {
        ranked(&self.words).into_iter().take(TOPICS_MAX).map(|(word, _)| word).collect::<Vec<_>>().join(", ")
    }

    fn actors(&self) -> String {
        let named = ranked(&self.actors).into_iter().take(ACTORS_MAX).map(|(actor, count)| format!("{actor}={count}"));
        let named = named.collect::<Vec<_>>().join(", ");
        if named.is_empty() { "none".to_owned() } else { named }
    }
}

fn keep_last(lines: &mut VecDeque<String>, line: String, most: usize) {
    lines.push_back(line);
    if lines.len() > most {
        lines.pop_front();
    }
}

/// The most frequent first; of those equally frequent, by name.
fn ranked(counts: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let mut all: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    all
}

/// The words of a text that could be a topic, as far as it is scanned.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let scanned: String = text.chars().take(SCANNED_CHARS_MAX).map(|c| c.to_ascii_lowercase()).collect();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let words: Vec<String> = scanned.split(|c| !is_part(c)).filter(|word| is_word(word)).map(str::to_owned).collect();
    words.into_iter().take(WORDS_MAX)
}

/// As [`words`], without those that say nothing by themselves.
pub(crate) fn topic_words(text: &str) -> impl Iterator<Item = String> {
    words(text).filter(|word| !is_stopword(word))
}

/// Bytes, not characters: a short word of letters that take several counts as a word.
fn is_word(word: &str) -> bool {
    word.len() >= WORD_BYTES_MIN && word.chars().any(char::is_alphabetic)
}

pub(super) fn is_stopword(word: &str) -> bool {
    STOPWORDS.split_whitespace().any(|stop| stop == word)
}

fn notable_lines(content: &str) -> impl Iterator<Item = String> {
    let lines = content.lines().take(NOTABLE_LINES_SCANNED).map(str::trim);
    let notable = lines.filter(|line| {
        let lower = line.to_ascii_lowercase();
        NOTABLE.iter().any(|prefix| lower.starts_with(prefix))
    });
    notable.take(NOTABLE_PER_MESSAGE_MAX).map(|line| cut(line, LINE_CHARS_MAX))
}

/// At most so many characters, the last being an ellipsis where some are missing.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(most.saturating_sub(1)).collect();
    if most > 0 {
        kept.push('…');
    }
    kept
}

/// Text that never grows beyond its bound.
#[derive(Default)]
struct Bounded {
    text: String,
    chars: usize,
}

impl Bounded {
    fn push(&mut self, text: &str) {
        let kept = cut(text, SUMMARY_CHARS_MAX - self.chars);
        self.chars += kept.chars().count();
        self.text.push_str(&kept);
    }
}

/// The summary of messages on top of an earlier one; without `base`, of everything from the start.
pub fn summary_markdown(heading: &Heading<'_>, base: Option<&str>, delta: &Delta) -> String {
    let mut out = Bounded::default();
    write_heading(&mut out, heading, delta);
    out.push(SECTION);
    out.push("\n\n");
    let topics = delta.topics();
    match base {
        Some(base) => {
            out.push(&extract_section(base).unwrap_or_else(|| base.trim().to_owned()));
            out.push("\n\n");
        }
        None if topics.is_empty() => {}
        None => out.push(&format!("Topics so far (best-effort): {topics}\n\n")),
    }
    if !topics.is_empty() {
        out.push(&format!("Delta topics: {topics}\n\n"));
    }
    write_lists(&mut out, delta);
    out.text
}

fn write_lists(out: &mut Bounded, delta: &Delta) {
    if !delta.notable.is_empty() {
        out.push("Notable items (best-effort):\n");
        delta.notable.iter().for_each(|line| out.push(&format!("- {line}\n")));
        out.push("\n");
    }
    out.push("## Recent Delta Highlights\n\n");
    if delta.highlights.is_empty() {
        out.push("(none)\n");
    }
    delta.highlights.iter().for_each(|line| out.push(&format!("- {line}\n")));
}

/// The summary by rule of a chain of commits.
pub fn chain_markdown(
    tip: &str,
    base: Option<&str>,
    delta: &Delta,
    read: &BTreeSet<String>,
    written: &BTreeSet<String>,
) -> String {
    let mut out = Bounded::default();
    out.push(&format!("{TITLE}\n\n- kind: chain_v1\n- tip: {tip}\n- messages: {}\n\n", delta.messages));
    out.push(SECTION);
    out.push("\n\n");
    if let Some(base) = base {
        out.push(&extract_section(base).unwrap_or_else(|| base.trim().to_owned()));
        out.push("\n\n");
    }
    let listed = |paths: &BTreeSet<String>| paths.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let lists = [("Topics", delta.topics()), ("Files read", listed(read)), ("Files written", listed(written))];
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        out.push(&format!("{name}: {list}\n\n"));
    }
    write_lists(&mut out, delta);
    out.text
}

fn write_heading(out: &mut Bounded, heading: &Heading<'_>, delta: &Delta) {
    let Heading { thread_id, cut_rule_id, stride_messages, target_message_ordinal, to_seq, to_message_id, .. } =
        heading;
    out.push(&format!(
        "{TITLE}\n\n- kind: cumulative_v1\n- thread_id: {thread_id}\n- cut_rule_id: {cut_rule_id}\n\
         - stride_messages: {stride_messages}\n- target_message_ordinal: {target_message_ordinal}\n\
         - to_seq: {to_seq}\n- to_message_id: {to_message_id}\n"
    ));
    out.push(&format!("- base_summary_artifact_id: {}\n", heading.base_summary_artifact_id.unwrap_or("null")));
    if let Some(note) = heading.basis_note.filter(|note| !note.trim().is_empty()) {
        out.push(&format!("- basis_note: {note}\n"));
    }
    out.push(&format!("- delta_message_count: {}\n- delta_actors: {}\n\n", delta.messages, delta.actors()));
}

/// What an earlier summary by rule says of everything before it.
pub fn extract_section(markdown: &str) -> Option<String> {
    let after = markdown.lines().skip_while(|line| line.trim() != SECTION).skip(1);
    let section: Vec<&str> = after.take_while(|line| !line.trim_start().starts_with("## ")).collect();
    let section = section.join("\n").trim().to_owned();
    (!section.is_empty()).then_some(section)
}

/// Whether a summary is of the kind that said only where it was cut.
pub fn is_placeholder(markdown: &str) -> bool {
    const FIELDS: [&str; 6] = [
        "- kind:",
        "- cut_rule_id:",
        "- stride_messages:",
        "- target_message_ordinal:",
        "- to_seq:",
        "- to_message_id:",
    ];
    let text = markdown.trim();
    text.starts_with(TITLE) && FIELDS.iter().all(|field| text.contains(field)) && !text.contains(SECTION)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::compile::{CUMULATIVE, Coverage, ProducedBy, SUMMARY_SCHEMA, Summary, SummaryProvenance};

    fn heading() -> Heading<'static> {
        Heading {
            thread_id: "t1",
            cut_rule_id: "stride_messages_v1/2",
            stride_messages: 2,
            target_message_ordinal: 2,
            to_seq: 2,
            to_message_id: "m2",
            base_summary_artifact_id: None,
            basis_note: None,
        }
    }

    fn delta(messages: &[(&str, &str)]) -> Delta {
        let mut delta = Delta::default();
        messages.iter().for_each(|(actor, content)| delta.add(actor, content));
        delta
    }

    fn two() -> Delta {
        delta(&[
            ("alice", "Goal: ship compaction status\nTODO: add endpoint\nhello world"),
            ("bob", "fast-path cache 123 cache"),
        ])
    }

    fn sha(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_first_summary_byte_for_byte() {
        let text = summary_markdown(&heading(), None, &two());
        assert_eq!(text.len(), 691, "{text}");
        assert_eq!(sha(text.as_bytes()), "2de10a5122ee7777f2b78a7104ce3fcc7a67c8eb8515678f2b4fe1d488f0228b");
        let summary = Summary {
            schema: SUMMARY_SCHEMA.into(),
            kind: CUMULATIVE.into(),
            coverage: Coverage {
                thread_id: "t1".into(),
                from_seq: 0,
                from_message_id: None,
                to_seq: 2,
                to_message_id: Some("m2".into()),
            },
            provenance: SummaryProvenance {
                actor_id: "alice".into(),
                origin: "cli".into(),
                produced_by: Some(ProducedBy { kind: "job".into(), id: "j1".into() }),
            },
            basis: None,
            summary_markdown: text,
        };
        let bytes = summary.to_bytes();
        assert_eq!(bytes.len(), 964);
        assert_eq!(sha(&bytes), "27169ecddfd54d85c166eae1900259096c07818ee7058fba67bcaeae7e0877f5");
    }

    #[test]
    fn a_later_summary_carries_the_section_of_the_one_before() {
        let base = summary_markdown(&heading(), None, &two());
        let with = Heading { base_summary_artifact_id: Some("f"), basis_note: Some(" "), ..heading() };
        let text = summary_markdown(&with, Some(&base), &delta(&[("carol", "retry retry")]));
        assert!(text.contains("- base_summary_artifact_id: f\n- delta_message_count: 1\n- delta_actors: carol=1\n\n"));
        let section = extract_section(&text).unwrap();
        assert!(section.starts_with("Topics so far (best-effort): cache, add"), "{section}");
        assert!(section.ends_with("- TODO: add endpoint\n\nDelta topics: retry"), "{section}");
        assert!(text.ends_with("## Recent Delta Highlights\n\n- carol: retry retry\n"));
        let plain = summary_markdown(&with, Some("  words \n"), &Delta::default());
        assert!(plain.ends_with(
            "delta_actors: none\n\n## Cumulative Summary\n\nwords\n\n## Recent Delta Highlights\n\n(none)\n"
        ));
    }

    #[test]
    fn words_are_counted_by_bytes_and_bounded() {
        let found = |text: &str| words(text).collect::<Vec<_>>().join(" ");
        assert_eq!(found("a ab abc 123 12a _-_ x_1 É ÉÉ né"), "abc 12a x_1 ÉÉ né");
        assert_eq!(words(&"word ".repeat(3_000)).count(), 512);
        assert_eq!(found(&format!("{} late", "-".repeat(8_190))), "");
        assert!(is_stopword("the") && is_stopword("yours") && !is_stopword("they-re"));
        assert_eq!(STOPWORDS.split_whitespace().count(), 56);
    }

    #[test]
    fn lists_are_bounded_and_say_nothing_twice() {
        let mut many = Delta::default();
        for at in 0..50 {
            many.add("a", &format!("todo {at}\ntodo 0\n{}", "x".repeat(300)));
        }
        assert_eq!((many.notable.len(), many.highlights.len()), (32, 12));
        assert_eq!(many.notable.iter().filter(|line| *line == "todo 0").count(), 1);
        let long = delta(&[("a", &"é".repeat(201)), ("b", " \n ")]);
        let highlight = &long.highlights[0];
        assert_eq!((highlight.chars().count(), highlight.ends_with('…')), (203, true));
        assert_eq!(long.highlights.len(), 1);
        let nine: String = (0..9).map(|at| format!("Fix {at}\n")).collect();
        assert_eq!(delta(&[("a", &nine)]).notable.len(), 8);
    }

    #[test]
    fn a_summary_has_a_largest_size() {
        let text = summary_markdown(&heading(), Some(&"é".repeat(30_000)), &two());
        assert_eq!(text.chars().count(), SUMMARY_CHARS_MAX);
        assert!(text.ends_with('…'));
    }

    #[test]
    fn a_placeholder_says_only_where_it_was_cut() {
        let text = summary_markdown(&heading(), None, &two());
        let head = text.split(SECTION).next().unwrap();
        assert!(is_placeholder(head) && !is_placeholder(&text) && !is_placeholder("words"));
    }
}
