//! One request over HTTP, blocking, with a time limit. No redirect is followed: it could carry the key elsewhere.

use std::sync::Arc;
use std::time::Duration;

use ureq::http::HeaderValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error, Timeout};

/// Bytes of an answer that are read. A summary has a few hundred.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

pub(super) struct Http(Agent);

pub(super) struct Reply {
    pub status: u16,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

pub(super) enum HttpError {
    /// Nobody was asked.
    NotSent(String),
    /// Somebody was asked, and may have worked on it.
    Unanswered(String),
}

impl Http {
    pub fn new(timeout: Duration, is_https: bool) -> Self {
        let mut config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("enjamb/", env!("CARGO_PKG_VERSION")));
        config = match is_https {
            true => config.tls_config(tls()),
            // A proxy would read what is said without encryption, the key to the loopback among it.
            false => config.proxy(None),
        };
        Self(config.build().new_agent())
    }

    pub fn post(&self, url: &str, headers: Vec<(&'static str, HeaderValue)>, body: &str) -> Result<Reply, HttpError> {
        let mut request = self.0.post(url).content_type("application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(told)?;
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = read.map_err(|error| HttpError::Unanswered(error.to_string()))?;
        Ok(Reply { status: response.status().as_u16(), retry_after: retry_after.map(Duration::from_secs), body })
    }
}

/// Trusts whom the machine trusts.
fn tls() -> TlsConfig {
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

fn told(error: Error) -> HttpError {
    let text = error.to_string();
    match error {
        Error::HostNotFound
        | Error::ConnectionFailed
        | Error::BadUri(_)
        | Error::InvalidProxyUrl
        | Error::Tls(_)
        | Error::Rustls(_)
        | Error::Timeout(Timeout::Connect | Timeout::Resolve) => HttpError::NotSent(text),
        Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => HttpError::NotSent(text),
        _ => HttpError::Unanswered(text),
    }
}
