//! Words for a screen. A transcript is hostile text and may hold secrets: nothing stored is shown but through [`safe`].

use std::borrow::Cow;

use enjamb_core::redact::mask;

/// The text without secrets, and with everything escaped that could move the cursor, change the terminal, or hide what it
/// says.
pub fn safe(text: &str) -> Cow<'_, str> {
    let text = mask(text);
    if !text.chars().any(is_hostile) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hostile(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// As [`safe`], for what stands on one line: a name with a line break in it cannot pass for two.
pub fn safe_line(text: &str) -> String {
    safe(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// A document on one line. Strings say the same but for secrets, with everything hostile in them escaped as JSON does.
pub fn safe_json(value: &serde_json::Value) -> String {
    let json = value.to_string();
    let json = mask(&json).into_owned();
    if !json.chars().any(is_hostile) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hostile(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn is_hostile(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // C0, DEL and C1 controls.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Zero-width, bidirectional and other invisible format characters; variation selectors and tags.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// A size with the unit that suits it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A count with its thousands apart.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How long ago something was, in the unit that suits it.
pub fn ago(now_ms: u64, then_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// "1 frame", "2 frames".
pub fn plural(number: u64, word: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {word}{s}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_point_leaks_control_of_a_terminal() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = c.to_string();
            let shown = safe(&text);
            assert!(shown.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{c:?}");
        }
        assert_eq!(safe("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(safe("žluťoučký 🐎"), "žluťoučký 🐎");
    }

    #[test]
    fn no_secret_is_shown() {
        let key = ["AKI", "AQ3EGRTY7LMN2X5ZW"].concat();
        assert_eq!(safe(&format!("is {key} right?")), "is [redacted:aws-access-token] right?");
        let shown = safe_json(&serde_json::json!({"a": [format!("x\n{key}")]}));
        assert_eq!(shown, r#"{"a":["x\n[redacted:aws-access-token]"]}"#);
    }

    #[test]
    fn hostile_json_says_the_same() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{e0041}\u{202e}\u{1b}", "b": "ž"});
        let shown = safe_json(&value);
        assert!(shown.contains(r"\u009b31m\udb40\udc41\u202e\u001b") && shown.contains('ž'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn numbers_read_well() {
        let sizes: Vec<_> = [0, 999, 1000, 1_250_000, 99_600_000].into_iter().map(bytes).collect();
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.2 MB", "100 MB"]);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(ago(100_000, 1_000), "1 min");
        assert_eq!(plural(1, "frame"), "1 frame");
    }
}
