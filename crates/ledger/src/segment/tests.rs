//! Laws of segments: what is put in comes out, once stored is enough, and a range costs a range.

mod damage;
mod hostile;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use enjamb_core::{ArtifactId, Digest};
use proptest::prelude::*;

use super::*;

/// Bytes that do not compress, the same for the same seed.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

const SMALL_BLOCKS: SegmentOptions = SegmentOptions { block_bytes: 64 << 10, ..SegmentOptions::RANGES };

#[derive(Clone, Debug)]
enum Object {
    Record(u64, Vec<u8>),
    Artifact(Vec<u8>),
}

impl Object {
    fn key(&self) -> Key {
        match self {
            Self::Record(number, _) => Key::Record(*number),
            Self::Artifact(bytes) => Key::Artifact(ArtifactId::of(bytes)),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Record(_, bytes) | Self::Artifact(bytes) => bytes,
        }
    }
}

/// Segments in memory, which know each other's chunks and remember which blocks were loaded.
#[derive(Default)]
struct Store {
    files: HashMap<Digest, Vec<u8>>,
    segments: HashMap<Digest, Segment<Vec<u8>>>,
    chunks: HashMap<Digest, ChunkAt>,
    loads: RefCell<Vec<(Digest, u32)>>,
}

impl Store {
    fn write(&mut self, options: SegmentOptions, objects: &[Object]) -> SegmentSummary {
        let (bytes, summary, footer) = write(options, objects, |digest| self.chunks.get(digest).copied());
        assert_eq!(summary.digest, Digest::of(&bytes));
        assert_eq!(summary.bytes, bytes.len() as u64);
        let segment = Segment::open(bytes.clone(), summary.digest).unwrap();
        self.files.insert(summary.digest, bytes);
        assert_eq!(segment.footer(), &footer);
        self.chunks.extend(footer.own_chunks(summary.digest));
        self.segments.insert(summary.digest, segment);
        summary
    }

    fn read(&self, segment: &Digest, key: &Key, range: Range<u64>) -> Result<Vec<u8>, SegmentError> {
        let mut blocks = Blocks::new(self);
        read(&self.segments[segment], key, range, &mut blocks)
    }

    /// The blocks that `read` loads.
    fn loads(&self, segment: &Digest, key: &Key, range: Range<u64>) -> Vec<u32> {
        self.loads.borrow_mut().clear();
        self.read(segment, key, range).unwrap();
        self.loads.borrow().iter().map(|(_, block)| *block).collect()
    }
}

impl Fetch for Store {
    fn block(&self, segment: &Digest, block: u32, _: Option<RawBlock>) -> Result<RawBlock, SegmentError> {
        self.loads.borrow_mut().push((*segment, block));
        self.segments[segment].load_block(block).map(Arc::new)
    }
}

fn write(
    options: SegmentOptions,
    objects: &[Object],
    known: impl FnMut(&Digest) -> Option<ChunkAt>,
) -> (Vec<u8>, SegmentSummary, Footer) {
    let mut writer = SegmentWriter::new(Vec::new(), options, known).unwrap();
    for object in objects {
        match object {
            Object::Record(number, bytes) => writer.add_record(*number, bytes).unwrap(),
            Object::Artifact(bytes) => {
                let mut sink = writer.artifact();
                bytes.chunks(10_007).for_each(|part| sink.write(part).unwrap());
                assert_eq!(sink.finish().unwrap(), (ArtifactId::of(bytes), bytes.len() as u64));
            }
        }
    }
    writer.finish().unwrap()
}

fn read<R: ReadAt>(
    segment: &Segment<R>,
    key: &Key,
    range: Range<u64>,
    blocks: &mut Blocks<'_>,
) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = Vec::new();
    let entry = segment.entry(key)?;
    segment.read_object(&entry, range, blocks, &mut |part| {
        bytes.extend_from_slice(part);
        Ok::<_, SegmentError>(())
    })?;
    Ok(bytes)
}

