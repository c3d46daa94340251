//! What the workloads are fed with: the same bytes on every machine and in every run.
//!
//! Transcripts look like those of coding agents: JSON lines of 300 bytes to 20 kB, a few tool results of up to 1 MB, and
//! files that are read again and again, so that about a seventh of all bytes are repeats across sessions.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Problem;

const SEED: u64 = 42;
const LINES_IN_POOL: u64 = 60_000;
const SHARED_FILES: u64 = 400;

/// Deltas cut from sessions, all of one length.
pub(crate) fn write_deltas(path: &Path, count: usize, bytes: usize) -> Result<String, Problem> {
    let mut writer = Writer::new();
    let mut out = BufWriter::new(File::create(path)?);
    let (mut text, mut session) = (Vec::new(), 1_000_000);
    for _ in 0..count {
        while text.len() < bytes {
            text.extend(writer.session(session));
            session += 1;
        }
        let rest = text.split_off(bytes);
        out.write_all(&(bytes as u32).to_le_bytes())?;
        out.write_all(&text)?;
        text = rest;
    }
    out.flush()?;
    Ok(format!("{count} deltas of {bytes} bytes"))
}

pub(crate) fn read_deltas(path: &Path) -> Result<Vec<Vec<u8>>, Problem> {
    let bytes = fs::read(path)?;
    let mut rest = bytes.as_slice();
    let mut deltas = Vec::new();
    while let Some((len, tail)) = rest.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let (delta, tail) = tail.split_at_checked(len).ok_or("the file of deltas is cut short")?;
        deltas.push(delta.to_vec());
        rest = tail;
    }
    Ok(deltas)
}

/// One file a session, until there are so many bytes.
pub(crate) fn write_transcripts(dir: &Path, bytes: usize) -> Result<String, Problem> {
    let mut writer = Writer::new();
    let (mut written, mut sessions) = (0, 0);
    while written < bytes {
        let text = writer.session(sessions);
        fs::write(dir.join(format!("session-{sessions:04}.jsonl")), &text)?;
        written += text.len();
        sessions += 1;
    }
    Ok(format!("{sessions} sessions of {written} bytes together"))
}

/// One file of text that does not repeat.
pub(crate) fn write_artifact(path: &Path, bytes: usize) -> Result<String, Problem> {
    let writer = Writer::new();
    let mut dice = Dice::new("artifact", 0);
    let mut out = BufWriter::new(File::create(path)?);
    let mut left = bytes;
    while left > 0 {
        let text = writer.text(&mut dice, left.min(1 << 20));
        out.write_all(text.as_bytes())?;
        left -= text.len();
    }
    out.flush()?;
    Ok(format!("a file of {bytes} bytes"))
}

