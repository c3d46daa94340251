//! The rules: what secrets of each kind look like.
//!
//! Kinds, their names and the way they are found (a word that must be there, a form, a measure of randomness, words that
//! speak against it) follow the default rules of gitleaks 8 (<https://github.com/gitleaks/gitleaks>, MIT licence,
//! copyright Zachary Rice). The forms are written for this scanner, which looks at a form only where its word stands: they
//! are those that the providers document. Rules that know a secret by nothing but its randomness are left out, because
//! hashes and ids are what transcripts are full of.

/// A kind of secret.
pub(super) struct Rule {
    pub id: &'static str,
    /// One of these begins it, in just these letters. They have three bytes or more: shorter ones are everywhere.
    pub words: &'static [&'static str],
    /// From the word on. What is named `secret` is the secret; else all of it.
    pub form: &'static str,
    /// Bits of randomness for each character that the secret has at least.
    pub entropy_min: f64,
    pub begins: Begins,
}

/// Where its word may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// Not within a longer word.
    AtWord,
    Anywhere,
}

const fn token(id: &'static str, words: &'static [&'static str], form: &'static str, entropy_min: f64) -> Rule {
    Rule { id, words, form, entropy_min, begins: Begins::AtWord }
}

const fn within(id: &'static str, words: &'static [&'static str], form: &'static str, entropy_min: f64) -> Rule {
    Rule { id, words, form, entropy_min, begins: Begins::Anywhere }
}

pub(super) const RULES: &[Rule] = &[
    within(
        "private-key",
        &["-----BEGIN"],
        r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?s:.+?)-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----",
        0.0,
    ),
    token("1password-service-account-token", &["ops_eyJ"], r"ops_eyJ[A-Za-z0-9+/]{100,}={0,2}", 4.0),
    token("age-secret-key", &["AGE-SECRET-KEY-1"], r"AGE-SECRET-KEY-1[0-9A-Z]{58}", 3.0),
    token("anthropic-api-key", &["sk-ant-"], r"sk-ant-(?:api|admin|oat|sid)[0-9]{2}-[A-Za-z0-9_-]{20,120}", 3.0),
    token("aws-access-token", &["AKIA", "ASIA", "ABIA", "ACCA"], r"A[A-Z]{3}[A-Z2-7]{16}\b", 3.0),
    token("databricks-api-token", &["dapi"], r"dapi[a-f0-9]{32}(?:-[0-9])?\b", 3.0),
    token("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64}\b", 3.0),
    token("docker-pat", &["dckr_"], r"dckr_[op]at_[A-Za-z0-9_-]{20,60}", 3.0),
    token("doppler-api-token", &["dp.pt."], r"dp\.pt\.[A-Za-z0-9]{40,44}\b", 3.0),
    within("discord-webhook", &["/api/webhooks/"], r"/api/webhooks/[0-9]{15,22}/(?P<secret>[A-Za-z0-9_-]{50,90})", 3.5),
    token("flyio-access-token", &["fm1r_", "fm2_", "fo1_"], r"f[mo][12]r?_[A-Za-z0-9+/=_-]{40,}", 3.5),
    token("gcp-api-key", &["AIza"], r"AIza[A-Za-z0-9_-]{35}", 3.5),
    token("gcp-oauth-token", &["ya29."], r"ya29\.[A-Za-z0-9_-]{30,}", 3.5),
    token("gcp-oauth-client-secret", &["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28}", 3.0),
    token(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"gh[pousr]_[A-Za-z0-9]{36,255}\b|github_pat_[A-Za-z0-9_]{36,255}\b",
        3.0,
    ),
    token(
        "gitlab-token",
        &["glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glagent-", "glsoat-"],
        r"gl[a-z]{2,5}-[A-Za-z0-9_-]{20,60}",
        3.0,
    ),
    token(
        "grafana-token",
        &["glsa_", "glc_"],
        r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,2}",
        3.0,
    ),
    token("groq-api-key", &["gsk_"], r"gsk_[A-Za-z0-9]{40,60}\b", 3.5),
    token("heroku-api-key", &["HRKU-"], r"HRKU-[A-Za-z0-9_-]{36,80}", 3.5),
    token("huggingface-access-token", &["hf_"], r"hf_[A-Za-z0-9]{34,40}\b", 3.0),
    token("jwt", &["eyJ"], r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_/-]{10,}\.[A-Za-z0-9_/-]{10,}={0,2}", 3.0),
    token("linear-api-key", &["lin_api_"], r"lin_api_[A-Za-z0-9]{40}\b", 3.0),
    token("new-relic-user-api-key", &["NRAK-"], r"NRAK-[A-Z0-9]{27}\b", 3.0),
    token("notion-api-token", &["ntn_"], r"ntn_[A-Za-z0-9]{40,60}\b", 3.5),
    token("npm-access-token", &["npm_"], r"npm_[A-Za-z0-9]{36}\b", 3.0),
    token(
        "openai-api-key",
        &["sk-"],
        r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,200}|sk-(?:or-v1-[a-f0-9]{64}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})\b",
        3.5,
    ),
    token("perplexity-api-key", &["pplx-"], r"pplx-[A-Za-z0-9]{48}\b", 3.5),
    token("planetscale-token", &["pscale_"], r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}", 3.0),
    token("postman-api-token", &["PMAK-"], r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}\b", 3.0),
    token("pypi-upload-token", &["pypi-AgE"], r"pypi-AgE[A-Za-z0-9_-]{50,1000}", 3.0),
    token("replicate-api-token", &["r8_"], r"r8_[A-Za-z0-9]{37}\b", 3.5),
    token("rubygems-api-token", &["rubygems_"], r"rubygems_[a-f0-9]{48}\b", 3.0),
    token("sendgrid-api-token", &["SG."], r"SG\.[A-Za-z0-9=_-]{22}\.[A-Za-z0-9=_-]{43}", 3.5),
    token("sendinblue-api-token", &["xkeysib-"], r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b", 3.0),
    token("sentry-token", &["sntry"], r"sntry[su]_[A-Za-z0-9+/=_-]{40,}", 3.5),
    token("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}\b", 3.0),
    token(
        "slack-token",
        &["xox", "xapp-"],
        r"xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]+",
        2.5,
    ),
    within(
        "slack-webhook-url",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{40,60})",
        3.0,
    ),
    token(
        "stripe-access-token",
        &["sk_test_", "sk_live_", "rk_test_", "rk_live_"],
        r"[sr]k_(?:test|live)_[A-Za-z0-9]{10,120}\b",
        3.0,
    ),
    token("supabase-token", &["sbp_", "sb_secret_"], r"sbp_[a-f0-9]{40}\b|sb_secret_[A-Za-z0-9_-]{20,60}", 3.0),
    token("tailscale-auth-key", &["tskey-"], r"tskey-[a-z]+-[A-Za-z0-9]{10,20}-[A-Za-z0-9]{20,40}\b", 3.0),
    within("telegram-bot-token", &[":AA"], r":(?P<secret>AA[A-Za-z0-9_-]{33})\b", 4.0),
    token("vault-token", &["hvs.", "hvb."], r"hv[sb]\.[A-Za-z0-9_-]{80,220}", 3.5),
    token("xai-api-key", &["xai-"], r"xai-[A-Za-z0-9]{70,90}\b", 3.5),
    within(
        "url-password",
        &["://"],
        r#"://[^\s/:@"'`\\<>\[\]{}()$]{1,100}:(?P<secret>[^\s/:@"'`\\<>{}$]{3,200})@[A-Za-z0-9\[]"#,
        0.0,
    ),
    within(
        "generic-api-key",
        &[
            "API_KEY",
            "APIKEY",
            "api_key",
            "api-key",
            "apiKey",
            "apikey",
            "SECRET_KEY",
            "secret_key",
            "secretKey",
            "SECRET_ACCESS_KEY",
            "secret_access_key",
            "CLIENT_SECRET",
            "client_secret",
            "clientSecret",
            "ACCESS_TOKEN",
            "access_token",
            "accessToken",
            "AUTH_TOKEN",
            "auth_token",
            "authToken",
            "Bearer ",
        ],
        r#"(?:[A-Za-z_-]+\\?["'`]?[ \t]{0,3}(?:=|:|=>|:=)[ \t]{0,3}\\?["'`]?|Bearer )(?P<secret>[A-Za-z0-9_.=+/~-]{20,150})"#,
        3.7,
    ),
];

/// Parts of what is written in place of a secret.
pub(super) const STOP_WORDS: &[&str] = &[
    "example",
    "placeholder",
    "redacted",
    "changeme",
    "change_me",
    "your_",
    "your-",
    "dummy",
    "xxxx",
    "****",
    "0000000000",
    "1234567890",
    "abcdefgh",
    "process.env",
    "getenv",
    "environ",
];
