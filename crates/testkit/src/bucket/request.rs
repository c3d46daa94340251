//! A request as it comes.

use std::collections::HashMap;
use std::io::{self, BufRead};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How many came before it.
    pub number: usize,
    pub method: String,
    /// The name of the object, without the bucket's.
    pub key: String,
    pub query: HashMap<String, String>,
    /// With names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Asked {
    /// Reads one; `None` when there is none any more.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key).to_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair =
            |pair: &str| pair.split_once('=').map_or((pair.into(), String::new()), |(k, v)| (k.into(), v.into()));
        let query = pairs.map(pair).collect();
        let headers = read_headers(reader)?;
        let len = headers.get("content-length").and_then(|len: &String| len.parse().ok()).unwrap_or(0);
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        Ok(Some(Self { number: 0, method, key, query, headers, body }))
    }

    /// The bytes that are wanted of an object of so many.
    pub(super) fn range(&self, len: usize) -> Option<std::ops::Range<usize>> {
        let wanted = self.headers.get("range")?.strip_prefix("bytes=")?;
        let (from, to) = wanted.split_once('-')?;
        match (from.parse().ok(), to.parse::<usize>().ok()) {
            (None, Some(last)) => Some(len.saturating_sub(last)..len),
            (Some(from), None) => Some(from..len),
            (Some(from), Some(to)) => Some(from..len.min(to + 1)),
            (None, None) => None,
        }
    }
}

fn read_headers(reader: &mut impl BufRead) -> io::Result<HashMap<String, String>> {
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            return Ok(headers);
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
}
