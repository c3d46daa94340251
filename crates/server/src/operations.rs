//! The operations of a store, wherever it is: in this process, or behind a server. Both are asked by name with the same
//! parameters, and both go by the one table, so they answer alike and a caller needs to know nothing of the difference.

use std::io::{self, Read};
use std::sync::Arc;

use enjamb_service::{Actor, Store};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::auth::{Caller, Via};
use crate::call::{Call, CallHeaders, Reply, ReplyBody, Sent};
use crate::client::{Client, ClientError};
use crate::ops;
use crate::runner::Runner;
use crate::space::Space;

type Result<T> = std::result::Result<T, ClientError>;

/// A store to do things with.
pub enum Operations {
    Here(Here),
    There(Box<Client>),
}

/// A store in this process.
pub struct Here {
    space: Arc<Space>,
    by: Actor,
}

/// What is told of bytes, besides the bytes.
#[derive(Clone, Debug, Default)]
pub struct Told(Vec<(String, String)>);

impl Told {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A number that is told, or zero.
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

impl Operations {
    pub fn here(store: Store, by: Actor) -> Self {
        Self::Here(Here { space: Space::new(Arc::new(store)), by })
    }

    /// As [`Operations::here`], with what it needs to run things.
    pub fn running(store: Store, by: Actor, runner: Runner) -> Self {
        Self::Here(Here { space: Space::running(Arc::new(store), Some(runner)), by })
    }

    pub fn there(client: Client) -> Self {
        Self::There(Box::new(client))
    }

    /// Does an operation whose answer is a document. Parameters that are null are those that were not given.
    pub fn call<T: DeserializeOwned>(&self, operation: &str, params: Value) -> Result<T> {
        self.call_with(operation, params, &[])
    }

    /// As [`Operations::call`], with headers such as `if-match`.
    pub fn call_with<T: DeserializeOwned>(
        &self,
        operation: &str,
        params: Value,
        headers: &[(&str, &str)],
    ) -> Result<T> {
        match self {
            Self::Here(here) => document(here.perform(operation, params, headers, Vec::new())?),
            Self::There(client) => client.call_with(operation, params, headers),
        }
    }

    /// Does an operation that takes bytes.
    pub fn upload<T: DeserializeOwned>(&self, operation: &str, params: Value, kind: &str, body: Vec<u8>) -> Result<T> {
        let headers = [("content-type", kind)];
        match self {
            Self::Here(here) => document(here.perform(operation, params, &headers, body)?),
            Self::There(client) => client.upload(operation, params, &headers, &mut body.as_slice()),
        }
    }

    /// As [`Operations::upload`], for bytes of any number.
    pub fn upload_from<T: DeserializeOwned>(
        &self,
        operation: &str,
        params: Value,
        mut source: impl Read + Send + 'static,
    ) -> Result<T> {
        let headers = [("content-type", "application/octet-stream")];
        match self {
            Self::Here(here) => {
                document(here.perform_with(operation, params, &headers, Sent::Coming(Box::new(source)))?)
            }
            Self::There(client) => client.upload(operation, params, &headers, &mut source),
        }
    }

    /// What the store is called in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Here(here) => here.space.store.dir().display().to_string(),
            Self::There(client) => client.name().to_owned(),
        }
    }

    /// Does an operation that gives bytes, and passes them on as they come.
    pub fn download(
        &self,
        operation: &str,
        params: Value,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Told> {
        match self {
            Self::Here(here) => here.download(operation, params, out),
            Self::There(client) => {
                let mut download = client.download(operation, params, &[])?;
                copy(&mut download.reader(), out).map_err(|error| client.unanswered(error.to_string()))?;
                let told = download.headers.iter();
                let text = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
                    (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned())
                };
                Ok(Told(told.map(text).collect()))
            }
        }
    }

    /// As [`Operations::download`], for what is small.
    pub fn bytes(&self, operation: &str, params: Value) -> Result<(Vec<u8>, Told)> {
        let mut bytes = Vec::new();
        let told = self.download(operation, params, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok((bytes, told))
    }
}

fn copy(source: &mut dyn Read, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(()),
            read => out(&buffer[..read])?,
        }
    }
}

impl Here {
    fn perform(&self, operation: &str, params: Value, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Reply> {
        self.perform_with(operation, params, headers, Sent::whole(body))
    }

    fn perform_with(&self, operation: &str, params: Value, headers: &[(&str, &str)], body: Sent) -> Result<Reply> {
        let wrong = |detail: String| ClientError::Unanswered { at: "this program".into(), detail, sent: false };
        let route = ops::find(operation).ok_or_else(|| wrong(format!("there is no operation {operation:?}")))?;
        let Value::Object(mut params) = params else { return Err(wrong("parameters are an object".into())) };
        params.retain(|_, value| !value.is_null());
        let call = self.made(params, headers).with_body(body);
        route.run(&call).map_err(|problem| ClientError::Refused(problem.document(None)))
    }

    fn made(&self, params: Map<String, Value>, headers: &[(&str, &str)]) -> Call {
        let given = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let mut call = Call::new(self.space.clone(), Caller::owner(Via::Socket), params);
        call.headers = CallHeaders {
            idempotency_key: given("idempotency-key"),
            if_match: given("if-match"),
            if_none_match: given("if-none-match"),
            content_type: given("content-type"),
            actor: Some(self.by.actor_id.clone()),
            origin: Some(self.by.origin.clone()),
            ..CallHeaders::default()
        };
        call
    }

    fn download(&self, operation: &str, params: Value, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<Told> {
        let reply = self.perform(operation, params, &[], Vec::new())?;
        let mut told: Vec<_> = reply.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let ReplyBody::Bytes { len, source } = reply.body {
            told.extend(len.map(|len| ("content-length".to_owned(), len.to_string())));
            source(out).map_err(|problem| ClientError::Refused(problem.document(None)))?;
        }
        Ok(Told(told))
    }
}

fn document<T: DeserializeOwned>(reply: Reply) -> Result<T> {
    let unread = |detail: String| ClientError::Unanswered { at: "this program".into(), detail, sent: false };
    match reply.body {
        ReplyBody::Json(json) => serde_json::from_str(&json).map_err(|error| unread(error.to_string())),
        _ => Err(unread("the answer is no document".into())),
    }
}
