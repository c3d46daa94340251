//! CBOR read in place and written in one spelling (RFC 8949, 4.2.1).
//!
//! Values are looked at where they lie and copied as they are. Nothing here calls itself, so that no nesting of the
//! input can exhaust the stack.

/// Why bytes are no CBOR value, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) reason: &'static str,
}

/// The first bytes of a value: what it is and how long.
#[derive(Clone, Copy)]
struct Head {
    major: u8,
    info: u8,
    /// Of no meaning where `info` is 31.
    argument: u64,
    end: usize,
}

const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;
const INDEFINITE: u8 = 31;
pub(crate) const NULL: &[u8] = &[0xf6];
const TRUE: u8 = 0xf5;
const BREAK: u8 = 0xff;

fn head(bytes: &[u8], at: usize) -> Result<Head, Fault> {
    let fault = |reason| Fault { offset: at, reason };
    let first = *bytes.get(at).ok_or(fault("the bytes end too soon"))?;
    let (major, info) = (first >> 5, first & 31);
    let width = match info {
        0..=23 | INDEFINITE => 0,
        24..=27 => 1 << (info - 24),
        _ => return Err(fault("a reserved length")),
    };
    let tail = bytes.get(at + 1..at + 1 + width).ok_or(fault("the bytes end too soon"))?;
    let argument = match width {
        0 => u64::from(info),
        _ => tail.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    Ok(Head { major, info, argument, end: at + 1 + width })
}

/// A container whose end has not been met.
enum Open {
    Items(u64),
    /// Until a break; true while a map's key waits for its value.
    Unending {
        is_map: bool,
        half: bool,
    },
    /// Pieces of one string, until a break.
    Chunks(u8),
}

/// The end of the value that begins at an offset.
pub(crate) fn skip(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = at;
    loop {
        let head = head(bytes, at)?;
        check_chunk(&open, head, at)?;
        let done = enter(bytes, at, head, &mut open)?;
        at = done.unwrap_or(head.end);
        if done.is_some() && is_complete(&mut open) {
            return Ok(at);
        }
    }
}

fn check_chunk(open: &[Open], head: Head, at: usize) -> Result<(), Fault> {
    let is_break = head.major == SIMPLE && head.info == INDEFINITE;
    match open.last() {
        Some(Open::Chunks(major)) if !is_break && (head.major != *major || head.info == INDEFINITE) => {
            Err(Fault { offset: at, reason: "a string has a piece that is none" })
        }
        Some(Open::Chunks(_) | Open::Items(_) | Open::Unending { .. }) | None => Ok(()),
    }
}

/// Steps over a value and gives its end, or into a container or behind a tag and gives none.
fn enter(bytes: &[u8], at: usize, head: Head, open: &mut Vec<Open>) -> Result<Option<usize>, Fault> {
    let fault = |reason| Fault { offset: at, reason };
    let unending = head.info == INDEFINITE;
    match head.major {
        0 | 1 | TAG if unending => Err(fault("a number without a value")),
        BYTES | TEXT if unending => Ok(push(open, Open::Chunks(head.major))),
        BYTES | TEXT => string_end(bytes, at, head).map(Some),
        ARRAY | MAP if unending => Ok(push(open, Open::Unending { is_map: head.major == MAP, half: false })),
        ARRAY | MAP if head.argument == 0 => Ok(Some(head.end)),
        ARRAY => Ok(push(open, Open::Items(head.argument))),
        MAP => {
            let items = head.argument.checked_mul(2).ok_or(fault("a map larger than can be"))?;
            Ok(push(open, Open::Items(items)))
        }
        TAG => Ok(None),
        SIMPLE if unending => close(open).map(|()| Some(head.end)).ok_or(fault("a break where nothing is open")),
        _ => Ok(Some(head.end)),
    }
}

fn push(open: &mut Vec<Open>, container: Open) -> Option<usize> {
    open.push(container);
    None
}

fn close(open: &mut Vec<Open>) -> Option<()> {
    match open.pop()? {
        Open::Chunks(_) | Open::Unending { half: false, .. } => Some(()),
        Open::Items(_) | Open::Unending { half: true, .. } => None,
    }
}

fn string_end(bytes: &[u8], at: usize, head: Head) -> Result<usize, Fault> {
    let fault = |reason| Fault { offset: at, reason };
    let length = usize::try_from(head.argument).map_err(|_| fault("a string larger than can be"))?;
    let end = head.end.checked_add(length).filter(|end| *end <= bytes.len());
    let end = end.ok_or(fault("a string runs past the end"))?;
    if head.major == TEXT && std::str::from_utf8(&bytes[head.end..end]).is_err() {
        return Err(fault("a text is not UTF-8"));
    }
    Ok(end)
}

/// Counts a finished value in its container; true when no container is left open.
fn is_complete(open: &mut Vec<Open>) -> bool {
    while let Some(container) = open.last_mut() {
        match container {
            Open::Items(left) => {
                *left -= 1;
                if *left > 0 {
                    return false;
                }
                open.pop();
            }
            Open::Unending { is_map, half } => {
                *half = *is_map && !*half;
                return false;
            }
            Open::Chunks(_) => return false,
        }
    }
    true
}

/// An array's elements, with the offset at which each begins.
pub(crate) fn elements(bytes: &[u8]) -> Result<Vec<(usize, &[u8])>, Fault> {
    let start = head(bytes, 0)?;
    if bytes.starts_with(NULL) {
        return Ok(Vec::new());
    }
    if start.major != ARRAY {
        return Err(Fault { offset: 0, reason: "expected an array" });
    }
    children(bytes, start).map(|(elements, _)| elements)
}

/// Where an array or a null that stands for one ends.
pub(crate) fn array_end(bytes: &[u8]) -> Result<usize, Fault> {
    skip(bytes, 0)
}

type Children<'a> = (Vec<(usize, &'a [u8])>, usize);

