//! What a team needs: encryption to the end, and people whom their identity provider vouches for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use enjamb_server::{KeySource, OidcOptions, TlsFiles};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::harness::{Home, exchange};

/// Who trusts a certificate, as a client.
fn client(authority: Option<&CertifiedIssuer<'_, KeyPair>>) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    if let Some(authority) = authority {
        roots.add(authority.der().clone()).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn a_connection_is_encrypted_for_who_trusts_the_authority_and_refused_otherwise() {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &authority).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key_file) = (files.path().join("chain.pem"), files.path().join("key.pem"));
    std::fs::write(&certificate, leaf.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let home = Home::with(|options| options.tls = Some(TlsFiles { certificate: certificate.clone(), key: key_file }));
    let connect = |config, name: &'static str| {
        let connection = rustls::ClientConnection::new(config, name.try_into().unwrap()).unwrap();
        rustls::StreamOwned::new(connection, home.connect())
    };
    let request = home.ask("GET", "/v1/status").bytes();
    assert_eq!(exchange(connect(client(Some(&authority)), "localhost"), &request).status, 200);
    let refused = |config, name| connect(config, name).write_all(&request).unwrap_err().to_string();
    assert!(refused(client(None), "localhost").contains("UnknownIssuer"), "nobody is trusted without a reason");
    let elsewhere = refused(client(Some(&authority)), "example.com");
    assert!(elsewhere.to_lowercase().contains("not valid for name"), "{elsewhere}");
    let mut plain = home.connect();
    plain.write_all(&request).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "nothing is said in plain text");
    let mut events = connect(client(Some(&authority)), "localhost");
    events.write_all(&home.ask("GET", "/v1/principals/p/events").bytes()).unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 1024]);
    while !text.contains("retry: 2000") {
        let read = events.read(&mut buffer).expect("events come through TLS as well");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

/// A key of an identity provider.
struct Key {
    name: &'static str,
    pair: KeyPair,
}

impl Key {
    fn new(name: &'static str) -> Self {
        Self { name, pair: KeyPair::generate().unwrap() }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key_raw();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"kty": "EC", "crv": "P-256", "kid": self.name, "alg": "ES256", "use": "sig",
            "x": part(&point[1..33]), "y": part(&point[33..65])})
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.name.into()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &EncodingKey::from_ec_der(&self.pair.serialize_der())).unwrap()
    }
}

const ISSUER: &str = "https://id.example";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that are good, with some of them changed, or taken out by a null.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "enjamb", "sub": "dana@acme.dev", "exp": now_s() + 600,
        "scope": "openid enjamb:read enjamb:append", "team": "payments",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn home(keys: KeySource) -> Home {
    Home::with(|options| {
        let mut oidc = OidcOptions::new(ISSUER, "enjamb", keys);
        oidc.namespace_claim = Some("team".into());
        oidc.reread_after = Duration::ZERO;
        options.oidc = Some(oidc);
    })
}

#[test]
fn who_the_provider_vouches_for_is_let_in_and_acts_in_their_own_name() {
    let (key, files) = (Key::new("k1"), tempfile::tempdir().unwrap());
    let path = files.path().join("keys.json");
    std::fs::write(&path, json!({"keys": [key.public()]}).to_string()).unwrap();
    let home = home(KeySource::File(path));
    let ask = |token: &str| home.bare("GET", "/v1/meta").token(token).send();
    let meta = ask(&key.sign(&claims(json!({})))).ok();
    assert_eq!((&meta["principal"], &meta["namespace"]), (&json!("dana@acme.dev"), &json!("payments")));
    assert_eq!(meta["scopes"], json!(["read", "append"]));
    let good = claims(json!({}));
    let refused = [
        ("expired", key.sign(&claims(json!({"exp": now_s() - 600})))),
        ("not yet", key.sign(&claims(json!({"nbf": now_s() + 600})))),
        ("never expires", key.sign(&claims(json!({"exp": null})))),
        ("another issuer", key.sign(&claims(json!({"iss": "https://evil.test"})))),
        ("another audience", key.sign(&claims(json!({"aud": "other"})))),
        ("nobody", key.sign(&claims(json!({"sub": null})))),
        ("no namespace", key.sign(&claims(json!({"team": null})))),
        ("a namespace that is a path", key.sign(&claims(json!({"team": "../x"})))),
        ("another key of the same name", Key::new("k1").sign(&good)),
        ("an unknown key", Key::new("k2").sign(&good)),
        ("the public key as a secret", {
            let secret = EncodingKey::from_secret(key.pair.public_key_raw());
            encode(&Header { kid: Some("k1".into()), ..Header::new(Algorithm::HS256) }, &good, &secret).unwrap()
        }),
        ("no signature", {
            let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
            format!("{}.{}.", part(json!({"alg": "none", "kid": "k1"})), part(good.clone()))
        }),
    ];
    for (what, token) in refused {
        assert_eq!(ask(&token).problem(), (401, "unauthenticated".into()), "{what}");
    }
    let reads = key.sign(&claims(json!({"scope": "enjamb:read"})));
    let post = home.bare("POST", "/v1/threads").token(&reads).json(&json!({})).send();
    assert_eq!(post.problem(), (403, "missing-scope".into()));
    let forged = json!({"format": "generic-v1", "content": "{}\n", "principal": "boss"});
    let committed = home.bare("POST", "/v1/contexts").token(&key.sign(&good)).json(&forged).send();
    assert_eq!(committed.problem(), (403, "principal-not-allowed".into()));
}

#[test]
fn a_new_key_is_learned_from_the_provider() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let served = Arc::new(Mutex::new(json!({"keys": [old.public()]}).to_string()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let shown = served.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let keys = shown.lock().unwrap().clone();
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", keys.len());
            let _ = stream.write_all(format!("{head}{keys}").as_bytes());
        }
    });
    let home = home(KeySource::Url(url));
    let ask = |key: &Key| home.bare("GET", "/v1/meta").token(&key.sign(&claims(json!({})))).send().status;
    assert_eq!((ask(&old), ask(&new)), (200, 401));
    *served.lock().unwrap() = json!({"keys": [new.public()]}).to_string();
    assert_eq!((ask(&new), ask(&old)), (200, 401), "and an old one is forgotten");
}
