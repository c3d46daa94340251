//! A segment that is not what was written says so: flipped bits, cut ends, swapped files.

use super::*;

fn sample() -> (Vec<u8>, Digest, Vec<Object>) {
    let text = |from: usize| (from..from + 150).flat_map(|n| format!("line {n}\n").into_bytes()).collect::<Vec<_>>();
    let objects = vec![
        Object::Record(3, text(0)),
        Object::Artifact([text(500), noise(1, 5_000)].concat()),
        Object::Record(1, noise(1, 5_000)),
        Object::Record(2, Vec::new()),
    ];
    let (bytes, summary, _) = write(SMALL_BLOCKS, &objects, |_| None);
    (bytes, summary.digest, objects)
}

/// Whatever can still be read of `file` must be what was written.
fn check_reads(file: &[u8], name: Digest, objects: &[Object]) {
    let Ok(segment) = Segment::open(file, name) else { return };
    for object in objects {
        let bytes = read(&segment, &object.key(), 0..u64::MAX, &mut Blocks::new(&segment));
        assert!(bytes.is_err() || bytes.is_ok_and(|bytes| bytes == object.bytes()), "{}", object.key());
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let (mut file, name, objects) = sample();
    assert!(verify(&file, name).is_empty());
    assert!(file.len() > 5_000, "{}", file.len());
    for at in 0..file.len() {
        let bit = 1 << (at % 8);
        file[at] ^= bit;
        check_reads(&file, name, &objects);
        assert!(!verify(&file, name).is_empty(), "byte {at}");
        file[at] ^= bit;
    }
}

#[test]
fn a_cut_file_does_not_open() {
    let (file, name, _) = sample();
    for len in 0..file.len() {
        assert!(Segment::open(&file[..len], name).is_err(), "{len}");
        assert!(!verify(&file[..len], name).is_empty(), "{len}");
    }
}

#[test]
fn findings_name_the_block_and_its_objects() {
    let objects: Vec<_> = (0..9).map(|number| Object::Record(number, noise(number, 20_000))).collect();
    let (mut file, summary, footer) = write(SMALL_BLOCKS, &objects, |_| None);
    file[footer.tables().blocks[1].at as usize + 5] ^= 1;
    let findings = verify(&file, summary.digest);
    let mut hit = Vec::new();
    for finding in &findings {
        match finding {
            Finding::FileDigest { found } => assert_eq!(*found, Digest::of(&file)),
            Finding::Unreadable(SegmentError::Corrupt { place, .. }) => assert_eq!(*place, Place::Block(1)),
            Finding::Object { key, block: 1 } => hit.push(*key),
            other => panic!("{other}"),
        }
    }
    assert_eq!(hit, [Key::Record(3), Key::Record(4), Key::Record(5)]);
}

#[test]
fn a_chunk_from_the_wrong_bytes_is_not_handed_out() {
    let shared = noise(1, 30_000);
    let mut store = Store::default();
    let first = store.write(SMALL_BLOCKS, &[Object::Artifact(shared.clone())]);
    let second = store.write(SMALL_BLOCKS, &[Object::Artifact([&shared[..], b"end"].concat())]);
    // The same name, other bytes: what a cache or a disk might do.
    let (other, summary, _) = write(SMALL_BLOCKS, &[Object::Artifact(noise(2, 30_000))], |_| None);
    store.segments.insert(first.digest, Segment::open(other, summary.digest).unwrap());
    let key = Key::Artifact(ArtifactId::of(&[&shared[..], b"end"].concat()));
    let error = store.read(&second.digest, &key, 5..6).unwrap_err();
    assert!(matches!(error, SegmentError::Corrupt { place: Place::Object { block: 0, .. }, .. }), "{error}");
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let (mut file, name, _) = sample();
    let version = file.len() - 16;
    file[version] = 2;
    assert!(matches!(Segment::open(&file[..], name), Err(SegmentError::TooNew { version: 2, .. })));
}