/// Objects made of few different parts, so that they repeat each other, some of it compressible.
fn objects() -> impl Strategy<Value = Vec<Object>> {
    let part = (0..6_u64, 0..30_000_usize, any::<bool>()).prop_map(|(seed, len, dense)| {
        let bytes = noise(seed, len);
        if dense { bytes } else { bytes.into_iter().map(|byte| byte % 4).collect() }
    });
    let content = prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat());
    let object = (any::<bool>(), any::<u64>(), content).prop_map(|(record, number, bytes)| {
        if record { Object::Record(number, bytes) } else { Object::Artifact(bytes) }
    });
    prop::collection::vec(object, 0..12).prop_map(|mut objects| {
        let mut numbers = std::collections::HashSet::new();
        objects.retain(|object| matches!(object, Object::Artifact(_)) || numbers.insert(object.key()));
        objects
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn objects_come_back_from_two_segments(
        first in objects(),
        second in objects(),
        block_bytes in (64_u32 << 10)..(300 << 10),
        record_chunk_bytes_min in prop::sample::select(vec![4_096, 16_384, u32::MAX]),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let options = SegmentOptions { block_bytes, record_chunk_bytes_min, ..SegmentOptions::RANGES };
        let mut store = Store::default();
        for objects in [&first, &second] {
            let summary = store.write(options, objects);
            prop_assert_eq!(summary.raw_bytes, objects.iter().map(|object| object.bytes().len() as u64).sum::<u64>());
            for object in objects {
                let (bytes, len) = (object.bytes(), object.bytes().len());
                prop_assert!(store.read(&summary.digest, &object.key(), 0..len as u64).unwrap() == bytes);
                let (from, to) = (cut.0.index(len + 1), cut.1.index(len + 1));
                let wanted = bytes.get(from..to).unwrap_or_default();
                prop_assert!(store.read(&summary.digest, &object.key(), from as u64..to as u64).unwrap() == wanted);
            }
        }
        for (name, file) in &store.files {
            prop_assert!(verify(file, *name).is_empty());
        }
    }
}

#[test]
fn the_same_artifact_is_stored_once() {
    let bytes = noise(1, 100 << 10);
    let once = Store::default().write(SMALL_BLOCKS, &[Object::Artifact(bytes.clone())]);
    let twice = Store::default().write(SMALL_BLOCKS, &[Object::Artifact(bytes.clone()), Object::Artifact(bytes)]);
    assert_eq!((twice.digest, twice.duplicate_bytes), (once.digest, 100 << 10));
}

#[test]
fn a_part_that_was_seen_is_not_stored_again() {
    let shared = noise(1, 300 << 10);
    let objects = [
        Object::Artifact(shared.clone()),
        Object::Artifact([noise(2, 50 << 10), shared.clone(), noise(3, 50 << 10)].concat()),
        Object::Record(7, [noise(4, 9_000), shared.clone()].concat()),
    ];
    let summary = Store::default().write(SMALL_BLOCKS, &objects);
    // Around each seam the chunks differ; 64 KiB is the largest chunk.
    assert!(summary.duplicate_bytes >= (2 * (300 - 64 - 64)) << 10, "{summary:?}");
    assert!(summary.bytes < (300 + 50 + 50 + 9 + 3 * 64) << 10, "{summary:?}");
}

#[test]
fn a_stream_is_cut_as_the_whole_is() {
    let bytes = [noise(1, 300 << 10), vec![0; 200 << 10], noise(2, 5_000)].concat();
    let (_, _, footer) = write(SMALL_BLOCKS, &[Object::Artifact(bytes.clone())], |_| None);
    let mut cut: Vec<_> = chunk::pieces(&bytes).map(Digest::of).collect();
    cut.dedup();
    assert_eq!(footer.tables().chunks.iter().map(|chunk| chunk.digest).collect::<Vec<_>>(), cut);
}

#[test]
fn what_is_at_hand_is_stored_as_a_stream_is() {
    let artifacts = [noise(1, 300 << 10), Vec::new(), noise(2, 100), vec![0; 200 << 10], noise(1, 300 << 10)];
    let mut writer = SegmentWriter::new(Vec::new(), SMALL_BLOCKS, |_: &Digest| None).unwrap();
    artifacts.iter().for_each(|bytes| writer.add_artifact(ArtifactId::of(bytes), bytes, &cut(bytes)).unwrap());
    let streamed = write(SMALL_BLOCKS, &artifacts.map(Object::Artifact), |_| None);
    let (bytes, summary, _) = writer.finish().unwrap();
    assert_eq!((&bytes, summary), (&streamed.0, streamed.1));
}

#[test]
fn chunks_of_earlier_segments_are_pointed_at() {
    let shared = noise(1, 200 << 10);
    let mut store = Store::default();
    let first = store.write(SMALL_BLOCKS, &[Object::Artifact(shared.clone())]);
    let objects = [Object::Record(9, shared.clone()), Object::Artifact([&shared[..], b"end"].concat())];
    let second = store.write(SMALL_BLOCKS, &objects);
    assert!(second.bytes < 60 << 10, "{second:?}");
    assert_eq!(store.segments[&second.digest].footer().tables().deps, [first.digest]);
    for object in &objects {
        assert!(store.read(&second.digest, &object.key(), 0..u64::MAX).unwrap() == object.bytes());
    }
    let alone = &store.segments[&second.digest];
    let missing = alone.record(9, &mut Blocks::new(alone)).unwrap_err();
    assert!(matches!(missing, SegmentError::MissingSegment { segment } if segment == first.digest));
}

#[test]
fn a_new_object_that_fits_in_a_block_is_one_extent() {
    let objects: Vec<_> = (0..40).map(|number| Object::Record(number, noise(number, 20_000))).collect();
    let (_, _, footer) = write(SMALL_BLOCKS, &objects, |_| None);
    assert!(footer.tables().records.iter().all(|record| record.extents == 1));
    assert_eq!(footer.tables().blocks.len(), 40_usize.div_ceil(3));
}

#[test]
fn a_range_loads_the_blocks_it_needs() {
    let object = Object::Artifact(noise(1, 1 << 20));
    let mut store = Store::default();
    let summary = store.write(SMALL_BLOCKS, std::slice::from_ref(&object));
    assert!(summary.blocks > 16);
    let loads = |range| store.loads(&summary.digest, &object.key(), range);
    assert_eq!(loads(0..10), [0]);
    assert_eq!(loads(1 << 20..u64::MAX), [0; 0]);
    assert_eq!(loads((1 << 20) - 1..1 << 20), [summary.blocks as u32 - 1]);
    assert!(loads(500_000..500_000 + (64 << 10)).len() <= 3);
    assert_eq!(loads(0..1 << 20), (0..summary.blocks as u32).collect::<Vec<_>>());
}

#[test]
fn reading_forward_loads_each_block_once() {
    let objects: Vec<_> = (0..100).map(|number| Object::Record(number, noise(number, 5_000))).collect();
    let mut store = Store::default();
    let summary = store.write(SMALL_BLOCKS, &objects);
    let mut blocks = Blocks::new(&store);
    let segment = &store.segments[&summary.digest];
    for object in &objects {
        assert!(read(segment, &object.key(), 0..u64::MAX, &mut blocks).unwrap() == object.bytes());
    }
    assert_eq!(store.loads.borrow().len() as u64, summary.blocks);
}

#[test]
fn records_cost_few_bytes_of_footer() {
    let record = |row: u64| Object::Record(row * 36 % 1_009, noise(row, 2_000 + 6 * row as usize));
    let objects: Vec<_> = (0..1_000).map(record).collect();
    let options = |record_chunk_bytes_min| SegmentOptions { record_chunk_bytes_min, ..SMALL_BLOCKS };
    let (_, plain, footer) = write(options(u32::MAX), &objects, |_| None);
    let blocks = 40 * footer.tables().blocks.len() as u64;
    assert!(plain.footer_bytes < blocks + 3 * 1_000, "{plain:?}");
    let (_, listed, footer) = write(options(4_096), &objects, |_| None);
    let chunks = 36 * footer.tables().chunks.len() as u64;
    assert!(footer.tables().chunks.len() > 500 && listed.footer_bytes < plain.footer_bytes + chunks, "{listed:?}");
}

#[test]
fn what_a_segment_does_not_take_is_refused() {
    let mut writer = SegmentWriter::new(Vec::new(), SMALL_BLOCKS, |_: &Digest| None).unwrap();
    writer.add_record(1, b"one").unwrap();
    assert!(matches!(writer.add_record(1, b"two"), Err(SegmentWriteError::DuplicateRecord(1))));
    let large = vec![0; layout::RECORD_BYTES_MAX + 1];
    assert!(matches!(writer.add_record(2, &large), Err(SegmentWriteError::RecordTooLarge { number: 2, .. })));
}

#[test]
fn a_file_is_read_as_memory_is() {
    let (file, summary, _) = {
        let mut writer = SegmentWriter::new(tempfile::tempfile().unwrap(), SMALL_BLOCKS, |_: &Digest| None).unwrap();
        writer.add_record(3, &noise(3, 70_000)).unwrap();
        writer.finish().unwrap()
    };
    assert!(verify(&file, summary.digest).is_empty());
    let segment = Segment::open(file, summary.digest).unwrap();
    assert!(segment.record(3, &mut Blocks::new(&segment)).unwrap() == noise(3, 70_000));
    let missing = segment.record(4, &mut Blocks::new(&segment)).unwrap_err();
    assert!(matches!(missing, SegmentError::MissingObject { key: Key::Record(4), .. }));
}
