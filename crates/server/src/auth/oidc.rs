//! Tokens that an identity provider signed (OpenID Connect): who it says is asking, and what they may do.
//!
//! Signatures are checked with the provider's public keys. Only algorithms with a public key are taken, whatever a token
//! says of itself; issuer, audience and expiry have to be there and fit. Scopes are named `enjamb:read`, `enjamb:append` and
//! `enjamb:admin`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::tokens::check_namespace;
use super::{Caller, Via};
use crate::route::Scope;

const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// How far clocks may be apart.
const LEEWAY_S: u64 = 30;
const REREAD_AFTER: Duration = Duration::from_secs(10);
const TOKEN_BYTES_MAX: usize = 12 << 10;
const KEYS_BYTES_MAX: u64 = 1 << 20;
const FETCH_WITHIN: Duration = Duration::from_secs(10);
const SCOPE_PREFIX: &str = "enjamb:";

/// A provider whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcOptions {
    pub issuer: String,
    pub audience: String,
    pub keys: KeySource,
    /// The claim that names the namespace. When it is set, a token without it is not taken.
    pub namespace_claim: Option<String>,
    /// Keys change now and then; a token with an unknown key has them read again, though not more often than this.
    pub reread_after: Duration,
}

impl OidcOptions {
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, keys: KeySource) -> Self {
        let (issuer, audience, reread_after) = (issuer.into(), audience.into(), REREAD_AFTER);
        Self { issuer, audience, keys, namespace_claim: None, reread_after }
    }
}

/// Where the public keys of a provider are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Url(String),
    /// Where the provider's own description says.
    Discovered,
}