fn children(bytes: &[u8], start: Head) -> Result<Children<'_>, Fault> {
    let mut at = start.end;
    let count = if start.info == INDEFINITE { None } else { Some(start.argument) };
    let count = if start.major == MAP { count.map(|count| count.saturating_mul(2)) } else { count };
    let mut found = Vec::new();
    while count.is_none_or(|count| (found.len() as u64) < count) {
        if count.is_none() && bytes.get(at) == Some(&BREAK) {
            return Ok((found, at + 1));
        }
        let end = skip(bytes, at)?;
        found.push((at, &bytes[at..end]));
        at = end;
    }
    Ok((found, at))
}

/// The members of a map whose keys are text; other keys are passed over.
#[derive(Debug)]
pub(crate) struct Map<'a>(Vec<(String, &'a [u8])>);

impl<'a> Map<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let start = head(bytes, 0).ok().filter(|start| start.major == MAP)?;
        let (found, _) = children(bytes, start).ok()?;
        let pairs = found.chunks_exact(2);
        Some(Self(pairs.filter_map(|pair| Some((text(pair[0].1)?, pair[1].1))).collect()))
    }

    /// The value under a key; null is as good as none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a [u8]> {
        let (_, value) = *self.0.iter().rfind(|(name, _)| name == key)?;
        Some(value).filter(|value| *value != NULL)
    }

    pub(crate) fn map(&self, key: &str) -> Option<Map<'a>> {
        Map::parse(self.get(key)?)
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some(&[TRUE])
    }

    pub(crate) fn int(&self, key: &str) -> Option<i64> {
        let value = self.get(key)?;
        let head = head(value, 0).ok()?;
        let magnitude = i64::try_from(head.argument).ok()?;
        match head.major {
            0 => Some(magnitude),
            1 => Some(-1 - magnitude),
            _ => None,
        }
    }

    /// The bytes of a byte string or of a text.
    pub(crate) fn octets(&self, key: &str) -> Option<Vec<u8>> {
        string(self.get(key)?)
    }
}

fn text(value: &[u8]) -> Option<String> {
    if head(value, 0).ok()?.major != TEXT {
        return None;
    }
    String::from_utf8(string(value)?).ok()
}

