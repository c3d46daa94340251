//! Requests of the object store, sent by the HTTP client that the rest of the program uses, so that there is one TLS and
//! one pool of connections in it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use ureq::http::header::{CONTENT_LENGTH, HOST};
use ureq::http::{Method, Request, Uri, request, response};
use ureq::tls::TlsConfig;
use ureq::{Agent, Error, Timeout};

use crate::trust::tls;

/// Of an answer: more than the largest block.
const ANSWER_BYTES_MAX: u64 = 80 << 20;
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// Until an answer begins.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
const BODY_WAIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        Ok(HttpClient::new(Requests { allows_plain, plain: OnceLock::new(), encrypted: OnceLock::new() }))
    }
}

#[derive(Debug)]
struct Requests {
    /// Whether what is not encrypted may leave this machine.
    allows_plain: bool,
    plain: OnceLock<Agent>,
    encrypted: OnceLock<Agent>,
}

#[async_trait]
impl HttpService for Requests {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let agent = self.agent(&parts.uri)?;
        let body = body.collect().await?.to_bytes();
        let sent = tokio::task::spawn_blocking(move || send(&agent, parts, &body)).await;
        let (parts, body) = sent.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))??;
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

impl Requests {
    fn agent(&self, uri: &Uri) -> Result<Agent, HttpError> {
        if uri.scheme_str() == Some("https") {
            return Ok(self.encrypted.get_or_init(|| agent(Some(tls()))).clone());
        }
        if !self.allows_plain && !is_loopback(uri) {
            let told = "it is not https: set AWS_ALLOW_HTTP=true if what is stored may be read on the way";
            return Err(HttpError::new_boxed(HttpErrorKind::Unknown, told.into()));
        }
        Ok(self.plain.get_or_init(|| agent(None)).clone())
    }
}

fn agent(tls: Option<TlsConfig>) -> Agent {
    let mut config = Agent::config_builder()
        .timeout_connect(Some(CONNECT_WAIT))
        .timeout_recv_response(Some(ANSWER_WAIT))
        .timeout_send_body(Some(BODY_WAIT))
        .timeout_recv_body(Some(BODY_WAIT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("enjamb/", env!("CARGO_PKG_VERSION")));
    config = match tls {
        Some(tls) => config.tls_config(tls),
        None => config.proxy(None),
    };
    config.build().new_agent()
}

/// Whether what is said does not leave this machine.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn send(agent: &Agent, mut parts: request::Parts, body: &[u8]) -> Result<(response::Parts, Vec<u8>), HttpError> {
    // The client says both by itself.
    parts.headers.remove(HOST);
    parts.headers.remove(CONTENT_LENGTH);
    let has_body = parts.method == Method::PUT || parts.method == Method::POST;
    let answered = match has_body {
        true => agent.run(Request::from_parts(parts, body)),
        false => agent.run(Request::from_parts(parts, ())),
    };
    let (parts, mut body) = answered.map_err(failed)?.into_parts();
    let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(failed)?;
    Ok((parts, body))
}

fn failed(error: Error) -> HttpError {
    let kind = match &error {
        Error::HostNotFound | Error::ConnectionFailed => HttpErrorKind::Connect,
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => HttpErrorKind::Connect,
        Error::Timeout(_) => HttpErrorKind::Timeout,
        Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
        Error::Io(_) | Error::Protocol(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
