//! Secrets, found by how they look and replaced by the name of what they were.
//!
//! The patterns are those of the token families in the default rules of gitleaks (MIT licence, version 8) whose form alone
//! tells them from other text: a fixed prefix and a fixed alphabet. Guessing by entropy is left out: it would change
//! hashes, paths and ids, which are what packs are about.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// The name of this set of rules, recorded wherever it was applied. Another set has another name.
pub const RULE_SET: &str = "enjamb-secrets-v1";

/// How many secrets of each kind were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redacted {
    pub found: BTreeMap<&'static str, u64>,
}

impl Redacted {
    pub fn total(&self) -> u64 {
        self.found.values().sum()
    }
}

/// The id of a kind of secret as gitleaks calls it, and its form.
const RULES: &[(&str, &str)] = &[
    (
        "private-key",
        r"(?s)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----.+?-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----",
    ),
    ("anthropic-api-key", r"\bsk-ant-(?:api|admin|oat|sid)[0-9]{2}-[A-Za-z0-9_-]{20,120}"),
    (
        "openai-api-key",
        r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,200}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b",
    ),
    ("aws-access-token", r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{36,255}\b"),
    ("gitlab-token", r"\bgl(?:pat|ptt|dt|rt|cbt|ft|agent|soat)-[A-Za-z0-9_-]{20,60}"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}|\bxapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]+"),
    ("slack-webhook-url", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,60}"),
    ("stripe-access-token", r"\b[sr]k_(?:test|live|prod)_[A-Za-z0-9]{10,99}\b"),
    ("gcp-api-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("npm-access-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-upload-token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000}"),
    ("sendgrid-api-token", r"\bSG\.[A-Za-z0-9=_-]{22}\.[A-Za-z0-9=_-]{43}"),
    ("twilio-api-key", r"\bSK[0-9a-f]{32}\b"),
    ("huggingface-access-token", r"\bhf_[A-Za-z]{34}\b"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}\b"),
    ("telegram-bot-token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    ("age-secret-key", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("jwt", r"\beyJ[A-Za-z0-9]{14,}\.eyJ[A-Za-z0-9/_-]{14,}\.[A-Za-z0-9/_-]{10,}={0,2}"),
    ("url-password", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:[^\s/:@]{3,200}@"),
];

static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    RULES.iter().map(|(id, pattern)| (*id, Regex::new(pattern).expect("the rules are tested"))).collect()
});

/// Replaces every secret in a text by `[redacted:KIND]`, and counts them.
pub fn redact(text: &mut String, redacted: &mut Redacted) {
    for (id, rule) in COMPILED.iter() {
        let found = rule.find_iter(text).count() as u64;
        if found > 0 {
            *redacted.found.entry(id).or_default() += found;
            *text = rule.replace_all(text, format!("[redacted:{id}]")).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
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
        check(&["gh", "p_", &"a1".repeat(18), "\n"], "[redacted:github-token]\n");
        check(&["postgres://bob:", "hunter22@db/x"], "[redacted:url-password]db/x");
        check(
            &["-----BEGIN RSA PRIV", "ATE KEY-----\n", &"Ab".repeat(20), "\n-----END RSA PRIVATE KEY-----!"],
            "[redacted:private-key]!",
        );
    }

    #[test]
    fn hashes_paths_and_ids_are_left_alone() {
        let plain = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 src/a.rs \
            550e8400-e29b-41d4-a716-446655440000 https://example.org:8080/a@b sk-learn AKIA";
        check(&[plain], plain);
    }

    #[test]
    fn every_rule_compiles_and_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = COMPILED.iter().map(|(id, _)| *id).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
