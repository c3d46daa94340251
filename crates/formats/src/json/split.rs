//! The members of an object and the values of an array, of a text that is known to be JSON: where each ends is found without
//! reading what is in it, so that a long string costs no more than a look for its end.

use std::borrow::Cow;

use super::scan;

/// The members of an object, in order; `None` when the text is no object.
pub(super) fn members(text: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut cursor = Cursor { text, at: 0 };
    let mut found = Vec::with_capacity(16);
    if cursor.begins(b'{')? {
        return cursor.is_done().then_some(found);
    }
    loop {
        let key = cursor.key()?;
        cursor.take(b':')?;
        found.push((key, cursor.value()?));
        match cursor.next()? {
            b',' => {}
            b'}' => return cursor.is_done().then_some(found),
            _ => return None,
        }
    }
}

/// The values of an array, in order; `None` when the text is no array.
pub(super) fn values(text: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor { text, at: 0 };
    let mut found = Vec::new();
    if cursor.begins(b'[')? {
        return cursor.is_done().then_some(found);
    }
    loop {
        found.push(cursor.value()?);
        match cursor.next()? {
            b',' => {}
            b']' => return cursor.is_done().then_some(found),
            _ => return None,
        }
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next byte that is no space, which is taken.
    fn next(&mut self) -> Option<u8> {
        self.skip_space();
        let found = *self.bytes().get(self.at)?;
        self.at += 1;
        Some(found)
    }

    fn skip_space(&mut self) {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.bytes()[self.at..].iter().take_while(is_space).count();
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// Takes what a list begins with; whether it is over at once.
    fn begins(&mut self, open: u8) -> Option<bool> {
        self.take(open)?;
        self.skip_space();
        let is_over = *self.bytes().get(self.at)? == open + 2;
        self.at += usize::from(is_over);
        Some(is_over)
    }

    fn is_done(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn key(&mut self) -> Option<Cow<'a, str>> {
        self.skip_space();
        let raw = self.string()?;
        let inner = &raw[1..raw.len() - 1];
        if inner.contains('\\') { Some(Cow::Owned(super::text(raw)?)) } else { Some(Cow::Borrowed(inner)) }
    }

    fn value(&mut self) -> Option<&'a str> {
        self.skip_space();
        match self.bytes().get(self.at)? {
            b'"' => self.string(),
            b'{' | b'[' => self.nested(),
            _ => {
                let rest = &self.text[self.at..];
                let len = rest.find([',', '}', ']', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                self.at += len;
                (len > 0).then(|| &rest[..len])
            }
        }
    }

    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        (*self.bytes().get(start)? == b'"').then_some(())?;
        self.at = scan::string_end(self.bytes(), start + 1)? + 1;
        self.text.get(start..self.at)
    }

    /// An object or an array, whatever is in it.
    fn nested(&mut self) -> Option<&'a str> {
        let (start, mut depth) = (self.at, 0_u32);
        loop {
            match self.bytes().get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use enjamb_core::json::Members;
    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            r#"[\\"{}\[\],: a\n]{0,12}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((r#"[\\"{}:,a\n]{0,6}"#, inner), 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    fn compare(text: &str) {
        let expected = Members::parse(text)
            .ok()
            .map(|members| members.iter().map(|(key, raw)| (key.to_owned(), raw.get().to_owned())).collect::<Vec<_>>());
        let found = members(text).map(|members| {
            members.into_iter().map(|(key, raw)| (key.into_owned(), raw.to_owned())).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{text}");
        let expected: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
        assert_eq!(values(text), expected.map(|values| values.into_iter().map(RawValue::get).collect()), "{text}");
    }

    proptest! {
        #[test]
        fn what_a_parser_finds_is_found(value in value()) {
            compare(&value.to_string());
            compare(&serde_json::to_string_pretty(&value).unwrap());
        }
    }

    #[test]
    fn space_duplicates_and_numbers_of_any_size_stay() {
        compare(" { \"a\" : 1e999999 ,\n\t\"a\":[ ] , \"\\u0061\":{ } } \r\n");
        compare("[ 1 , \"\\\\\" , \"\\\"]\" , [ [ ] ] ]");
        compare("{}");
        compare("[]");
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_nothing() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":\"\\",
            "[1",
            "[\"",
            "{} x",
            "[] 1",
            "7",
            "\"a\"",
            "{1:2}",
            "{,}",
        ] {
            assert_eq!((members(text), values(text)), (None, None), "{text}");
        }
    }
}
