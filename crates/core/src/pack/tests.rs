//! The vectors of the contract, and laws that every pack keeps.

use super::*;

fn sources(json: &str) -> Vec<Source> {
    let Tree::List(items) = Tree::parse(json.as_bytes()).unwrap() else { panic!("a list") };
    items.into_iter().map(|tree| Source::read("", tree).unwrap()).collect()
}

fn compat(json: &str) -> Vec<Source> {
    canonical(sources(json), Algorithm::Compat)
}

fn numbered(kind: &str, owner: &str, repo: &str, number: u64) -> String {
    format!(r#"{{"kind":"{kind}","repo":{{"owner":"{owner}","repo":"{repo}"}},"number":{number}}}"#)
}

fn check_hash(items: &[String], expected: &str) {
    assert_eq!(sources_hash(&compat(&format!("[{}]", items.join(",")))).as_deref(), Some(expected));
}

#[test]
fn sets_of_sources_have_the_hashes_of_the_contract() {
    let issue = numbered("github_issue", "test", "repo", 1);
    let pr = numbered("github_pr", "test", "repo", 2);
    let one = "93555203b84be98d1442b5c3a3dff07fcfe9b89d56ab8361b43d805752cac25e";
    check_hash(std::slice::from_ref(&issue), one);
    check_hash(&[issue.clone(), issue.clone()], one);
    let both = "e57af9553247a966fb73d3f493911ec5912af7c9957015e64f9dc43e9322ad3c";
    check_hash(&[pr.clone(), issue.clone()], both);
    check_hash(&[issue, pr], both);
    assert_eq!(sources_hash(&[]), None);
}

#[test]
fn members_are_hashed_in_the_order_of_the_contract() {
    let shuffled = r#"[{"number":1,"repo":{"repo":"repo","owner":"test"},"kind":"github_issue"}]"#;
    let expected = "93555203b84be98d1442b5c3a3dff07fcfe9b89d56ab8361b43d805752cac25e";
    assert_eq!(sources_hash(&sources(shuffled)).as_deref(), Some(expected));
    // In the order in which it was given here, it would be another.
    let given = Tree::parse(br#"[{"number":1,"kind":"github_issue","repo":{"owner":"test","repo":"repo"}}]"#).unwrap();
    let other = "426d917e60d042b4cf85e9d59132258c297aee00ea02f5b348d55c86e9839e31";
    assert_eq!(canonical::sha256_hex(&given.compact()), other);
}

#[test]
fn compat_does_not_tell_owners_apart_and_strict_does() {
    let two = [numbered("github_issue", "alice", "r", 1), numbered("github_issue", "bob", "r", 1)];
    check_hash(&two, "0afe470c861338d5540f3104cf9d5d31ceba1d57bc8f91c054d478933dd540af");
    let list = sources(&format!("[{}]", two.join(",")));
    assert_eq!(canonical(list.clone(), Algorithm::Strict).len(), 2);
    let (message, dropped) = Message::new(1, PackRole::Assistant, String::new(), String::new(), list);
    assert_eq!((message.sources.len(), dropped), (1, 1));
}

#[test]
fn compat_looks_into_ref_only_for_names_that_stand_at_the_top() {
    let artifact =
        |inside: &str| format!(r#"{{"kind":"afu9_artifact","artifactType":"t","artifactId":"i","ref":{inside}}}"#);
    let kept = |items: [&str; 2]| compat(&format!("[{}]", items.map(artifact).join(","))).len();
    assert_eq!(kept([r#"{"x":1}"#, r#"{"x":2}"#]), 1);
    assert_eq!(kept([r#"{"kind":1}"#, r#"{"kind":2}"#]), 2);
    assert_eq!(kept([r#"{"x":{"kind":1}}"#, r#"{"x":{"kind":2}}"#]), 1);
    assert_eq!(kept([r#"{"ref":[{"kind":1}]}"#, r#"{"ref":[{"kind":2}]}"#]), 2);
}

#[test]
fn paths_are_ordered_by_the_root_collation() {
    let order = ["_x.ts", "10.ts", "9.ts", "a-b.ts", "a.b.ts", "a.ts", "A.ts", "a/b.ts", "ab.ts", "B.ts", "Z.ts"];
    let snippet = |path: &str| {
        format!(
            r#"{{"kind":"file_snippet","repo":{{"owner":"o","repo":"r"}},"branch":"main","path":"{path}","startLine":1,"endLine":1,"snippetHash":"h"}}"#
        )
    };
    let shuffled: Vec<_> = order.iter().rev().map(|path| snippet(path)).collect();
    let path = |source: &Source| match source {
        Source::FileSnippet(snippet) => snippet.path.clone(),
        _ => panic!("a snippet"),
    };
    let sorted: Vec<_> = compat(&format!("[{}]", shuffled.join(","))).iter().map(path).collect();
    assert_eq!(sorted, order);
}

#[test]
fn an_empty_session_has_the_hash_of_the_contract() {
    let session = Session {
        id: "550e8400-e29b-41d4-a716-446655440000".into(),
        title: None,
        created_at: "2026-01-01T00:00:00.000Z".into(),
        updated_at: "2026-01-01T00:00:00.000Z".into(),
    };
    let pack = Pack::new(Timestamp::from_millis(5), session, Vec::new());
    let expected = r#"{"contextPackVersion":"0.7.0","derived":{"messageCount":0,"sessionHash":"","sourcesCount":0},"messages":[],"session":{"id":"550e8400-e29b-41d4-a716-446655440000","title":null},"warnings":[]}"#;
    assert_eq!(pack.canonical(), expected);
    assert_eq!(pack.session_hash, "6a4e7d0d6adeec6f175a92276e758fc9b5e9862fc2d7bad8fd946c82f4c44509");
    assert_eq!(pack.generated_at, "1970-01-01T00:00:00.005Z");
}

/// The example of the contract, whose hashes of sources are made up.
const EXAMPLE: &str = include_str!("example.json");

#[test]
fn the_example_of_the_contract_has_its_hash() {
    let pack = Pack::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(pack.canonical().chars().count(), 1754);
    assert_eq!(pack.hash(), "b88716b352a83f83e0726e89167f3d30bed0c216358a931620dda4c1bdfd053a");
    let codes: Vec<_> = pack.verify().into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["pack-hash-mismatch", "sources-hash-mismatch", "sources-hash-mismatch"]);
    assert_eq!(pack.check().unwrap_err().code(), "pack-hash-mismatch");
}

/// The example with hashes that are right.
fn example() -> Pack {
    let Pack { session, messages, .. } = Pack::parse(EXAMPLE.as_bytes()).unwrap();
    let again = |message: Message| {
        let Message { seq, role, content, created_at, sources, .. } = message;
        Message::new(seq, role, content, created_at, sources).0
    };
    Pack::new(Timestamp::from_millis(0), session, messages.into_iter().map(again).collect())
}

#[test]
fn a_pack_is_read_back_as_written_and_in_any_order_of_members() {
    let pack = example();
    assert_eq!(pack.verify(), []);
    assert_eq!((pack.message_count, pack.sources_count), (4, 2));
    let json = pack.to_json().unwrap();
    assert_eq!(Pack::parse(&json).unwrap(), pack);
    assert_eq!(Pack::parse(pack.tree().sorted().pretty().as_bytes()).unwrap(), pack);
}

#[test]
fn times_are_not_hashed_and_everything_else_is() {
    let hash = |change: &dyn Fn(&mut Pack)| {
        let mut pack = example();
        change(&mut pack);
        pack.hash()
    };
    let same = hash(&|_| {});
    assert_eq!(hash(&|pack| pack.generated_at = "x".into()), same);
    assert_eq!(hash(&|pack| pack.session.updated_at = "x".into()), same);
    assert_eq!(hash(&|pack| pack.messages[0].created_at = "x".into()), same);
    assert_ne!(hash(&|pack| pack.session.title = None), same);
    assert_ne!(hash(&|pack| pack.messages[1].content.push('!')), same);
    assert_ne!(hash(&|pack| pack.messages[2].role = PackRole::System), same);
    assert_ne!(hash(&|pack| pack.messages[1].sources.truncate(1)), same);
}

fn check_refused(from: &str, to: &str, code: &str, says: &str) {
    assert!(EXAMPLE.contains(from), "{from}");
    let error = Pack::parse(EXAMPLE.replacen(from, to, 1).as_bytes()).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn what_is_no_pack_is_refused_with_the_place() {
    check_refused("\"0.7.0\"", "\"0.8.0\"", "unsupported-pack-version", "0.7.0");
    check_refused("github_issue", "rumour", "unknown-source-kind", "messages[1].used_sources[1].kind is \"rumour\"");
    check_refused("\"role\": \"user\"", "\"role\": \"tool\"", "malformed-pack", "messages[0].role");
    check_refused("\"seq\": 1", "\"seq\": 1.5", "malformed-pack", "messages[0].seq");
    check_refused("\"used_sources\": null", "\"used_sources\": [{}]", "malformed-pack", "assistant");
    check_refused("\"warnings\": []", "\"warnings\": [1]", "malformed-pack", "warnings");
    check_refused("\"title\": \"Impl", "\"password\": \"x\", \"title\": \"Impl", "malformed-pack", "session.password");
    check_refused("550e8400-", "x-", "malformed-pack", "session.id is no UUID");
    check_refused("\"startLine\": 1,", "\"startLine\": 0,", "malformed-pack", "startLine is 0");
    check_refused("{", "", "malformed-pack", "no JSON");
}

#[test]
fn a_pack_that_is_too_large_says_how_large() {
    let mut pack = example();
    pack.messages[0].content = "x".repeat(limits::PACK_BYTES_MAX + (1 << 19));
    let error = pack.to_json().unwrap_err();
    assert_eq!(error.code(), "context-pack-too-large");
    assert_eq!(error.to_string(), "Context pack exceeds maximum size of 2 MB (current: 2.50 MB)");
}

#[test]
fn redaction_comes_before_the_hash() {
    let mut pack = example();
    let before = pack.session_hash.clone();
    assert_eq!(pack.redact().total(), 0);
    assert_eq!(pack.session_hash, before);
    pack.messages[0].content.push_str(&["AKI", "AQ3EGRTY7LMN2X5ZW"].concat());
    assert_eq!(pack.redact().found.into_iter().collect::<Vec<_>>(), [("aws-access-token", 1)]);
    assert!(pack.messages[0].content.ends_with("[redacted:aws-access-token]"));
    assert_eq!(pack.verify(), []);
}

#[test]
fn packs_are_compared_message_by_message() {
    let (a, mut b) = (example(), example());
    assert!(PackDiff::of(&a, &b).same);
    b.messages[0].content.push('!');
    b.messages[1].sources.remove(0);
    b.messages.pop();
    let diff = PackDiff::of(&a, &b);
    assert_eq!(diff.messages, [(1, Change::Said), (2, Change::Sources), (4, Change::Removed)]);
    assert_eq!((diff.sources_removed.len(), diff.sources_added.len(), diff.same), (2, 0, false));
}

#[test]
fn pages_say_what_the_pack_says() {
    let pack = example();
    let page = pack.markdown();
    assert!(page.starts_with("# Implement authentication flow\n\n- session: 550e8400-"), "{page}");
    assert!(page.contains("\n## 2. assistant (2026-01-01T10:00:02.000Z)\n\nI can help"), "{page}");
    assert!(page.contains("- control-center/middleware.ts:1-50 (adaefler-art/codefactory-control@main)"), "{page}");
    let yaml = pack.yaml();
    assert!(yaml.contains("\nmessages:\n  - seq: 1\n    role: \"user\"\n    content: \"How can"), "{yaml}");
    assert!(
        yaml.contains("    used_sources:\n      - kind: \"file_snippet\"\n        repo:\n          owner: "),
        "{yaml}"
    );
    assert!(yaml.ends_with("  sourcesCount: 2\nwarnings: []\n"), "{yaml}");
}

#[test]
fn a_session_without_a_uuid_has_one_that_follows_from_its_name() {
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    assert_eq!(session_uuid(uuid), uuid);
    let made = session_uuid("main");
    assert!(is_uuid(&made) && made == session_uuid("main") && made != session_uuid("other"), "{made}");
    assert_eq!(title_of(&"😀".repeat(60)).map(|title| title.chars().count()), Some(50));
}
