//! Real transcripts: every one is inspected, cut and joined again byte for byte, and translated to every other format.
//!
//! The transcripts are other people's and not part of this project. Where they are not at hand, these tests pass.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use enjamb_formats::{Code, Damage, Format, Look, Problem, Reuse, TokenCounting, all, by_id, concat, repair};

const TOLERANT: Look = Look { counting: TokenCounting::Cheap, damage: Damage::Keep };

/// The directory that the transcripts are unpacked in, if they can be. Every test is a process of its own: the first
/// unpacks, the others wait for it.
fn corpus() -> Option<&'static Path> {
    static CORPUS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let unpacked = CORPUS.get_or_init(|| {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let turn = File::create(shared.join("corpus.lock")).expect("a lock");
        turn.lock().expect("our turn");
        let (directory, whole) = (shared.join("corpus"), shared.join("corpus.whole"));
        (whole.exists() || unpack(&directory)).then(|| {
            File::create(whole).expect("a note that it is whole");
            directory
        })
    });
    unpacked.as_deref()
}

fn unpack(directory: &Path) -> bool {
    let unpack = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/unpack");
    let status = Command::new(unpack).arg(directory).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn transcripts(runtime: &str) -> Vec<(String, Vec<u8>)> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let listing = fs::read_dir(corpus.join(runtime)).expect("an unpacked directory");
    let mut paths: Vec<PathBuf> = listing.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read(path).expect("a transcript"))).collect()
}

/// The whole of small transcripts; of large ones the beginning, unless the build is fast enough for all of it.
fn sample<'a>(format: &dyn Format, bytes: &'a [u8]) -> &'a [u8] {
    if !cfg!(debug_assertions) {
        return bytes;
    }
    let ends = format.split(bytes).expect("lines");
    let end = ends.into_iter().take_while(|end| *end <= 100_000).last();
    &bytes[..end.unwrap_or(bytes.len().min(100_000))]
}

fn each(check: impl Fn(&dyn Format, &str, &[u8])) {
    let runtimes = [
        ("claude-code", "claude-code-v1"),
        ("codex", "codex-v1"),
        ("gemini", "gemini-v1"),
        ("opencode", "opencode-v1"),
    ];
    for (runtime, format) in runtimes {
        let format = by_id(format).expect("a format");
        for (name, bytes) in transcripts(runtime) {
            check(format, &name, &bytes);
        }
    }
}

#[test]
fn every_transcript_is_inspected() {
    each(|format, name, bytes| {
        let found = format.inspect_with(bytes, TOLERANT).unwrap_or_else(|cause| panic!("{name}: {cause}"));
        assert_eq!(found.messages > 0, found.tokens.count > 0, "{name}: {found:?}");
        assert_eq!(
            found.damage.is_empty(),
            format.inspect_with(bytes, Look { damage: Damage::Refuse, ..TOLERANT }).is_ok()
        );
        let is_harmed = ["torn", "nul", "utf8"].iter().any(|word| name.starts_with("derived") && name.contains(word));
        // One of the files is a log in prose that lies among the transcripts.
        let is_prose = !bytes.starts_with(b"{");
        assert_eq!(found.damage.is_empty(), !is_harmed && !is_prose, "{name}: {:?}", found.damage);
    });
}

#[test]
fn every_transcript_is_cut_and_joined_byte_for_byte() {
    each(|format, name, bytes| {
        let ends = format.split(bytes).unwrap();
        assert_eq!(ends.last(), Some(&bytes.len()), "{name}");
        let every_seventh: Vec<usize> = ends.iter().copied().skip(6).step_by(7).chain([bytes.len()]).collect();
        for ends in [&ends, &every_seventh] {
            let parts = format.cut(bytes, ends).unwrap();
            let whole = concat(format, &parts).unwrap();
            assert!(whole.strip_prefix(bytes).is_some_and(|rest| rest.is_empty() || rest == b"\n"), "{name}");
        }
    });
}

#[test]
fn parts_of_a_transcript_count_what_the_whole_counts() {
    each(|format, name, bytes| {
        let ends = format.split(bytes).unwrap();
        let parts = format.cut(bytes, &ends).unwrap();
        let records = |bytes: &[u8]| format.inspect_with(bytes, TOLERANT).unwrap().records;
        let sum: u64 = parts.iter().map(|part| records(part)).sum();
        assert_eq!(sum, records(bytes), "{name}");
    });
}

#[test]
fn every_transcript_is_translated_to_every_format() {
    each(|format, name, bytes| {
        let conversation = format.decode(sample(format, bytes)).unwrap();
        for target in all() {
            let encoded = target.encode(&conversation);
            let ledger = encoded.fidelity();
            assert_eq!(ledger.blocks(), conversation.block_count(), "{name} to {}", target.id());
            let found = target.inspect_with(&encoded.bytes, TOLERANT);
            let found = found.unwrap_or_else(|cause| panic!("{name} to {}: {cause}", target.id()));
            assert!(found.damage.is_empty(), "{name} to {}: {found:?}", target.id());
            let again = target.encode(&target.decode(&encoded.bytes).unwrap());
            assert!(
                again.bytes == target.encode(&target.decode(&again.bytes).unwrap()).bytes,
                "{name} to {}",
                target.id()
            );
        }
    });
}

#[test]
fn what_was_valid_stays_valid_in_translation() {
    each(|format, name, bytes| {
        let bytes = sample(format, bytes);
        // What one runtime makes good another may refuse: a call that a session broke off at.
        let before: BTreeSet<Code> = format.validate(bytes).into_iter().map(|problem| problem.code).collect();
        let conversation = format.decode(bytes).unwrap();
        for target in all() {
            let problems = target.validate(&target.encode(&conversation).bytes).into_iter();
            for Problem { code, sentence, .. } in problems.filter(Problem::is_error) {
                let inherited = before.contains(&code) || [Code::FirstNotUser, Code::NoMessages].contains(&code);
                assert!(inherited, "{name} to {}: {code}: {sentence}", target.id());
            }
        }
    });
}

/// What a check finds wrong, a repair mends; what it leaves is said to be beyond repair, and nothing is changed twice.
#[test]
fn every_transcript_is_repaired_or_said_to_be_beyond_it() {
    each(|format, name, bytes| {
        let bytes = sample(format, bytes);
        let repaired = repair(format, &[bytes], Reuse::SameAccount).unwrap_or_else(|cause| panic!("{name}: {cause}"));
        let mendable: Vec<&Problem> =
            repaired.left.iter().filter(|problem| problem.code.remedy().is_repair()).collect();
        assert!(mendable.is_empty(), "{name}: {mendable:?}");
        let whole = repaired.deltas[0].as_deref().unwrap_or(bytes);
        let again = repair(format, &[whole], Reuse::SameAccount).expect("a repaired transcript");
        assert!(again.changes.is_empty(), "{name}: {:?}", again.changes);
        assert_eq!(repaired.changes.is_empty(), repaired.deltas[0].is_none(), "{name}");
    });
}
