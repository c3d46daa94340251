//! Laws that hold for every format: of any bytes, and of any conversation.

use std::ops::Range;

use enjamb_core::conversation::{
    Block, Conversation, Entry, Image, ImageSource, Raw, Reasoning, Role, Standing, ToolCall, ToolResult, Usage,
    Verbatim,
};
use enjamb_core::{Json, Timestamp};
use enjamb_formats::session::{Extent, Identity, ReadBack, Session, is_loaded};
use enjamb_formats::{
    Code, Damage, FidelityLedger, Format, Framing, Look, Outcome, Problem, Survey, Surveyed, TokenCounting, all, by_id,
    concat, narrative,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const TOLERANT: Look = Look { counting: TokenCounting::Cheap, damage: Damage::Keep };

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,12}", "\\PC{0,8}", Just(String::new()), Just("a\n\"b\"\u{2028}\u{0}".to_owned())]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", Just("call|1".to_owned()), Just("019f05fa-59a1-7863-8863-855e7b57ee1a".to_owned())]
}

fn json() -> impl Strategy<Value = Json> {
    let values =
        vec!["{}", r#"{"file_path":"/a","n":1e400}"#, r#""free text""#, "[1,{\"a\":null}]", "12345678901234567890"];
    proptest::sample::select(values).prop_map(|text| Json::parse(text).expect("JSON"))
}

fn reasoning() -> impl Strategy<Value = Block> {
    let provider = option::of(proptest::sample::select(vec!["anthropic".to_owned(), "openai".to_owned()]));
    (text(), option::of("[a-z]{1,4}"), option::of("[a-z]{1,4}"), provider).prop_map(
        |(text, signature, encrypted, provider)| Block::Reasoning(Reasoning { text, signature, encrypted, provider }),
    )
}

fn image() -> impl Strategy<Value = Block> {
    let source =
        prop_oneof!["[A-Za-z0-9]{0,8}".prop_map(ImageSource::Base64), "https://[a-z]{1,5}".prop_map(ImageSource::Url),];
    (option::of(Just("image/png".to_owned())), source)
        .prop_map(|(media_type, source)| Block::Image(Image { media_type, source }))
}

/// What the format itself would have kept, and what one that nobody knows would have.
fn verbatim() -> impl Strategy<Value = Block> {
    let known = all().iter().map(|format| (format.id().to_owned(), format.framing()));
    let formats: Vec<_> = known.chain([("else-v9".to_owned(), Framing::JsonLines)]).collect();
    (proptest::sample::select(formats), any::<bool>()).prop_map(|((format, framing), shown)| {
        let content = match framing {
            Framing::JsonLines | Framing::JsonArray => {
                Raw::Json(Json::parse(r#"{"type":"thing","payload":{"x":1}}"#).expect("JSON"))
            }
            Framing::CborArray => Raw::Bytes(vec![0xa1, 0x61, 0x78, 0x01]),
        };
        Block::Verbatim(Verbatim { format, kind: "thing".to_owned(), content, shown })
    })
}

/// What a result may hold. Whole records of a format are never inside one.
fn part() -> impl Strategy<Value = Block> {
    const WITH_BLOCKS: [&str; 3] = ["anthropic-messages-v1", "openai-chat-v1", "else-v9"];
    let is_block = |block: &Block| {
        let fits = |verbatim: &Verbatim| verbatim.shown && WITH_BLOCKS.contains(&verbatim.format.as_str());
        block.as_verbatim().is_none_or(fits)
    };
    prop_oneof![text().prop_map(Block::Text), image(), verbatim().prop_filter("a block", is_block)]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        text().prop_map(Block::Text),
        part(),
        reasoning(),
        (id(), "[A-Z][a-z]{1,5}", json(), any::<bool>())
            .prop_map(|(id, name, input, server)| Block::ToolCall(ToolCall { id, name, input, server })),
        (id(), vec(part(), 0..3), any::<bool>())
            .prop_map(|(call_id, content, is_error)| { Block::ToolResult(ToolResult { call_id, content, is_error }) }),
        image(),
        text().prop_map(|summary| Block::Compaction { summary }),
        verbatim(),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let roles = vec![Role::User, Role::Assistant, Role::System, Role::Developer, Role::Tool];
    let standings =
        vec![Standing::Context, Standing::Context, Standing::Compacted, Standing::Abandoned, Standing::Sidechain];
    let time = option::of((0..4_000_000_000_000_000i64).prop_map(Timestamp::from_micros));
    let usage = option::of((0..9u64, any::<bool>()).prop_map(|(output_tokens, provisional)| Usage {
        output_tokens,
        provisional,
        ..Usage::default()
    }));
    let known = (time, option::of(id()), usage, any::<bool>());
    (proptest::sample::select(roles), proptest::sample::select(standings), vec(block(), 0..4), known).prop_map(
        |(role, standing, blocks, (at, id, usage, synthetic))| {
            let mut entry = Entry { standing, at, id, usage, synthetic, ..Entry::new(role, blocks) };
            entry.set_attribute("cwd", Some("/work"));
            entry
        },
    )
}

fn conversation() -> impl Strategy<Value = Conversation> {
    vec(entry(), 0..8).prop_map(|entries| Conversation { entries })
}

fn blocks(conversation: &Conversation) -> Vec<&Block> {
    conversation.entries.iter().flat_map(|entry| &entry.blocks).collect()
}

fn deltas_of(format: &dyn Format, whole: &[u8], every: usize) -> Vec<Vec<u8>> {
    let ends = format.split(whole).unwrap();
    let mut cuts: Vec<usize> = ends.iter().copied().step_by(every).collect();
    if cuts.last() != ends.last() {
        cuts.extend(ends.last());
    }
    format.cut(whole, &cuts).unwrap().into_iter().map(|part| part.into_owned()).collect()
}

fn in_passes<D: AsRef<[u8]>>(
    source: &dyn Format,
    target: &dyn Format,
    deltas: &[D],
    before: Option<&Surveyed<'_>>,
) -> (Vec<u8>, FidelityLedger) {
    let mut survey = Survey::new(source);
    deltas.iter().for_each(|delta| survey.push(delta.as_ref()).unwrap());
    let surveyed = survey.finish();
    let mut translation = surveyed.translate(target, before.map(|before| before.before()));
    let mut bytes = Vec::new();
    deltas.iter().for_each(|delta| bytes.extend_from_slice(translation.push(delta.as_ref()).unwrap()));
    let (rest, ledger) = translation.finish();
    bytes.extend(rest);
    (bytes, ledger)
}

/// A session of two stretches, as it is written and as it stands.
fn session(target: &'static dyn Format, stretches: &[(&'static dyn Format, Vec<Vec<u8>>)]) -> (Vec<u8>, Session) {
    let identity = Identity {
        session: "0198f3c2-7a41-4b1e-9f53-2d1f6a0c9e10".into(),
        cwd: "/here".into(),
        moved_from: Some("/there".into()),
        at: Timestamp::from_millis(1_700_000_000_000),
    };
    let extent = Extent { stretches: stretches.len(), ..Extent::default() };
    let mut look = enjamb_formats::session::Look::new(target, extent).unwrap();
    for (format, deltas) in stretches {
        look.stretch(*format);
        deltas.iter().for_each(|delta| look.push(delta).unwrap());
    }
    let looked = look.finish();
    let (mut composition, mut bytes) = (looked.compose(&identity), Vec::new());
    for (_, deltas) in stretches {
        let mut passage = composition.stretch(&mut bytes).unwrap();
        deltas.iter().for_each(|delta| passage.push(delta, &mut bytes).unwrap());
        passage.finish(&mut bytes);
    }
    let session = composition.finish(&mut bytes);
    (bytes, session)
}

/// The same, with each compaction in an entry of its own, as every runtime has it, and none that says nothing.
fn apart(mut conversation: Conversation) -> Conversation {
    let is_summary = |block: &Block| matches!(block, Block::Compaction { .. });
    for block in conversation.entries.iter_mut().flat_map(|entry| &mut entry.blocks) {
        if let Block::Compaction { summary } = block {
            summary.push_str(" and so on");
        }
    }
    let split = |entry: Entry| {
        let parts: Vec<Vec<Block>> =
            entry.blocks.chunk_by(|one, next| !is_summary(one) && !is_summary(next)).map(<[Block]>::to_vec).collect();
        parts.into_iter().map(move |blocks| Entry { blocks, id: None, ..entry.clone() })
    };
    Conversation { entries: conversation.entries.into_iter().flat_map(split).collect() }
}

/// What a session should say and does not.
fn unsaid(target: &'static dyn Format, bytes: &[u8], session: &Session) -> Option<String> {
    let mut back = ReadBack::new(target);
    back.push(bytes).unwrap();
    let written = back.finish().unwrap();
    let mut comparison = written.compare(&session.said);
    comparison.push(bytes).unwrap();
    comparison.finish().unwrap().map(|said| said.begins().to_owned())
}

/// What the model would see, in words.
fn shown(conversation: &Conversation) -> Vec<String> {
    let seen = conversation.entries.iter().filter(|entry| entry.is_message() && entry.standing == Standing::Context);
    let texts = seen.flat_map(|entry| &entry.blocks).filter_map(Block::as_text);
    texts.map(str::to_owned).collect()
}

fn decode(format: &dyn Format, bytes: &[u8]) -> Conversation {
    let found = format.inspect_with(bytes, TOLERANT).unwrap_or_else(|cause| panic!("{cause}"));
    assert!(found.damage.is_empty(), "{}: {:?}", format.id(), found.damage);
    format.decode(bytes).unwrap_or_else(|cause| panic!("{cause}"))
}

/// Bytes that look like a delta, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"{\"type\":\"user\",\"uuid\":\"a\",\"parentUuid\":\"b\",\"message\":{\"content\":",
        b"{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"message\":{\"id\":\"m\",\"content\":[",
        b"{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"c\"}\n",
        b"{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}}\n",
        b"{\"type\":\"compacted\",\"payload\":{\"replacement_history\":[{}]}}\n",
        b"{\"type\":\"gemini\",\"id\":\"a\",\"toolCalls\":[{\"id\":\"c\",\"name\":\"n\",\"result\":[",
        b"{\"type\":\"user\",\"id\":\"b\",\"content\":\"x\"}\n",
        b"{\"$rewindTo\":\"b\"}\n",
        b"{\"$set\":{\"messages\":[{\"id\":\"a\",\"type\":\"user\"},",
        b"{\"info\":{\"id\":\"m\",\"role\":\"user\"},\"parts\":[{\"type\":\"tool\",\"callID\":\"c\",\"state\":{",
        b"{\"id\":\"p\",\"messageID\":\"m\",\"type\":\"text\",\"text\":\"x\"}\n",
        b"{\"type\":\"event_msg\",\"payload\":{\"type\":\"thread_rolled_back\",\"num_turns\":9}}\n",
        b"{\"role\":\"user\",\"content\":",
        b"{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[",
        b"\"\\ud83d\"",
        b"\"hi\"",
        b"}",
        b"]",
        b"[",
        b"{",
        b",",
        b"\n",
        b"\0",
        b"\xff",
        b"null",
        b"1e999",
        b"\x81\xa2\x64Role\x64user\x67Content\x81\xa1",
        b"\x9f",
        b"\xa1\x64type\x66prompt",
        b"\x80",
    ];
    prop_oneof![vec(any::<u8>(), 0..64), vec(proptest::sample::select(words), 0..12).prop_map(|words| words.concat())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_format_panic(bytes in bytes()) {
        for format in all() {
            let _ = format.validate(&bytes);
            if let Ok(conversation) = format.decode(&bytes) {
                let _ = narrative::render(&conversation);
                let _ = format.encode(&conversation);
            }
        }
    }

    #[test]
    fn cut_anywhere_and_joined_again_a_delta_is_what_it_was(bytes in bytes()) {
        for format in all() {
            let Ok(ends) = format.split(&bytes) else { continue };
            let parts = format.cut(&bytes, &ends).unwrap();
            let records = |bytes: &[u8]| format.read(bytes).unwrap().records;
            let sum: u64 = parts.iter().map(|part| records(part)).sum();
            prop_assert_eq!(sum, records(&bytes));
            let whole = concat(*format, &parts).unwrap();
            // The spelling of a header is ours; joined once, it is settled.
            let settled = concat(*format, &[&whole]).unwrap();
            prop_assert_eq!(&whole, &settled);
            if format.framing() == Framing::JsonLines && !ends.is_empty() {
                prop_assert!(whole.starts_with(&bytes) && whole.len() <= bytes.len() + 1);
            }
        }
    }

    #[test]
    fn every_block_has_a_fate(conversation in conversation()) {
        for format in all() {
            let encoded = format.encode(&conversation);
            let fates: Vec<Range<usize>> = encoded.ledger.iter().map(|fate| fate.entry..fate.block).collect();
            let places: Vec<Range<usize>> = conversation.entries.iter().enumerate()
                .flat_map(|(index, entry)| (0..entry.blocks.len()).map(move |block| index..block)).collect();
            prop_assert_eq!(fates, places);
            let explained = encoded.ledger.iter().all(|fate| (fate.outcome == Outcome::Kept) == fate.reason.is_empty());
            prop_assert!(explained);
        }
    }

    #[test]
    fn what_was_written_is_read_and_written_again_the_same(conversation in conversation()) {
        for format in all() {
            let once = format.encode(&conversation).bytes;
            prop_assert_eq!(&once, &format.encode(&conversation).bytes, "{} is not deterministic", format.id());
            let first = decode(*format, &once);
            let encoded = format.encode(&first);
            let second = decode(*format, &encoded.bytes);
            prop_assert_eq!(blocks(&first), blocks(&second), "{}", format.id());
            // Where a call and its result share a record, what is known of the one is known of the other.
            if !["gemini-v1", "opencode-v1"].contains(&format.id()) {
                prop_assert_eq!(&first, &second, "{}", format.id());
            }
            let lost = encoded.ledger.iter().find(|fate| fate.outcome != Outcome::Kept);
            prop_assert_eq!(lost, None, "{}", format.id());
        }
    }

    /// Records of a tree are linked anew and the pieces of a run's text flow together; any other block that is said to
    /// be kept is there, unchanged.
    #[test]
    fn what_is_said_to_be_kept_is_kept(conversation in conversation()) {
        for format in all() {
            let encoded = format.encode(&conversation);
            let read = decode(*format, &encoded.bytes);
            let mut found = blocks(&read);
            for fate in encoded.ledger.iter().filter(|fate| fate.outcome == Outcome::Kept) {
                let block = &conversation.entries[fate.entry].blocks[fate.block];
                if block.as_verbatim().is_some() || (format.id() == "frames-v1" && block.as_text().is_some()) {
                    continue;
                }
                let place = found.iter().position(|candidate| *candidate == block);
                prop_assert!(place.is_some(), "{}: {block:?} is not among {found:?}", format.id());
                place.map(|place| found.swap_remove(place));
            }
        }
    }

    /// From one runtime to another and back: what was there is not written again, and what is new goes on from it.
    #[test]
    fn what_is_new_goes_on_from_what_was_there(old in conversation(), new in conversation()) {
        for (home, away) in [("claude-code-v1", "codex-v1"), ("codex-v1", "claude-code-v1")] {
            let (home, away) = (by_id(home).unwrap(), by_id(away).unwrap());
            let stays = home.encode(&old).bytes;
            let begins = |problem: &Problem| problem.code == Code::SessionMetaMissing;
            if stays.is_empty() || home.validate(&stays).iter().any(begins) {
                continue;
            }
            let added = away.encode(&new).bytes;
            let mut survey = Survey::new(home);
            survey.push(&stays).unwrap();
            let (bytes, ledger) = in_passes(away, home, &[&added], Some(&survey.finish()));
            let source = away.decode(&added).unwrap();
            prop_assert_eq!(ledger.blocks(), source.block_count());
            let whole = [&stays[..], &bytes[..]].concat();
            let broken = home.validate(&whole).into_iter().find(|problem| {
                matches!(problem.code, Code::ParentMissing | Code::SessionMetaMissing | Code::TimestampMissing)
            });
            prop_assert_eq!(broken, None);
            let expected = shown(&home.decode(&bytes).unwrap());
            let all = shown(&home.decode(&whole).unwrap());
            prop_assert!(all.ends_with(&expected), "{}: {all:?} does not end with {expected:?}", home.id());
        }
    }

    #[test]
    fn the_generic_format_keeps_everything(conversation in conversation()) {
        let generic = by_id("generic-v1").unwrap();
        let mut expected = conversation.clone();
        expected.entries.retain(|entry| !entry.blocks.is_empty());
        // Results alone are the tools' words, whoever handed them on.
        for entry in &mut expected.entries {
            if entry.role == Role::User && entry.blocks.iter().all(|block| block.as_tool_result().is_some()) {
                entry.role = Role::Tool;
            }
        }
        prop_assert_eq!(decode(generic, &generic.encode(&conversation).bytes), expected);
    }

    #[test]
    fn the_same_conversation_is_always_told_the_same(conversation in conversation()) {
        prop_assert_eq!(narrative::render(&conversation), narrative::render(&conversation.clone()));
        prop_assert_eq!(narrative::encode(&conversation).fidelity().blocks(), conversation.block_count());
    }
}

