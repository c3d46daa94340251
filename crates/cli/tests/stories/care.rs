//! Keeping a store whole, small and in two places: `verify`, `maintain`, `backup`, `restore`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

/// A store with enough in it that sealing is worth it, and one artifact in a segment of its own.
fn filled() -> Enjamb {
    let enjamb = Enjamb::new();
    let lines: Vec<_> =
        (0..1_000).map(|n| format!(r#"{{"type":"output_text_delta","delta":"{n} {}"}}"#, "word ".repeat(40))).collect();
    enjamb.run_with(&["append", "session/s1"], lines.join("\n")).done();
    enjamb.run_with(&["put", "--tag", "large"], large()).done();
    enjamb
}

fn large() -> Vec<u8> {
    (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

#[test]
fn verify_reads_everything_again() {
    let enjamb = filled();
    let expected = "checked 1,001 frames, 1 artifact, 1 segment, [..] MB   all digests match, every rule holds\n";
    check(&enjamb.run(&["verify"]).done().out(), expected);
    check(&enjamb.run(&["verify", "--quick"]).done().out(), "looked at [..] records and 1 segment   all is there\n");
    let expected = json!({
        "schema": "enjamb.cli.verify/1", "ok": true, "records": 1_002, "frames": 1_001, "artifacts": 1, "segments": 1,
        "bytes": "[..]", "findings": [],
    });
    check_json(&enjamb.json(&["verify"]), &expected);
}

#[test]
fn verify_names_what_is_damaged_and_exits_with_6() {
    let enjamb = filled();
    let segment = only_segment(&enjamb.store().join("segments"));
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let answer = enjamb.run(&["verify"]).exits(6).out();
    assert!(answer.starts_with("✗ ") && answer.ends_with(" damaged\n"), "{answer}");
    let name = segment.file_stem().unwrap().to_str().unwrap();
    assert!(answer.contains(&name[..12]), "{answer}");
    let document = enjamb.run(&["verify", "--json"]).exits(6).document();
    assert_eq!(document["ok"], false);
    let refused = enjamb.run(&["get", "large"]).exits(6);
    assert!(refused.err().contains("damaged") && refused.err().contains("help:  enjamb verify"), "{}", refused.err());
}

#[test]
fn maintain_moves_cold_bytes_and_nobody_notices() {
    let enjamb = filled();
    let before = enjamb.run(&["frames", "session/s1"]).done().stdout;
    let expected = "
sealed 1,002 records of [..] kB into [..] kB
store  [..] MB before, [..] MB now
";
    check(&enjamb.run(&["maintain"]).done().out(), expected);
    check(&enjamb.run(&["maintain"]).done().out(), "nothing to seal\nstore  [..] MB before, [..] MB now\n");
    assert!(enjamb.run(&["frames", "session/s1"]).done().stdout == before);
    assert!(enjamb.run(&["get", "large"]).done().stdout == large());
    let expected = json!({
        "schema": "enjamb.cli.maintain/1", "sealed_records": 0, "segments": 0, "raw_bytes": 0, "segment_bytes": 0,
        "swept_bytes": 0, "bytes_before": "[..]", "bytes_after": "[..]", "index_rebuilt": true,
    });
    check_json(&enjamb.json(&["maintain", "--rebuild-index"]), &expected);
    enjamb.run(&["verify"]).done();
}

#[test]
fn the_index_may_be_lost() {
    let enjamb = filled();
    let before = enjamb.run(&["streams"]).done().out();
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = fs::remove_file(enjamb.store().join(name));
    }
    assert_eq!(enjamb.run(&["streams"]).done().out(), before);
    fs::write(enjamb.store().join("index.db"), "not an index at all").unwrap();
    assert_eq!(enjamb.run(&["streams"]).done().out(), before);
}

#[test]
fn a_backup_is_a_store_again_after_restore() {
    let enjamb = filled();
    let (backup, restored) = (enjamb.path("backup"), enjamb.path("restored"));
    check(&enjamb.run(&["backup", &backup]).done().out(), "backed up  2 files, [..] MB in [..]/backup\n");
    let again = "backed up  2 files, 1 of them there already, [..] MB in [..]/backup\n";
    check(&enjamb.run(&["backup", &backup]).done().out(), again);
    let expected =
        json!({"schema": "enjamb.cli.backup/1", "path": "[..]/backup", "files": 2, "bytes": "[..]", "kept": 1});
    check_json(&enjamb.json(&["backup", &backup]), &expected);
    check(&enjamb.run(&["verify", "--backup", &backup]).done().out(), "every file matches its digest\n");

    let from = ["--store", &restored, "restore", &backup];
    check(&enjamb.run(&from).done().out(), "restored  2 files, [..] MB with 1,001 frames into [..]/restored\n");
    let same = |arguments: &[&str]| {
        let there = enjamb.run(&[&["--store", &restored], arguments].concat()).done().stdout;
        assert!(there == enjamb.run(arguments).done().stdout, "{arguments:?}");
    };
    same(&["frames", "session/s1"]);
    same(&["get", "large"]);
    same(&["streams"]);
    check(&enjamb.run(&from).exits(2).err(), "error: [..]/restored is not [..]\n");
    let other = enjamb.path("other");
    let expected = json!({
        "schema": "enjamb.cli.restore/1", "path": "[..]/other", "files": 2, "bytes": "[..]", "frames": 1_001,
        "artifacts": 1,
    });
    check_json(&enjamb.json(&["--store", &other, "restore", &backup]), &expected);
}

#[test]
fn a_damaged_backup_is_named_and_not_restored() {
    let enjamb = filled();
    let backup = enjamb.path("backup");
    enjamb.run(&["backup", &backup]).done();
    let segment = only_segment(&Path::new(&backup).join("segments"));
    fs::write(&segment, "other bytes").unwrap();
    let answer = enjamb.run(&["verify", "--backup", &backup]).exits(6).out();
    check(&answer, "✗ segments/[..].seg: its digest is [..]  [backup-damaged]\n1 thing damaged\n");
    let restored = enjamb.path("restored");
    let refused = enjamb.run(&["--store", &restored, "restore", &backup]).exits(6);
    assert!(refused.err().contains("its digest is"), "{}", refused.err());
    enjamb.run(&["--store", &restored, "streams"]).exits(3);
}

#[test]
fn a_backup_goes_over_an_earlier_one_and_nothing_else() {
    let enjamb = filled();
    let other = enjamb.path("other");
    enjamb.run(&["--store", &other, "append", "session/mine", "--type", "x"]).done();
    let refused = enjamb.run(&["backup", &other]).exits(2);
    check(&refused.err(), "error: [..]/other: it holds \"[..]\" and is no backup; name a directory that [..]\n");
    enjamb.run(&["--store", &other, "frames", "session/mine"]).done();
    let inside = enjamb.path("store/inside");
    check(&enjamb.run(&["backup", &inside]).exits(2).err(), "error: [..]/inside: it is inside the store; [..]\n");
    assert!(!Path::new(&inside).exists());
    enjamb.run(&["backup", &enjamb.path("nowhere/near")]).done();
    enjamb.run(&["restore", &enjamb.path("nothing")]).exits(3);
    enjamb.run(&["verify", "--backup", &enjamb.path("nothing")]).exits(3);
}

fn only_segment(dir: &Path) -> std::path::PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).last().expect("a segment")
}
