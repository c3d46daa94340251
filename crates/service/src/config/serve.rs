//! `[serve]`: where the server listens, for whom, and what it does besides.

use super::Config;
use super::key::{Key, Kind, Value};

const SWITCH: Kind = Kind::OneOf(&["on", "off"]);
const BYTES: Kind = Kind::Count { min: 1, max: u64::MAX / 2 };

/// Whom to listen to and whom to trust is not for a repository to say.
pub(super) const KEYS: &[Key] = &[
    Key::new("serve.listen", Kind::Text).or("127.0.0.1:4477").env("ENJAMB_SERVE_LISTEN").needs_trust(),
    Key::new("serve.hosts", Kind::Texts).needs_trust(),
    Key::new("serve.tls_cert", Kind::Text).env("ENJAMB_SERVE_TLS_CERT").needs_trust(),
    Key::new("serve.tls_key", Kind::Text).env("ENJAMB_SERVE_TLS_KEY").needs_trust(),
    Key::new("serve.oidc_issuer", Kind::Text).env("ENJAMB_SERVE_OIDC_ISSUER").needs_trust(),
    Key::new("serve.oidc_audience", Kind::Text).env("ENJAMB_SERVE_OIDC_AUDIENCE").needs_trust(),
    Key::new("serve.oidc_keys", Kind::Text).env("ENJAMB_SERVE_OIDC_KEYS").needs_trust(),
    Key::new("serve.oidc_namespace_claim", Kind::Text).env("ENJAMB_SERVE_OIDC_NAMESPACE_CLAIM").needs_trust(),
    Key::new("serve.otel_endpoint", Kind::Text).env("ENJAMB_SERVE_OTEL_ENDPOINT").needs_trust(),
    Key::new("serve.namespace_bytes_max", BYTES).env("ENJAMB_SERVE_NAMESPACE_BYTES_MAX"),
    Key::new("serve.namespace_streams_max", BYTES).env("ENJAMB_SERVE_NAMESPACE_STREAMS_MAX"),
    Key::new("serve.drain", SWITCH).or("on").env("ENJAMB_SERVE_DRAIN"),
    Key::new("serve.maintain", SWITCH).or("on").env("ENJAMB_SERVE_MAINTAIN"),
];

/// `[serve]`, as it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServeSettings {
    pub listen: String,
    pub hosts: Vec<String>,
    pub tls_cert: Option<String>,
    pub tls_key: Option<String>,
    pub oidc_issuer: Option<String>,
    pub oidc_audience: Option<String>,
    pub oidc_keys: Option<String>,
    pub oidc_namespace_claim: Option<String>,
    /// A collector of OpenTelemetry.
    pub otel_endpoint: Option<String>,
    pub namespace_bytes_max: Option<u64>,
    pub namespace_streams_max: Option<u64>,
    /// Take in what hooks tell of.
    pub drain: bool,
    /// Move cold bytes into segments.
    pub maintain: bool,
}

impl Config {
    pub fn serve(&self) -> ServeSettings {
        let text = |name: &str| self.text(&format!("serve.{name}")).map(str::to_owned);
        let hosts = match self.get("serve.hosts") {
            Some(Value::Texts(hosts)) => hosts.clone(),
            _ => Vec::new(),
        };
        ServeSettings {
            listen: text("listen").unwrap_or_default(),
            hosts,
            tls_cert: text("tls_cert"),
            tls_key: text("tls_key"),
            oidc_issuer: text("oidc_issuer"),
            oidc_audience: text("oidc_audience"),
            oidc_keys: text("oidc_keys"),
            oidc_namespace_claim: text("oidc_namespace_claim"),
            otel_endpoint: text("otel_endpoint"),
            namespace_bytes_max: self.count("serve.namespace_bytes_max"),
            namespace_streams_max: self.count("serve.namespace_streams_max"),
            drain: text("drain").as_deref() != Some("off"),
            maintain: text("maintain").as_deref() != Some("off"),
        }
    }
}
