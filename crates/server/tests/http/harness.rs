//! A server on a store that is thrown away, and a client small enough to send it anything.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use enjamb_server::{NewToken, Pace, Running, Scope, ServeOptions, Server, Tokens};
use enjamb_testkit::home::Home as Stores;
use serde_json::Value;

pub struct Home {
    pub stores: Stores,
    pub server: Running,
    pub options: ServeOptions,
    pub owner: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A request in the making.
pub struct Ask<'h> {
    home: &'h Home,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Home {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let stores = Stores::new();
        let dir = stores.store();
        let mut options = ServeOptions::local(&dir, 0);
        options.pace = Pace { heartbeat: Duration::from_millis(200), ..Pace::default() };
        change(&mut options);
        let server = Server::bind(options.clone()).expect("a free port").start();
        let owner = std::fs::read_to_string(dir.join("token")).expect("a token").trim().to_owned();
        Self { stores, server, options, owner }
    }

    /// Ends the server, and starts another one on the same store.
    pub fn restart(&mut self) {
        self.server.stop();
        self.server = Server::bind(self.options.clone()).expect("a free port").start();
    }

    /// A token with these scopes, for somebody, in a namespace if one is given.
    pub fn token(&self, scopes: &[Scope], principal: Option<&str>, namespace: Option<&str>) -> String {
        let new = NewToken {
            principal: principal.map(str::to_owned),
            scopes: scopes.to_vec(),
            namespace: namespace.map(str::to_owned),
            expires_ms: None,
        };
        Tokens::of(&self.stores.store()).create(new, 0).expect("a token").1.reveal().to_owned()
    }

    /// A request of the owner.
    pub fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        self.bare(method, path).token(&self.owner)
    }

    /// A request of nobody.
    pub fn bare(&self, method: &str, path: &str) -> Ask<'_> {
        let host = ("host".to_owned(), "localhost".to_owned());
        Ask { home: self, method: method.into(), path: path.into(), headers: vec![host], body: Vec::new() }
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.ask("GET", path).send().ok()
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: Value) -> Value {
        self.ask("POST", path).json(&body).send().ok()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.served.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }

    pub fn connect_unix(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.server.served.socket).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }

    /// Appends one frame, and returns its seq.
    #[track_caller]
    pub fn append(&self, stream: &str, frame: &str) -> u64 {
        let answer =
            self.ask("POST", &format!("/v1/streams/{stream}/frames")).raw("application/json", frame).send().ok();
        answer["frames"][0]["seq"].as_u64().expect("a seq")
    }
}

impl Ask<'_> {
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Without a header that was set.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    #[must_use]
    pub fn raw(self, kind: &str, body: impl AsRef<[u8]>) -> Self {
        let mut ask = self.header("content-type", kind);
        ask.body = body.as_ref().to_vec();
        ask
    }

    /// The request as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let has_length = self.headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding");
        if !self.body.is_empty() && !has_length {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("connection: close\r\n\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    #[track_caller]
    pub fn send(&self) -> Answer {
        exchange(self.home.connect(), &self.bytes())
    }

    #[track_caller]
    pub fn send_unix(&self) -> Answer {
        exchange(self.home.connect_unix(), &self.bytes())
    }
}

/// Sends bytes and reads until the other side closes.
#[track_caller]
pub fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Answer {
    // Who refuses a request may do so before it has come.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) if !bytes.is_empty() => break,
            Err(error) => panic!("no answer: {error}"),
        }
    }
    Answer::read(&bytes)
}

impl Answer {
    #[track_caller]
    pub fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.into()))
            .collect();
        let mut answer = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The document of an answer that went well.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self.value()
    }

    /// The status and code of a problem.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let value = self.value();
        assert_eq!(value["status"], self.status, "{value}");
        (self.status, value["code"].as_str().expect("a code").to_owned())
    }
}

/// The pieces of a chunked body, as far as they came.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&body[..end]), 16).unwrap_or(0);
        let from = end + 2;
        if size == 0 || body.len() < from + size {
            break;
        }
        whole.extend_from_slice(&body[from..from + size]);
        body = body.get(from + size + 2..).unwrap_or_default();
    }
    whole
}
