//! The operations of a store behind a server. Requests are made from the same table that the server routes by, so every
//! operation there is can be asked for by its name.

mod follow;
mod request;
mod unix;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use enjamb_core::ErrorKind;
use enjamb_service::http::{tls, was_sent};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{HeaderMap, Response};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body, SendBody};

use crate::auth::Secret;
use crate::input::encoded;
use crate::wire;

pub use follow::Follow;
use request::Wanted;

/// Bytes of an answer that is read whole.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `http://` or `https://`, without a path.
    Web(String),
    Socket(PathBuf),
}

impl Address {
    /// What a text says where a store is, if it says that a server has it.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix://") {
            let path = Path::new(path);
            // The directory of a store stands for the socket in it.
            let socket = if path.is_dir() { crate::socket_of(path) } else { path.to_owned() };
            return Some(Self::Socket(socket));
        }
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        is_web.then(|| Self::Web(text.trim_end_matches('/').trim_end_matches("/v1").to_owned()))
    }
}

/// Why an operation was not done.
#[derive(Clone, PartialEq)]
pub enum ClientError {
    /// The server says why, in its own words.
    Refused(Value),
    /// There was no answer, or none that makes sense. What was to be written may be written all the same, if it was sent.
    Unanswered { at: String, detail: String, sent: bool },
}

impl ClientError {
    /// The failure as a document, the same as a store on this machine would give.
    pub fn problem(&self) -> Value {
        match self {
            Self::Refused(problem) => problem.clone(),
            Self::Unanswered { sent, .. } => {
                let numbers = wire::numbers(ErrorKind::Unavailable);
                let outcome = if *sent { "indeterminate" } else { "none" };
                serde_json::json!({
                    "type": wire::type_of("unreachable"), "code": "unreachable", "title": self.to_string(),
                    "exit": numbers.exit, "status": numbers.status, "retryable": true, "outcome": outcome,
                    "help": "enjamb serve    starts a server",
                })
            }
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => f.write_str(problem["title"].as_str().unwrap_or("the server refused")),
            Self::Unanswered { at, detail, .. } => write!(f, "{at}: {detail}"),
        }
    }
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ClientError {}

/// Why nobody answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Silence {
    /// Nobody is there.
    Absent(ClientError),
    /// Somebody is there and says nothing.
    Stuck,
}

type Result<T> = std::result::Result<T, ClientError>;

/// A store behind a server.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    base: String,
    name: String,
    token: Option<Secret>,
    actor: Option<(String, String)>,
}

/// An answer whose bytes are still to be read.
pub struct Download {
    pub headers: HeaderMap,
    body: Body,
}

impl Download {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn reader(&mut self) -> impl Read + '_ {
        self.body.as_reader()
    }
}

