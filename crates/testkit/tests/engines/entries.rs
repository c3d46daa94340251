//! Numbered batches whose every byte follows from the number, so that whatever is found can be told right from wrong.

use std::collections::BTreeSet;

use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::{Batch, Ledger, LedgerError, NewArtifact, StreamOrder};
use enjamb_testkit::make::{self, output, stream};

/// Over how many streams the batches are spread.
pub const STREAMS: u64 = 3;
/// Every batch puts a frame there too, so that groups of batches contend for its seqs.
pub const SHARED: &str = "session/shared";

/// A frame in the batch's own stream, one in the shared stream, and the bytes that both name.
pub fn batch(number: u64) -> Batch {
    let payload = output(&text(number));
    Batch {
        artifacts: vec![NewArtifact::from_bytes(content(number))],
        frames: vec![make::frame(&own_stream(number), &payload), make::frame(&stream(SHARED), &payload)],
        ..Batch::default()
    }
}

/// From this number on batches are so large that a few dozen fill the write-ahead log.
pub const LARGE: u64 = 10_000;

/// The bytes that a batch stores; some are longer than a page of the log.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = match number {
        LARGE.. => vec![number as u8; 500_000],
        _ if number.is_multiple_of(7) => vec![number as u8; 20_000],
        _ => (0..number * 977 % 3_000).map(|at| (at * 31 + number * 7) as u8).collect(),
    };
    bytes.extend(number.to_le_bytes());
    bytes
}

fn own_stream(number: u64) -> StreamId {
    stream(&format!("session/{}", number % STREAMS))
}

/// The number begins the text, so that it can be found again.
fn text(number: u64) -> String {
    format!("{number} {} {}", ArtifactId::of(&content(number)), "x".repeat((number * 131 % 900) as usize))
}

/// The batches that are there, each of them whole and once; or what is wrong.
pub fn batches_in(ledger: &dyn Ledger) -> Result<BTreeSet<u64>, String> {
    let mut own = Vec::new();
    for summary in ledger.streams(None, StreamOrder::Name, 1_000).map_err(said)? {
        if summary.stream != stream(SHARED) {
            own.extend(numbers_in(ledger, &summary.stream)?);
        }
    }
    let shared = BTreeSet::from_iter(numbers_in(ledger, &stream(SHARED))?);
    let found = BTreeSet::from_iter(own.iter().copied());
    if found.len() != own.len() || found != shared {
        return Err(format!("batches are there in part or twice: {own:?} and {shared:?}"));
    }
    for number in &found {
        if make::read(ledger, &ArtifactId::of(&content(*number))).map_err(said)? != content(*number) {
            return Err(format!("the bytes of batch {number} are not what was stored"));
        }
    }
    Ok(found)
}

/// The numbers of the batches that a stream has frames of, in order, each frame checked byte for byte.
pub fn numbers_in(ledger: &dyn Ledger, of: &StreamId) -> Result<Vec<u64>, String> {
    let next_seq = ledger.stream(of).map_err(said)?.map_or(0, |summary| summary.next_seq);
    let frames = ledger.frames(of, 0, 100_000).map_err(said)?;
    if frames.len() as u64 != next_seq {
        return Err(format!("{of} has {} frames of {next_seq}", frames.len()));
    }
    let numbered = (0..).zip(&frames).map(|(seq, frame)| number_of(of, seq, &frame.json));
    numbered.collect()
}

fn number_of(of: &StreamId, seq: u64, json: &[u8]) -> Result<u64, String> {
    let json = String::from_utf8_lossy(json);
    let wrong = || format!("frame {seq} of {of} is {json}");
    let delta = json.split(r#""delta":""#).nth(1);
    let number = delta.and_then(|delta| delta.split(' ').next()?.parse().ok()).ok_or_else(wrong)?;
    let expected = format!(
        r#"{{"id":"f1","session_id":"{id}","stream_kind":"session","stream_id":"{id}","timestamp_ms":{at},"seq":{seq},"type":"output_text_delta","delta":"{text}"}}"#,
        id = of.id,
        at = make::AT_MS,
        text = text(number)
    );
    if json == expected { Ok(number) } else { Err(wrong()) }
}

fn said(error: LedgerError) -> String {
    error.to_string()
}