/// Writes text like code: short runs of known lines, with names and numbers that occur once.
pub(crate) struct Writer {
    words: Vec<String>,
    lines: Vec<String>,
    shared: HashMap<u64, String>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        let mut dice = Dice::new("pool", 0);
        let words: Vec<String> = (0..6_000).map(|_| dice.word()).collect();
        let lines = (0..LINES_IN_POOL).map(|_| line(&mut dice, &words)).collect();
        Self { words, lines, shared: HashMap::new() }
    }

    /// Text of exactly so many bytes, all of them ASCII and none in need of an escape but the ends of lines.
    fn text(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 256);
        while text.len() < bytes {
            let start = dice.below(LINES_IN_POOL) as usize;
            let end = (start + 1 + dice.below(5) as usize).min(self.lines.len());
            for line in &self.lines[start..end] {
                text.push_str(line);
                match dice.below(100) {
                    0..45 => text.push_str(&format!(" {}_{}", self.word(dice), self.word(dice))),
                    45..55 => text.push_str(&format!(" 0x{:08x}", dice.below(1 << 32))),
                    _ => {}
                }
                text.push('\n');
            }
        }
        text.truncate(bytes);
        text
    }

    fn word(&self, dice: &mut Dice) -> &str {
        &self.words[dice.below(self.words.len() as u64) as usize]
    }

    /// A file that many sessions read.
    fn shared_file(&mut self, number: u64) -> String {
        if let Some(text) = self.shared.get(&number) {
            return text.clone();
        }
        let mut dice = Dice::new("file", number);
        let bytes = dice.log_normal(8.6, 0.9).clamp(1_500.0, 60_000.0) as usize;
        let text = self.text(&mut dice, bytes);
        self.shared.insert(number, text.clone());
        text
    }

    /// The JSON lines of a session.
    pub(crate) fn session(&mut self, number: u64) -> Vec<u8> {
        let mut dice = Dice::new("session", number);
        let id = dice.hex(32);
        let lines = dice.log_normal(400_f64.ln(), 0.5).max(40.0) as u64;
        let (mut out, mut parent) = (Vec::new(), "null".to_owned());
        for index in 0..lines {
            let uuid = format!("\"{}\"", dice.hex(32));
            let message = self.message(&mut dice, index);
            let line = format!(
                "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/home/dev/alpha\",\
                 \"sessionId\":\"{id}\",\"version\":\"2.0.31\",\"gitBranch\":\"main\",{message},\"uuid\":{uuid},\
                 \"timestamp\":\"2026-01-{:02}T{:02}:{:02}:{:02}.000Z\"}}\n",
                1 + number % 28,
                index / 3600 % 24,
                index / 60 % 60,
                index % 60
            );
            out.extend(line.into_bytes());
            parent = uuid;
        }
        out
    }

    fn message(&mut self, dice: &mut Dice, index: u64) -> String {
        let bytes = (dice.log_normal(7.1, 1.05).clamp(300.0, 20_000.0) as usize).saturating_sub(400).max(20);
        match index % 4 {
            3 => self.tool_result(dice, bytes),
            0 if index.is_multiple_of(8) => {
                let text = escaped(&self.text(dice, bytes));
                format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#)
            }
            _ => {
                let (text, id) = (escaped(&self.text(dice, bytes)), dice.hex(22));
                let (read, output) = (dice.below(190_000), dice.below(2_000));
                format!(
                    r#""type":"assistant","message":{{"id":"msg_{id}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}}],"usage":{{"cache_read_input_tokens":{read},"output_tokens":{output}}}}}"#
                )
            }
        }
    }

    fn tool_result(&mut self, dice: &mut Dice, bytes: usize) -> String {
        let text = match dice.below(1_000) {
            0..16 => {
                let bytes = (100e3 * 10_f64.powf(dice.part())) as usize;
                self.text(dice, bytes)
            }
            16..370 => self.shared_file((SHARED_FILES as f64 * dice.part().powi(2)) as u64),
            _ => self.text(dice, bytes),
        };
        let (id, text) = (dice.hex(24), escaped(&text));
        format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_{id}","type":"tool_result","content":"{text}"}}]}}"#
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// A line of code, more or less.
fn line(dice: &mut Dice, words: &[String]) -> String {
    let mut line = "    ".repeat(dice.below(4) as usize);
    for _ in 0..2 + dice.below(6) {
        // Few words are used often and most are used seldom.
        let index = (words.len() as f64 * dice.part().powi(3)) as usize;
        line.push_str(&words[index]);
        line.push_str([" ", "(", ") ", ", ", " = ", ".", "_", ": "][dice.below(8) as usize]);
    }
    line
}

/// SplitMix64: small, and the same everywhere.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(what: &str, number: u64) -> Self {
        let mixed = what.bytes().fold(SEED, |mixed, byte| mixed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        let mut dice = Self(mixed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From 0 to below 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Twelve parts make a bell curve that is near enough.
    fn log_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let bell = (0..12).map(|_| self.part()).sum::<f64>() - 6.0;
        (mean + deviation * bell).exp()
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| char::from_digit(self.below(16) as u32, 16).unwrap_or('0')).collect()
    }

    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 16] =
            ["re", "con", "ta", "ble", "in", "put", "er", "lo", "ma", "se", "ti", "on", "de", "pa", "vi", "ck"];
        (0..2 + self.below(3)).map(|_| SYLLABLES[self.below(16) as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_session_is_the_same_bytes() {
        let (mut one, mut other) = (Writer::new(), Writer::new());
        other.session(3);
        let session = one.session(7);
        assert_eq!(session, other.session(7));
        assert_ne!(session, one.session(8));
    }

    #[test]
    fn a_session_is_lines_of_text() {
        let session = String::from_utf8(Writer::new().session(7)).unwrap();
        assert!(session.lines().all(|line| line.starts_with("{\"parentUuid\":") && line.ends_with("Z\"}")));
        assert!((300_000..3_000_000).contains(&session.len()), "{}", session.len());
    }
}