impl Client {
    pub fn new(address: &Address, token: Option<Secret>) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_WITHIN))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("enjamb/", env!("CARGO_PKG_VERSION")));
        let (agent, base, name) = match address {
            Address::Web(url) if url.starts_with("https://") => {
                (config.tls_config(tls()).build().new_agent(), url.clone(), url.clone())
            }
            // Nobody else is to read a token that is not encrypted.
            Address::Web(url) => (config.proxy(None).build().new_agent(), url.clone(), url.clone()),
            Address::Socket(path) => {
                let config = config.proxy(None).build();
                let agent = Agent::with_parts(config, unix::SocketConnector(path.clone()), DefaultResolver::default());
                (agent, "http://localhost".to_owned(), path.display().to_string())
            }
        };
        Self { agent, base, name, token, actor: None }
    }

    /// Whether a server is there and answers within some time. One that is stopped takes connections all the same, and a
    /// question to it would wait for ever.
    pub fn check(&self, within: Duration) -> std::result::Result<(), Silence> {
        let request = self.agent.get(format!("{}/healthz", self.base)).config().timeout_global(Some(within)).build();
        match request.call() {
            Ok(_) => Ok(()),
            Err(ureq::Error::Timeout(_)) => Err(Silence::Stuck),
            Err(error) => Err(Silence::Absent(self.unanswered(error.to_string()))),
        }
    }

    /// In whose name, and through what, everything is done from now on.
    #[must_use]
    pub fn acting(self, actor: &str, origin: &str) -> Self {
        Self { actor: Some((actor.to_owned(), origin.to_owned())), ..self }
    }

    /// Does an operation whose answer is a document.
    pub fn call<T: DeserializeOwned>(&self, operation: &str, params: Value) -> Result<T> {
        self.call_with(operation, params, &[])
    }

    /// As [`Client::call`], with headers such as `if-match`.
    pub fn call_with<T: DeserializeOwned>(
        &self,
        operation: &str,
        params: Value,
        headers: &[(&str, &str)],
    ) -> Result<T> {
        let wanted = Wanted::of(operation, params).map_err(|detail| self.unanswered(detail))?;
        self.document(self.ask(&wanted, headers)?)
    }

    /// Does an operation that takes bytes.
    pub fn upload<T: DeserializeOwned>(
        &self,
        operation: &str,
        params: Value,
        headers: &[(&str, &str)],
        source: &mut dyn Read,
    ) -> Result<T> {
        let wanted = Wanted::of(operation, params).map_err(|detail| self.unanswered(detail))?;
        let response = self.send(&wanted, headers, SendBody::from_reader(&mut { source }))?;
        self.document(response)
    }

    /// Does an operation that gives bytes.
    pub fn download(&self, operation: &str, params: Value, headers: &[(&str, &str)]) -> Result<Download> {
        let wanted = Wanted::of(operation, params).map_err(|detail| self.unanswered(detail))?;
        let response = self.checked(self.ask(&wanted, headers)?)?;
        let (parts, body) = response.into_parts();
        Ok(Download { headers: parts.headers, body })
    }

    /// Sends a request whose parameters are all there is to send.
    fn ask(&self, wanted: &Wanted, headers: &[(&str, &str)]) -> Result<Response<Body>> {
        let Some(body) = &wanted.body else { return self.send(wanted, headers, SendBody::none()) };
        let body = SendBody::from_owned_reader(io::Cursor::new(body.to_string()));
        self.send(wanted, &[headers, &[("content-type", "application/json")]].concat(), body)
    }

    fn send(&self, wanted: &Wanted, headers: &[(&str, &str)], body: SendBody<'_>) -> Result<Response<Body>> {
        let mut request =
            ureq::http::Request::builder().method(wanted.method).uri(format!("{}{}", self.base, wanted.path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        if let Some((actor, origin)) = &self.actor {
            request = request.header("enjamb-actor", encoded(actor)).header("enjamb-origin", encoded(origin));
        }
        let request = request.body(body).map_err(|error| self.unanswered(error.to_string()))?;
        self.agent.run(request).map_err(|error| {
            let sent = wanted.method != "GET" && was_sent(&error);
            ClientError::Unanswered { at: self.name.clone(), detail: error.to_string(), sent }
        })
    }

    /// The answer, if it is what was asked for and not a problem.
    fn checked(&self, mut response: Response<Body>) -> Result<Response<Body>> {
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().unwrap_or_default();
        match serde_json::from_slice::<Value>(&body) {
            Ok(problem) if problem["code"].is_string() => Err(ClientError::Refused(problem)),
            _ => Err(self.unanswered(format!("it answers {status}, and not as an enjamb server does"))),
        }
    }

    fn document<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T> {
        let mut response = self.checked(response)?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unanswered(error.to_string()))?;
        serde_json::from_slice(&body).map_err(|error| self.unanswered(format!("its answer cannot be read: {error}")))
    }

    /// What it is called: an address, or a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn unanswered(&self, detail: impl Into<String>) -> ClientError {
        ClientError::Unanswered { at: self.name.clone(), detail: detail.into(), sent: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_directory() {
        let web = |url: &str| Some(Address::Web(url.into()));
        assert_eq!(Address::parse("http://127.0.0.1:4477/"), web("http://127.0.0.1:4477"));
        assert_eq!(Address::parse("https://ctx.acme.dev/v1"), web("https://ctx.acme.dev"));
        assert_eq!(Address::parse("unix:///run/x/sock"), Some(Address::Socket("/run/x/sock".into())));
        assert_eq!(Address::parse("/home/dana/store"), None);
    }
}
