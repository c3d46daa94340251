//! Artifacts far larger than memory may be: in and out through pipes, whole and in part.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::thread;

use enjamb_core::{ArtifactId, Digest, Hasher};

use crate::runner::{Enjamb, finish, watch_peak};

const BLOCKS: u64 = 300;
const BLOCK_BYTES: usize = 1_000_000;
const PEAK_MIB_MAX: u64 = 150;

/// Every other block is noise; the ones between are text that repeats itself.
fn block(n: u64) -> Vec<u8> {
    if n.is_multiple_of(2) {
        let line = format!("{n}: the same line of a build log, again and again and again\n");
        let mut text = line.repeat(BLOCK_BYTES / line.len() + 1).into_bytes();
        text.truncate(BLOCK_BYTES);
        return text;
    }
    let mut noise = vec![0; BLOCK_BYTES];
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in noise.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    noise
}

fn digest_of(from: u64, to: u64) -> Digest {
    let mut hasher = Hasher::new();
    for n in from..to {
        hasher.update(&block(n));
    }
    hasher.finish()
}

/// Puts the blocks through a pipe; the id that was answered, whether the bytes were known, and the peak in MiB.
fn put(enjamb: &Enjamb) -> (String, bool, u64) {
    let mut command = enjamb.command(&["put", "--json"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (pid, mut input) = (child.id(), child.stdin.take().unwrap());
    thread::scope(|scope| {
        let peak = scope.spawn(move || watch_peak(pid));
        scope.spawn(move || (0..BLOCKS).for_each(|n| input.write_all(&block(n)).unwrap()));
        let stored = finish(child).done().document()["artifacts"][0].take();
        let id = stored["id"].as_str().unwrap().to_owned();
        (id, stored["known"].as_bool().unwrap(), peak.join().unwrap())
    })
}

/// Gets bytes through a pipe, and returns their digest and the peak in MiB.
fn get(enjamb: &Enjamb, arguments: &[&str]) -> (Digest, u64) {
    let mut child: Child = enjamb.command(&[&["get"], arguments].concat()).spawn().unwrap();
    let (pid, mut output) = (child.id(), child.stdout.take().unwrap());
    let peak = thread::spawn(move || watch_peak(pid));
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match output.read(&mut buffer).unwrap() {
            0 => break,
            read => _ = hasher.update(&buffer[..read]),
        }
    }
    assert!(child.wait().unwrap().success());
    (hasher.finish(), peak.join().unwrap())
}

#[test]
fn three_hundred_megabytes_go_in_and_come_out_in_bounded_memory() {
    let enjamb = Enjamb::with_store();
    let whole = digest_of(0, BLOCKS);
    let (id, known, put_mib) = put(&enjamb);
    assert_eq!((id.parse(), known), (Ok(ArtifactId::from_digest(whole)), false));
    let (digest, get_mib) = get(&enjamb, &[&id]);
    assert_eq!(digest, whole);
    println!("peak of put {put_mib} MiB, of get {get_mib} MiB");
    assert!(put_mib <= PEAK_MIB_MAX && get_mib <= PEAK_MIB_MAX, "put {put_mib} MiB, get {get_mib} MiB");

    let bytes = |n: u64| n * BLOCK_BYTES as u64;
    let range = format!("{}-{}", bytes(101), bytes(203) - 1);
    assert_eq!(get(&enjamb, &[&id, "--range", &range]).0, digest_of(101, 203));
    let range = format!("{}-", bytes(BLOCKS - 3));
    assert_eq!(get(&enjamb, &[&id, "--range", &range]).0, digest_of(BLOCKS - 3, BLOCKS));

    let segments = || enjamb.json::<&str>(&[])["disk"]["segments"].as_u64().unwrap();
    let before = segments();
    assert!(before < bytes(BLOCKS) * 6 / 10, "half of it is text: {before} bytes");
    let (again, known, _) = put(&enjamb);
    assert_eq!((again, known, segments()), (id, true, before), "the same bytes again cost nothing");
}