impl KeySource {
    /// An address, or else a file.
    pub fn parse(text: &str) -> Self {
        let is_url = text.starts_with("https://") || text.starts_with("http://");
        if is_url { Self::Url(text.to_owned()) } else { Self::File(text.into()) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error("the keys of {issuer} cannot be read from {from}: {detail}")]
    Keys { issuer: String, from: String, detail: String },
}

pub struct Oidc {
    options: OidcOptions,
    known: Mutex<Known>,
}

struct Known {
    keys: JwkSet,
    read: Instant,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Oidc {
    /// Reads the keys, so that whoever starts a server learns at once when that cannot be done.
    pub fn new(options: OidcOptions) -> Result<Self, OidcError> {
        let keys = read_keys(&options)?;
        Ok(Self { options, known: Mutex::new(Known { keys, read: Instant::now() }) })
    }

    /// Whether a text may be one of these tokens at all.
    pub fn looks_like_one(text: &str) -> bool {
        text.len() <= TOKEN_BYTES_MAX && text.split('.').count() == 3
    }

    /// Who a token says is asking, if it is good. May wait for the provider, to learn of a new key.
    pub fn caller(&self, token: &str) -> Option<Caller> {
        let header = decode_header(token).ok()?;
        if !ALGORITHMS.contains(&header.alg) {
            return None;
        }
        let key = self.key(header.kid.as_deref())?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_audience(&[&self.options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let key = DecodingKey::from_jwk(&key).ok()?;
        let claims = decode::<Claims>(token, &key, &validation).ok()?.claims;
        self.caller_of(claims)
    }

    fn caller_of(&self, claims: Claims) -> Option<Caller> {
        let namespace = match &self.options.namespace_claim {
            None => None,
            Some(name) => {
                let namespace = claims.others.get(name)?.as_str()?;
                check_namespace(namespace).ok()?;
                Some(namespace.to_owned())
            }
        };
        let id = format!("oidc-{}", &blake3::hash(claims.sub.as_bytes()).to_hex()[..12]);
        let via = Via::Issued { id, expires_ms: claims.exp.saturating_mul(1_000) };
        let scopes = scopes(&claims.others);
        (!claims.sub.is_empty()).then_some(Caller { via, principal: Some(claims.sub), scopes, namespace })
    }

    /// The key of this name; the only one, if a token names none.
    fn key(&self, name: Option<&str>) -> Option<Jwk> {
        let find = |keys: &JwkSet| match (name, keys.keys.as_slice()) {
            (Some(name), _) => keys.find(name).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        };
        let mut known = self.lock();
        let found = find(&known.keys);
        if found.is_some() || known.read.elapsed() < self.options.reread_after {
            return found;
        }
        // Whoever comes meanwhile waits, so that the provider is asked once.
        known.read = Instant::now();
        match read_keys(&self.options) {
            Ok(keys) => known.keys = keys,
            Err(error) => tracing::error!(%error, "the old keys are used on"),
        }
        find(&known.keys)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The scopes that are ours, from `scope` (words) or `scp` (words or a list).
fn scopes(claims: &Map<String, Value>) -> Vec<Scope> {
    let words = |claim: &Value| -> Vec<String> {
        match claim {
            Value::String(text) => text.split(' ').map(str::to_owned).collect(),
            Value::Array(all) => all.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        }
    };
    let all = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).flat_map(words);
    all.filter_map(|word| Scope::parse(word.strip_prefix(SCOPE_PREFIX)?).ok()).collect()
}

fn read_keys(options: &OidcOptions) -> Result<JwkSet, OidcError> {
    let failed =
        |from: &str, detail: String| OidcError::Keys { issuer: options.issuer.clone(), from: from.to_owned(), detail };
    let parsed = |from: &str, bytes: &[u8]| {
        serde_json::from_slice::<JwkSet>(bytes).map_err(|error| failed(from, format!("no key set: {error}")))
    };
    match &options.keys {
        KeySource::File(path) => {
            let from = path.display().to_string();
            parsed(&from, &std::fs::read(path).map_err(|error| failed(&from, error.to_string()))?)
        }
        KeySource::Url(url) => parsed(url, &fetch(url).map_err(|detail| failed(url, detail))?),
        KeySource::Discovered => {
            let about = format!("{}/.well-known/openid-configuration", options.issuer.trim_end_matches('/'));
            let bytes = fetch(&about).map_err(|detail| failed(&about, detail))?;
            let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let url = document["jwks_uri"].as_str().ok_or_else(|| failed(&about, "it names no jwks_uri".into()))?;
            parsed(url, &fetch(url).map_err(|detail| failed(url, detail))?)
        }
    }
}

/// What is at an address. Keys decide who is let in, so they are only taken where nobody can exchange them on the way.
fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let is_here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"].iter().any(|here| url.starts_with(here));
    let config = ureq::Agent::config_builder().timeout_global(Some(FETCH_WITHIN)).max_redirects(0);
    let agent = match url.starts_with("https://") {
        true => config.tls_config(enjamb_service::http::tls()).build().new_agent(),
        false if is_here => config.proxy(None).build().new_agent(),
        false => return Err("it has to begin with https://".into()),
    };
    let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
    response.body_mut().with_config().limit(KEYS_BYTES_MAX).read_to_vec().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_our_scopes_are_scopes() {
        let of = |claims: Value| scopes(claims.as_object().unwrap());
        assert_eq!(of(json!({"scope": "openid enjamb:read enjamb:append"})), [Scope::Read, Scope::Append]);
        assert_eq!(of(json!({"scp": ["enjamb:admin", "read", "enjamb:all"]})), [Scope::Admin]);
        assert_eq!(of(json!({"scope": 7})), []);
    }

    #[test]
    fn keys_come_from_a_file_or_from_where_nobody_can_change_them() {
        assert_eq!(KeySource::parse("keys.json"), KeySource::File("keys.json".into()));
        assert_eq!(fetch("http://idp.example/keys"), Err("it has to begin with https://".into()));
        assert_eq!(fetch("http://localhost.evil.test/keys"), Err("it has to begin with https://".into()));
    }
}
