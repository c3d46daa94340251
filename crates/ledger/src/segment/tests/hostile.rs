//! Footers that were made to harm: sealed with the right digests, so that only the tables' own checks stand.

use super::super::layout::{Trailer, header};
use super::super::{tables, varint};
use super::*;

/// A file with these blocks and this footer, whose digests are right.
fn sealed(blocks: &[u8], raw_footer: &[u8]) -> Vec<u8> {
    let stored = zstd::bulk::compress(raw_footer, 1).unwrap();
    let mut file = header().to_vec();
    file.extend(blocks);
    let trailer = Trailer {
        footer_offset: file.len() as u64,
        footer_len: stored.len() as u32,
        footer_raw_len: raw_footer.len() as u32,
        footer_digest: Digest::of(&stored),
    };
    file.extend(stored);
    file.extend(trailer.encode());
    file
}

/// Reads all there is to read, for what it does to the reader.
fn read_all(file: &[u8]) {
    let name = Digest::of(file);
    let Ok(segment) = Segment::open(file, name) else { return };
    for entry in segment.footer().records().chain(segment.footer().artifacts()) {
        let mut handed_out = 0;
        let done = segment.read_object(&entry, 0..u64::MAX, &mut Blocks::new(&segment), &mut |part| {
            handed_out += part.len() as u64;
            Ok::<_, SegmentError>(())
        });
        assert!(done.is_err() || handed_out == entry.len);
    }
    verify(file, name);
}

fn sample() -> (Vec<u8>, Tables) {
    let mut store = Store::default();
    store.write(SMALL_BLOCKS, &[Object::Artifact(noise(1, 20_000))]);
    let objects = [
        Object::Record(700, noise(2, 9_000)),
        Object::Artifact([noise(1, 20_000), noise(3, 60_000)].concat()),
        Object::Record(5, [noise(2, 9_000), noise(1, 20_000)].concat()),
    ];
    let summary = store.write(SMALL_BLOCKS, &objects);
    let tables = store.segments[&summary.digest].footer().tables().clone();
    let blocks = tables.blocks.last().map(|last| (last.at + u64::from(last.stored_len)) as usize).unwrap();
    (store.files[&summary.digest][layout::HEADER_BYTES..blocks].to_vec(), tables)
}

#[test]
fn every_changed_byte_of_a_footer_is_survived() {
    let (blocks, tables) = sample();
    let footer = tables::encode(&tables);
    assert!(Segment::open(sealed(&blocks, &footer), Digest::ZERO).is_ok());
    for at in 0..footer.len() {
        for change in [1, 2, 0x7f, 0x80, 0xff] {
            let mut changed = footer.clone();
            changed[at] ^= change;
            read_all(&sealed(&blocks, &changed));
        }
        read_all(&sealed(&blocks, &footer[..at]));
        read_all(&sealed(&blocks, &[&footer[..at], &[0xff, 0xff, 0xff, 0xff, 0x0f], &footer[at..]].concat()));
    }
}

proptest! {
    #[test]
    fn any_bytes_for_a_footer_are_survived(footer in prop::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..300)) {
        read_all(&sealed(&noise(1, 100), &footer));
    }

    #[test]
    fn any_bytes_for_a_file_are_survived(file in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&file);
    }
}

#[test]
fn counts_do_not_reserve_memory() {
    for table in 0..5 {
        let mut footer = Vec::new();
        (0..5).for_each(|row| varint::put(&mut footer, if row == table { u64::from(u32::MAX) } else { 0 }));
        let error = Segment::open(sealed(&[], &footer), Digest::ZERO).err().unwrap();
        assert!(error.to_string().contains("more rows"), "{error}");
    }
}

/// One block of 100 raw bytes, then `rows` as the rest of the footer, with these counts of chunks, records, artifacts.
fn check_refused(counts: [u64; 3], rows: &[u64], digests: usize, why: &str) {
    let block = noise(1, 100);
    let mut footer = Vec::new();
    [0, 1].iter().chain(&counts).chain(&[200, 100]).for_each(|value| varint::put(&mut footer, *value));
    footer.extend(Digest::of(&block).as_bytes());
    rows.iter().for_each(|value| varint::put(&mut footer, *value));
    footer.extend(vec![0; digests * Digest::LEN]);
    let error = Segment::open(sealed(&block, &footer), Digest::ZERO).err().unwrap();
    assert!(error.to_string().contains(why), "{error}, expected: {why}");
}

#[test]
fn places_outside_are_refused() {
    check_refused([1, 0, 0], &[10 << 1, 91], 1, "outside its block");
    check_refused([1, 0, 0], &[10 << 1, u64::MAX], 1, "outside its block");
    check_refused([1, 0, 0], &[10 << 1 | 1, 0, 0, 0], 1, "not listed");
    check_refused([1, 0, 0], &[65_537 << 1, 0], 1, "impossible length");
    check_refused([0, 1, 0], &[0, 1, 101 << 2], 0, "outside its block");
    check_refused([0, 1, 0], &[0, 1, 10 << 2 | 1, 1], 0, "outside its block");
    check_refused([0, 1, 0], &[0, 1, 10 << 2 | 3], 0, "no known kind");
    check_refused([0, 1, 0], &[0, 1, 0], 0, "impossible length");
    check_refused([0, 1, 0], &[0, 0, 0], 0, "followed by something else");
    check_refused([0, 2, 0], &[2, 0, 0, 0], 0, "listed twice");
}

#[test]
fn an_object_cannot_be_made_endless() {
    let (block, _, footer) = write(SMALL_BLOCKS, &[Object::Artifact(vec![0; 64 << 10])], |_| None);
    let blocks = &block[layout::HEADER_BYTES..][..footer.tables().blocks[0].stored_len as usize];
    let whole = footer.tables().chunks[0].at;
    let error = |tables: &Tables| Segment::open(sealed(blocks, &tables::encode(tables)), Digest::ZERO).err().unwrap();

    let mut record = footer.tables().clone();
    record.extents = vec![whole; layout::RECORD_BYTES_MAX / (64 << 10) + 1];
    record.records = vec![Record { number: 1, first_extent: 0, extents: record.extents.len() as u32 }];
    assert!(error(&record).to_string().contains("larger than records may be"));

    let mut artifact = footer.tables().clone();
    artifact.runs = vec![Run { first_chunk: 0, chunks: 1 }; (4 << 30) / (64 << 10) + 1];
    artifact.artifacts[0].runs = artifact.runs.len() as u32;
    assert!(error(&artifact).to_string().contains("larger than artifacts may be"));
}