proptest! {
    // Every format with every other: each case is eighty-one.
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// In two passes over deltas, or at once in memory: the same bytes, and the same ledger.
    #[test]
    fn a_translation_is_the_same_in_passes(conversation in conversation(), every in 1..4usize) {
        for source in all() {
            let whole = source.encode(&conversation).bytes;
            let deltas = deltas_of(*source, &whole, every);
            for target in all() {
                let expected = target.encode(&source.decode(&concat(*source, &deltas).unwrap()).unwrap());
                let (bytes, ledger) = in_passes(*source, *target, &deltas, None);
                prop_assert_eq!(
                    String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&expected.bytes),
                    "{} to {}", source.id(), target.id()
                );
                prop_assert_eq!(ledger, expected.fidelity());
            }
        }
    }

    /// A session of what two runtimes wrote is the same however their deltas are cut, accounts for every block, and says
    /// all that it is said to.
    #[test]
    fn a_session_is_the_same_however_its_deltas_are_cut(
        old in conversation(), new in conversation(), every in 1..4usize
    ) {
        let (old, new) = (apart(old), apart(new));
        for target in all().iter().filter(|target| is_loaded(target.id())) {
            let sources = ["claude-code-v1", "codex-v1", "events-v1"].map(|id| by_id(id).unwrap());
            // What follows in the same format is no stretch of its own.
            for source in sources.into_iter().filter(|source| source.id() != target.id()) {
                let stretches = |every: usize| -> Vec<(&'static dyn Format, Vec<Vec<u8>>)> {
                    let cut = |format: &'static dyn Format, said: &Conversation| {
                        (format, deltas_of(format, &format.encode(said).bytes, every))
                    };
                    vec![cut(source, &old), cut(*target, &new)]
                };
                let (whole, session_whole) = session(*target, &stretches(usize::MAX));
                let (bytes, found) = session(*target, &stretches(every));
                prop_assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&whole));
                prop_assert_eq!((&found.said, &found.ledger), (&session_whole.said, &session_whole.ledger));
                let read = |format: &dyn Format, said| {
                    format.decode(&format.encode(said).bytes).unwrap().block_count()
                };
                prop_assert_eq!(found.ledger.blocks(), read(source, &old) + read(*target, &new));
                prop_assert_eq!(unsaid(*target, &bytes, &found), None, "{} to {}", source.id(), target.id());
            }
        }
    }
}