/// The bytes of a string, put together if it came in pieces.
fn string(value: &[u8]) -> Option<Vec<u8>> {
    let start = head(value, 0).ok().filter(|start| start.major == BYTES || start.major == TEXT)?;
    if start.info != INDEFINITE {
        return value.get(start.end..string_end(value, 0, start).ok()?).map(<[u8]>::to_vec);
    }
    let (pieces, _) = children(value, start).ok()?;
    let pieces: Option<Vec<Vec<u8>>> = pieces.iter().map(|(_, piece)| string_piece(piece)).collect();
    Some(pieces?.concat())
}

fn string_piece(piece: &[u8]) -> Option<Vec<u8>> {
    let start = head(piece, 0).ok().filter(|start| start.info != INDEFINITE)?;
    piece.get(start.end..).map(<[u8]>::to_vec)
}

// Writing.

/// The head of a value, in the fewest bytes.
fn write_head(major: u8, argument: u64) -> Vec<u8> {
    let (info, width) = match argument {
        0..=23 => (argument as u8, 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    let mut out = vec![major << 5 | info];
    out.extend_from_slice(&argument.to_be_bytes()[8 - width..]);
    out
}

pub(crate) fn write_array_head(count: u64) -> Vec<u8> {
    write_head(ARRAY, count)
}

pub(crate) fn write_array(items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = write_array_head(items.len() as u64);
    items.iter().for_each(|item| out.extend_from_slice(item));
    out
}

pub(crate) fn write_text(text: &str) -> Vec<u8> {
    let mut out = write_head(TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
    out
}

pub(crate) fn write_octets(bytes: &[u8]) -> Vec<u8> {
    let mut out = write_head(BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

pub(crate) fn write_int(value: i64) -> Vec<u8> {
    match u64::try_from(value) {
        Ok(value) => write_head(0, value),
        Err(_) => write_head(1, value.unsigned_abs() - 1),
    }
}

pub(crate) fn write_flag(flag: bool) -> Vec<u8> {
    vec![if flag { TRUE } else { 0xf4 }]
}

/// Keys are sorted by the bytes they are written in: shorter ones first.
pub(crate) fn write_map<'k>(members: impl IntoIterator<Item = (&'k str, Vec<u8>)>) -> Vec<u8> {
    let mut members: Vec<(Vec<u8>, Vec<u8>)> =
        members.into_iter().map(|(key, value)| (write_text(key), value)).collect();
    members.sort();
    let mut out = write_head(MAP, members.len() as u64);
    for (key, value) in members {
        out.extend_from_slice(&key);
        out.extend_from_slice(&value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(hex: &str) -> Result<usize, &'static str> {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        skip(&bytes, 0).map_err(|fault| fault.reason)
    }

    #[test]
    fn a_value_ends_where_it_ends() {
        for (hex, end) in [
            ("00", 1),
            ("1818", 2),
            ("83010203", 4),
            ("9f0102ff", 4),
            ("9f9f01ff8102ff", 7),
            ("bf616101ff", 5),
            ("829f01ff02", 5),
            ("a26161019f02ff03", 8),
            ("7f61616162ff", 6),
            ("c11a6955b900", 6),
            ("f97e00", 3),
            ("fb3ff0000000000000", 9),
            ("f820", 2),
        ] {
            assert_eq!(ends(hex), Ok(end), "{hex}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for hex in [
            "",
            "18",
            "ff",
            "81ff",
            "bf6161ff",
            "61ff",
            "62c328",
            "7f4161ff",
            "9f",
            "1c",
            "bbffffffffffffffff",
            "1f",
            "5b7fffffffffffffff00",
        ] {
            assert!(ends(hex).is_err(), "{hex}");
        }
        let deep = [vec![0x81; 1 << 20], vec![0]].concat();
        assert_eq!(skip(&deep, 0), Ok(deep.len()));
    }

    #[test]
    fn numbers_are_written_in_the_fewest_bytes() {
        for (value, expected) in
            [(0, vec![0]), (23, vec![23]), (24, vec![0x18, 24]), (256, vec![0x19, 1, 0]), (-1, vec![0x20])]
        {
            assert_eq!(write_int(value), expected);
        }
        let map = Map::parse(&write_map([("n", write_int(i64::MIN)), ("t", write_text("x"))]))
            .map(|map| (map.int("n"), map.text("t")));
        assert_eq!(map, Some((Some(i64::MIN), Some("x".to_owned()))));
    }
}
