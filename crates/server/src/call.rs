//! One request on its way to an operation, and what the operation replies.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use enjamb_core::redact::mask;
use enjamb_core::{StreamId, Timestamp};
use enjamb_service::{Actor, Agent, ImportOptions, ServiceError, Store};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::auth::Caller;
use crate::metrics::Metrics;
use crate::problem::{Problem, Result};
use crate::runner::Runner;
use crate::space::Space;

/// What an operation is given. Operations block; the server runs them on threads of their own.
pub struct Call {
    pub space: Arc<Space>,
    pub caller: Caller,
    /// Parameters of the path, the query and a JSON body, in one object.
    pub params: Map<String, Value>,
    pub headers: CallHeaders,
    /// The agent that started this program, if one did.
    pub agent: Option<Arc<Surroundings>>,
    /// What the server has counted so far.
    pub metrics: Arc<Metrics>,
    /// The store as a request uses it that came with a key.
    keyed: Option<Store>,
    body: Mutex<Option<Sent>>,
}

/// The body of a request.
pub enum Sent {
    /// All of it is here.
    Whole(Bytes),
    /// It comes while it is read.
    Coming(Box<dyn Read + Send>),
}

impl Sent {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(bytes.into())
    }

    fn into_reader(self) -> Box<dyn Read + Send> {
        match self {
            Self::Whole(bytes) => Box::new(Cursor::new(bytes)),
            Self::Coming(reader) => reader,
        }
    }
}

/// Who an agent is that started this program, and how what it writes is taken in.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub agent: Agent,
    pub options: ImportOptions,
}

/// The headers that operations look at.
#[derive(Clone, Debug, Default)]
pub struct CallHeaders {
    pub idempotency_key: Option<String>,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub range: Option<String>,
    pub last_event_id: Option<String>,
    pub content_type: Option<String>,
    pub accept: Option<String>,
    /// Who says that it is asking, and through what.
    pub actor: Option<String>,
    pub origin: Option<String>,
}

impl Call {
    pub fn new(space: Arc<Space>, caller: Caller, params: Map<String, Value>) -> Self {
        let (headers, metrics) = (CallHeaders::default(), Arc::default());
        Self { space, caller, params, headers, agent: None, metrics, keyed: None, body: Mutex::new(None) }
    }

    #[must_use]
    pub fn with_body(self, body: Sent) -> Self {
        Self { body: Mutex::new(Some(body)), ..self }
    }

    /// The store, by which what the operation appends bears the key of its request.
    pub fn store(&self) -> &Store {
        self.keyed.as_ref().unwrap_or(&self.space.store)
    }

    #[must_use]
    pub fn keyed(self, store: Option<Store>) -> Self {
        Self { keyed: store, ..self }
    }

    /// With what things are run, where they are.
    pub fn runner(&self) -> Result<&Runner> {
        let none = || Problem::new(409, "runs-nothing", "this process serves the store, and runs nothing for it");
        self.space.runner.as_ref().ok_or_else(|| none().help("`enjamb serve` does"))
    }

    /// The body, once.
    pub fn take_body(&self) -> Box<dyn Read + Send> {
        self.take_sent().map_or_else(|| Box::new(io::empty()) as Box<dyn Read + Send>, Sent::into_reader)
    }

    /// The body, once, if it has at most so many bytes.
    pub fn take_whole(&self, bytes_max: u64) -> io::Result<Option<Bytes>> {
        let bytes = match self.take_sent() {
            None => Bytes::new(),
            Some(Sent::Whole(bytes)) => bytes,
            Some(Sent::Coming(reader)) => {
                let mut bytes = Vec::new();
                reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
                bytes.into()
            }
        };
        Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
    }

    /// Whether the body is here, and has at most so many bytes.
    pub fn is_small(&self, bytes_max: usize) -> bool {
        let body = self.body.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        matches!(&*body, Some(Sent::Whole(bytes)) if bytes.len() <= bytes_max)
    }

    fn take_sent(&self) -> Option<Sent> {
        self.body.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Who acts, as frames record it. A token that belongs to a principal speaks for nobody else.
    pub fn actor(&self) -> Actor {
        self.caller.actor(self.headers.actor.as_deref(), self.headers.origin.as_deref())
    }

    /// As [`Call::actor`], for routes on which the body names who acts.
    pub fn actor_or(&self, actor: Option<&str>, origin: Option<&str>) -> Actor {
        let or = |given: Option<&str>, header: &Option<String>| {
            given.filter(|text| !text.is_empty()).map(str::to_owned).or_else(|| header.clone())
        };
        let (actor, origin) = (or(actor, &self.headers.actor), or(origin, &self.headers.origin));
        self.caller.actor(actor.as_deref(), origin.as_deref())
    }

    /// A token that is bound to a principal commits for it and for those below it, and for nobody else.
    pub fn check_principal(&self, asked: &str) -> Result<()> {
        let Some(own) = &self.caller.principal else { return Ok(()) };
        if asked.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Ok(());
        }
        Err(Problem::new(403, "principal-not-allowed", format!("this token commits for {own} alone")))
    }

    pub fn thread(&self, text: &str) -> Result<StreamId> {
        Ok(self.store().resolve_thread(text)?)
    }
}

/// Writes bytes of an answer, as many at a time as it likes.
pub type Output<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Bytes of an answer that are made while they are sent.
pub type Source = Box<dyn FnOnce(&mut Output<'_>) -> Result<()> + Send>;

/// What an operation replies.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: ReplyBody,
}

pub enum ReplyBody {
    Nothing,
    /// A document, as it is written: frames in it keep every digit.
    Json(String),
    Text {
        kind: &'static str,
        text: String,
    },
    /// Bytes, and how many if that is known.
    Bytes {
        len: Option<u64>,
        source: Source,
    },
    Events(crate::sse::Follow),
}

impl Reply {
    /// An answer as a JSON document. It is there to be looked at, so secrets in it are replaced by their kind.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        let raw = Self::raw_json(status, value);
        match raw.body {
            ReplyBody::Json(json) => Self { body: ReplyBody::Json(mask(&json).into_owned()), ..raw },
            _ => raw,
        }
    }

    /// An answer as a JSON document that holds what is stored, byte for byte, because that was asked for.
    pub fn raw_json(status: u16, value: &impl Serialize) -> Self {
        let json = serde_json::to_string(value).expect("answers are made of texts, numbers and lists");
        Self { status, headers: Vec::new(), body: ReplyBody::Json(json) }
    }

    pub fn text(kind: &'static str, text: impl Into<String>) -> Self {
        Self { status: 200, headers: Vec::new(), body: ReplyBody::Text { kind, text: text.into() } }
    }

    pub fn nothing(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: ReplyBody::Nothing }
    }

    pub fn bytes(status: u16, len: Option<u64>, source: Source) -> Self {
        Self { status, headers: Vec::new(), body: ReplyBody::Bytes { len, source } }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// What never changes may be kept by whoever asked for it.
    #[must_use]
    pub fn immutable(self, etag: &str) -> Self {
        self.header("etag", format!("\"{etag}\"")).header("cache-control", "private, max-age=31536000, immutable")
    }
}

/// Reads a time that a request gives.
pub fn time(pointer: &str, text: &str) -> Result<Timestamp> {
    text.parse()
        .map_err(|error: enjamb_core::ParseTimestampError| Problem::schema(format!("/{pointer}"), error.to_string()))
}

/// A value of a request that is none of those there are.
pub fn invalid(what: &'static str, text: &str, expected: &'static str) -> Problem {
    ServiceError::Invalid { what, text: text.to_owned(), expected }.into()
}
