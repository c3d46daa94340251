//! One request over HTTP, blocking, with a time limit; the answer whole, or as it comes. No redirect is followed: it could
//! carry the key elsewhere.

use std::io::ErrorKind;
use std::time::Duration;

pub use enjamb_ledger::tls;
use ureq::http::{HeaderValue, Response};
use ureq::{Agent, Body, BodyReader, Error, Timeout};

/// Bytes of an answer that are read. A summary has a few hundred.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone)]
pub(crate) struct Http(Agent);

pub(crate) struct Reply {
    pub status: u16,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

/// An answer whose body is read as it comes.
pub(crate) struct Opened {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub request_id: Option<String>,
    pub content_type: Option<String>,
    pub body: BodyReader<'static>,
}

pub(crate) enum HttpError {
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
        let mut response = self.send(url, headers, body.as_bytes())?;
        let retry_after = retry_after(&response);
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = read.map_err(|error| HttpError::Unanswered(error.to_string()))?;
        Ok(Reply { status: response.status().as_u16(), retry_after, body })
    }

    /// Sends a request and returns when its answer begins.
    pub fn open(&self, url: &str, headers: Vec<(&'static str, HeaderValue)>, body: &[u8]) -> Result<Opened, HttpError> {
        let response = self.send(url, headers, body)?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        Ok(Opened {
            status: response.status().as_u16(),
            retry_after: retry_after(&response),
            request_id: header("x-request-id")
                .or_else(|| header("x-openai-request-id"))
                .or_else(|| header("request-id")),
            content_type: header("content-type"),
            body: response.into_body().into_reader(),
        })
    }

    fn send(
        &self,
        url: &str,
        headers: Vec<(&'static str, HeaderValue)>,
        body: &[u8],
    ) -> Result<Response<Body>, HttpError> {
        let mut request = self.0.post(url).content_type("application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send(body).map_err(told)
    }
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn told(error: Error) -> HttpError {
    let text = error.to_string();
    if was_sent(&error) { HttpError::Unanswered(text) } else { HttpError::NotSent(text) }
}

/// Whether somebody may have been asked, and have worked on it.
pub fn was_sent(error: &Error) -> bool {
    match error {
        Error::HostNotFound
        | Error::ConnectionFailed
        | Error::BadUri(_)
        | Error::InvalidProxyUrl
        | Error::Tls(_)
        | Error::Rustls(_)
        | Error::Timeout(Timeout::Connect | Timeout::Resolve) => false,
        // A socket that is not there, or that nobody listens to.
        Error::Io(error) => !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound),
        _ => true,
    }
}
