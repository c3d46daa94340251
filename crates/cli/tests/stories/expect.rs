//! Expected answers, in which `[..]` stands for what differs from run to run.

use serde_json::Value;

/// Compares an answer with what was expected, line by line.
#[track_caller]
pub fn check(answer: &str, expected: &str) {
    let expected = expected.strip_prefix('\n').unwrap_or(expected);
    let lines = (answer.lines().count(), expected.lines().count());
    let fits = lines.0 == lines.1 && answer.lines().zip(expected.lines()).all(|(line, pattern)| fits(line, pattern));
    assert!(fits, "expected:\n{expected}\nanswered:\n{answer}");
}

/// Compares a document with what was expected: the same members, and values that fit.
#[track_caller]
pub fn check_json(answer: &Value, expected: &Value) {
    assert!(fits_json(answer, expected), "expected:\n{expected:#}\nanswered:\n{answer:#}");
}

fn fits_json(answer: &Value, expected: &Value) -> bool {
    match (answer, expected) {
        (Value::Object(answer), Value::Object(expected)) => {
            answer.len() == expected.len()
                && expected.iter().all(|(key, value)| answer.get(key).is_some_and(|found| fits_json(found, value)))
        }
        (Value::Array(answer), Value::Array(expected)) => {
            answer.len() == expected.len() && answer.iter().zip(expected).all(|(found, value)| fits_json(found, value))
        }
        (Value::String(answer), Value::String(pattern)) => fits(answer, pattern),
        (answer, Value::String(pattern)) => fits(&answer.to_string(), pattern),
        (answer, expected) => answer == expected,
    }
}

/// Whether a line is what a pattern says, `[..]` being anything.
fn fits(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[test]
fn a_pattern_stands_for_its_words_and_anything_between() {
    for (line, pattern, expected) in [
        ("a b", "a b", true),
        ("a b c", "a b", false),
        ("a 17 c", "a [..] c", true),
        ("a 17 c", "a [..]", true),
        ("a 17 c", "[..] c[..]", true),
        ("a 17 c", "[..] d", false),
        ("x", "y", false),
    ] {
        assert_eq!(fits(line, pattern), expected, "{line:?} {pattern:?}");
    }
}
