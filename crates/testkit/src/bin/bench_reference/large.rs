//! Transcripts of the sizes that people report: a session of a gigabyte, a line of many megabytes, a rollout that tells
//! the same images again at every compaction.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Problem;
use crate::material::{Dice, Writer};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One session, until there are so many bytes.
pub(crate) fn write_session(path: &Path, bytes: usize) -> Result<String, Problem> {
    let mut writer = Writer::new();
    let mut out = BufWriter::new(File::create(path)?);
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        let text = writer.session(number);
        out.write_all(&text)?;
        written += text.len();
        number += 1;
    }
    out.flush()?;
    Ok(format!("a session of {written} bytes"))
}

/// One prompt of so many bytes, on one line.
pub(crate) fn write_line(path: &Path, bytes: usize) -> Result<String, Problem> {
    let mut out = BufWriter::new(File::create(path)?);
    write!(
        out,
        r#"{{"parentUuid":null,"isSidechain":false,"sessionId":"long","uuid":"u1","cwd":"/home/dev","type":"user","#
    )?;
    write!(out, r#""timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":""#)?;
    let mut dice = Dice::new("line", 0);
    for _ in 0..bytes / 64 {
        out.write_all(base64(&mut dice, 64).as_bytes())?;
    }
    out.write_all(b"\"}}\n")?;
    out.flush()?;
    Ok(format!("a line of about {bytes} bytes"))
}

/// A rollout of Codex with images in base64, all of which each compaction tells again.
pub(crate) fn write_rollout(path: &Path, images: u64, bytes: usize, times: u64) -> Result<String, Problem> {
    let mut out = BufWriter::new(File::create(path)?);
    let pictures: Vec<String> = (0..images).map(|number| base64(&mut Dice::new("image", number), bytes)).collect();
    let at = "2026-01-01T00:00:00.000Z";
    writeln!(
        out,
        r#"{{"timestamp":"{at}","type":"session_meta","payload":{{"id":"0199a213-81c0-7800-8aa1-bbab2a035a53","timestamp":"{at}","cwd":"/home/dev","originator":"codex_cli_rs","cli_version":"0.46.0"}}}}"#
    )?;
    for time in 0..times {
        write!(
            out,
            r#"{{"timestamp":"{at}","type":"compacted","payload":{{"message":"so far {time}","replacement_history":["#
        )?;
        for (number, picture) in pictures.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(
                out,
                r#"{comma}{{"type":"message","role":"user","content":[{{"type":"input_image","image_url":"data:image/png;base64,{picture}"}}]}}"#
            )?;
        }
        writeln!(out, "]}}}}")?;
        writeln!(
            out,
            r#"{{"timestamp":"{at}","type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"step {time}"}}]}}}}"#
        )?;
    }
    out.flush()?;
    Ok(format!("a rollout with {images} images of {bytes} bytes, {times} times"))
}

/// Random bytes as text: nothing makes them smaller than three quarters of that.
fn base64(dice: &mut Dice, len: usize) -> String {
    let mut text = String::with_capacity(len + 10);
    while text.len() < len {
        let word = dice.next();
        text.extend((0..10).map(|digit| char::from(BASE64[(word >> (digit * 6)) as usize & 63])));
    }
    text.truncate(len);
    text
}
