//! Taking a key out of what others say, before anybody keeps or shows it. It may come in pieces.

use std::borrow::Cow;

const INSTEAD: &[u8] = b"[key]";
/// A shorter one is no key, and would be found everywhere.
const KEY_BYTES_MIN: usize = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct Scrubber {
    key: Vec<u8>,
    /// The end of what came, as far as it may be the beginning of the key.
    held: Vec<u8>,
}

impl Scrubber {
    pub fn new(key: Option<&str>) -> Self {
        let key = key.filter(|key| key.len() >= KEY_BYTES_MIN).unwrap_or_default();
        Self { key: key.as_bytes().to_vec(), held: Vec::new() }
    }

    /// What can be said already.
    pub fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(first) = self.key.first() else { return Cow::Borrowed(bytes) };
        if self.held.is_empty() && !bytes.contains(first) {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if rest.starts_with(&self.key) {
                out.extend_from_slice(INSTEAD);
                at += self.key.len();
            } else if self.key.starts_with(rest) {
                break;
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        self.held.drain(..at);
        Cow::Owned(out)
    }

    /// Nothing more comes: what was held back is no key.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    pub fn text(&self, text: &str) -> String {
        let mut whole = Self { key: self.key.clone(), held: Vec::new() };
        let mut bytes = whole.push(text.as_bytes()).into_owned();
        bytes.extend(whole.finish());
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_wherever_it_is_cut() {
        let said = "is sk-se sk-sek-secret or sk-secret?";
        for at in 0..=said.len() {
            let mut scrubber = Scrubber::new(Some("sk-secret"));
            let (head, tail) = said.as_bytes().split_at(at);
            let mut out = scrubber.push(head).into_owned();
            out.extend_from_slice(&scrubber.push(tail));
            out.extend(scrubber.finish());
            assert_eq!(String::from_utf8(out).unwrap(), "is sk-se sk-sek-secret or [key]?", "{at}");
        }
        assert_eq!(Scrubber::new(Some("sk-secret")).text("ends with sk-sec"), "ends with sk-sec");
        assert_eq!(Scrubber::new(None).text("no key"), "no key");
    }
}
