//! What is a secret, and what only looks like one.

use super::*;

/// A secret in parts, so that no scanner takes this file for a leak.
fn check(parts: &[&str], expected: &str) {
    let (mut text, mut redacted) = (parts.concat(), Redacted::default());
    redact(&mut text, &mut redacted);
    assert_eq!(text, expected);
}

#[test]
fn secrets_are_replaced_by_what_they_were() {
    check(&["key AKI", "AQ3EGRTY7LMN2X5ZW, used"], "key [redacted:aws-access-token], used");
    check(&["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "\n"], "[redacted:github-token]\n");
    check(&["postgres://bob:", "hunter22@db/x"], "postgres://bob:[redacted:url-password]@db/x");
    check(
        &["-----BEGIN RSA PRIV", "ATE KEY-----\n", &"Ab".repeat(20), "\n-----END RSA PRIVATE KEY-----!"],
        "[redacted:private-key]!",
    );
    check(
        &["export SERVICE_API", "_KEY=\"q8Zt5Lw0Rk2Yx7Vb4Nc9Md3Pf6Hj1Gs\""],
        "export SERVICE_API_KEY=\"[redacted:generic-api-key]\"",
    );
}

#[test]
fn in_json_a_secret_may_follow_an_escaped_line_end() {
    let token = ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
    check(&[r#"{"t":"see\n"#, &token, r#"\nand"}"#], r#"{"t":"see\n[redacted:github-token]\nand"}"#);
    let value = serde_json::json!({"key": format!("-----BEGIN PRIV{}\nAb\n-----END PRIVATE KEY-----", "ATE KEY-----")});
    let masked = mask(&value.to_string()).into_owned();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&masked).unwrap()["key"], "[redacted:private-key]");
}

#[test]
fn hashes_paths_and_ids_are_left_alone() {
    let plain = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 src/a.rs \
        550e8400-e29b-41d4-a716-446655440000 https://example.org:8080/a@b sk-learn AKIA \
        api_key: e3b0c44298fc1c149afbf4c8996fb924 access_token=550e8400-e29b-41d4-a716-446655440000 \
        API_KEY=process.env.SERVICE_KEY_2_FOR_7_TESTS apiKey: \"your_api_key_goes_here_1234\" \
        ctx-0123456789abcdef0123456789abcdef DESKTOP-SKILL npm_config_registry_is_a_name_of_npm1 \
        secret_key = some_function_name_v2_of_module_3";
    check(&[plain], plain);
    check(&["AKIA", "IOSFODNN7EXAMPLE"], "AKIAIOSFODNN7EXAMPLE");
    check(&["gh", "p_", &"a".repeat(36)], &format!("ghp_{}", "a".repeat(36)));
}

#[test]
fn places_are_those_of_the_secrets() {
    let token = ["da", "pi", "0123456789abcdef0123456789abcdef"].concat();
    let text = format!("a {token} and {token}");
    let found = secrets(text.as_bytes());
    let places: Vec<_> = found.iter().map(|secret| (secret.rule, secret.range.start, secret.range.len())).collect();
    assert_eq!(places, [("databricks-api-token", 2, 36), ("databricks-api-token", 43, 36)]);
    assert!(matches!(mask("nothing to see"), Cow::Borrowed(_)));
}

#[test]
fn every_rule_compiles_has_a_name_of_its_own_and_begins_with_its_words() {
    let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), RULES.len());
    assert!((0..RULES.len()).all(|rule| !FINDER.form(rule).as_str().is_empty()));
    let words: Vec<_> = RULES.iter().flat_map(|rule| rule.words).collect();
    assert_eq!(words.iter().collect::<std::collections::BTreeSet<_>>().len(), words.len(), "no word is of two rules");
    assert!(words.iter().all(|word| word.len() >= 3));
}

#[test]
fn in_pieces_as_in_one() {
    let token = ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
    let line = format!("{} {token}\n", "filler words ".repeat(900));
    let text = line.repeat(200);
    let (mut stream, mut masked) = (SecretStream::default(), Vec::new());
    for piece in text.as_bytes().chunks(100_003) {
        masked.extend(stream.push(piece));
    }
    masked.extend(stream.finish());
    assert!(masked == mask(&text).as_bytes());
    let places: Vec<u64> = stream.take_found().into_iter().map(|found| found.at).collect();
    let expected: Vec<u64> = secrets(text.as_bytes()).into_iter().map(|secret| secret.range.start as u64).collect();
    assert_eq!((places.len(), places), (200, expected));
}
