//! What each framing takes, refuses and joins.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn joined(framing: Framing, deltas: &[&[u8]]) -> Vec<u8> {
    let mut total = Weight::default();
    deltas.iter().for_each(|delta| total += framing.weigh(delta).unwrap());
    let mut out = framing.head(total);
    let mut written = Weight::default();
    for delta in deltas {
        let piece = framing.piece(delta, written).unwrap();
        written += piece.weight;
        out.extend([piece.before, piece.body, piece.after].concat());
    }
    out.extend(framing.tail());
    out
}

fn ranges(framing: Framing, bytes: &[u8]) -> Vec<&[u8]> {
    framing.items(bytes).unwrap().items.into_iter().map(|item| &bytes[item.range]).collect()
}

#[test]
fn lines_are_appended_and_a_missing_newline_is_added() {
    assert_eq!(joined(Framing::JsonLines, &[b"{}\n", b"{\"a\":1}", b"", b"{}\n"]), b"{}\n{\"a\":1}\n{}\n");
    assert_eq!(joined(Framing::JsonLines, &[b"", b""]), b"");
}

#[test]
fn arrays_are_joined_inside_one_pair_of_brackets() {
    assert_eq!(joined(Framing::JsonArray, &[b"[{} , 1]", b" [ ]\n", b"[ \"x\"]"]), b"[{} , 1,\"x\"]");
    assert_eq!(joined(Framing::JsonArray, &[b"[]", b"[]"]), b"[]");
}

#[test]
fn cbor_items_keep_their_bytes_under_a_new_header() {
    // An integer that is not in its shortest form stays as it is.
    assert_eq!(joined(Framing::CborArray, &[&hex("81180a"), &hex("9f0102ff"), &hex("80")]), hex("83180a0102"));
    assert_eq!(joined(Framing::CborArray, &[&hex("80"), &hex("f6")]), hex("80"));
    let many = vec![0x0a; 24];
    let whole = joined(Framing::CborArray, &[&[vec![0x98, 24], many.clone()].concat(), &hex("810a")]);
    assert_eq!(whole[..2], [0x98, 25]);
}

#[test]
fn what_lacks_the_framing_is_refused_with_its_place() {
    for (framing, bytes, offset) in [
        (Framing::JsonArray, &b"{}"[..], 0),
        (Framing::JsonArray, b"[1,\n 2,,]", 7),
        (Framing::JsonArray, b"[1] x", 4),
        (Framing::JsonArray, b"", 0),
        (Framing::JsonArray, b"[\"\xff\"]", 2),
        (Framing::CborArray, b"\x81", 1),
        (Framing::CborArray, b"\xa0", 0),
        (Framing::CborArray, b"\x80\x00", 1),
        (Framing::CborArray, b"", 0),
    ] {
        let Unframed { at, reason } = framing.items(bytes).unwrap_err();
        assert_eq!(at.offset(), offset, "{bytes:?}: {reason}");
    }
}

#[test]
fn a_damaged_line_does_not_hide_its_neighbours() {
    let bytes = b"{\"a\":1}{\"b\":2}\r\n\n\0\0{\"c\":3}\nnonsense\n{\"d\":\"\xff\"}\n[7]\n{\"e\":";
    let items: Vec<&[u8]> = ranges(Framing::JsonLines, bytes);
    assert_eq!(items, [&b"{\"a\":1}"[..], b"{\"b\":2}", b"{\"c\":3}", b"{\"d\":\"\xff\"}", b"[7]"]);
    let damage = Framing::JsonLines.items(bytes).unwrap().damage;
    let lines: Vec<String> = damage.first.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[1].starts_with("line 4 (byte 27): The line is not JSON: expected ident"), "{}", lines[1]);
}

#[test]
fn every_cut_gives_deltas_that_join_to_the_whole() {
    for (framing, bytes) in [
        (Framing::JsonLines, &b"{}\n\n{\"a\":1}\r\ntorn\n{}\n\n"[..]),
        (Framing::JsonLines, b"{}\n{}"),
        (Framing::JsonArray, b"[{},[1,2],\"x\"]"),
        (Framing::CborArray, b"\x83\x01\x82\x02\x03\xa0"),
    ] {
        let ends = framing.split(bytes).unwrap();
        let parts = framing.cut(bytes, &ends).unwrap();
        let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
        let whole = joined(framing, &parts);
        assert_eq!(whole.strip_prefix(bytes), Some(if bytes.ends_with(b"}") { &b"\n"[..] } else { b"" }));
    }
}

#[test]
fn a_value_over_several_lines_is_one_item() {
    let bytes = b"{\n  \"a\": [\n    {\n    }\n  ]\n}\n{\"b\":1}\n{\n torn\n";
    let items: Vec<&[u8]> = ranges(Framing::JsonLines, bytes);
    assert_eq!(items, [&bytes[..28], b"{\"b\":1}"]);
    assert_eq!(Framing::JsonLines.split(bytes).unwrap(), [29, 37, 39, 45]);
    let damage = Framing::JsonLines.items(bytes).unwrap().damage;
    assert!(damage.first[0].to_string().starts_with("line 8 (byte 37)"), "{damage:?}");
}
