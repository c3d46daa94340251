//! The Model Context Protocol: the operations that an agent has use for, as tools; contexts, threads, bundles and
//! artifacts as resources; and a few prompts. Tools are rows over the one table of operations, so they can do nothing
//! that a route cannot, and ask for the same scope.

mod handler;
mod prompts;
mod resources;
mod tools;

use std::os::fd::AsFd;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use enjamb_core::redact::mask;
use rmcp::ServiceExt;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value};
use tower_service::Service;

use crate::app::{App, Peer};
use crate::audit::Entry;
use crate::auth::{Caller, Via};
use crate::call::{Call, ReplyBody, Surroundings};
use crate::problem::{Problem, Result};
use crate::route::Route;
use crate::server::ServeError;
use crate::space::Space;

use handler::Handler;
pub use tools::TOOLS;

/// Bytes of text that one answer holds. An agent pays for every one of them.
const TEXT_BYTES_MAX: usize = 8_000;

/// Somebody who uses tools, and on what.
#[derive(Clone)]
pub struct Guest {
    space: Arc<Space>,
    caller: Caller,
    /// The agent that started this program, if one did.
    agent: Option<Arc<Surroundings>>,
}

impl Guest {
    /// Does an operation, if this guest may. It blocks.
    fn perform(&self, route: &Route, params: Map<String, Value>) -> Result<Value> {
        let scope = route.scope.as_str();
        if !self.caller.may(route.scope) {
            return Err(
                Problem::new(403, "missing-scope", format!("this token has no scope {scope}")).with("scope", scope)
            );
        }
        let mut call = Call::new(self.space.clone(), self.caller.clone(), params);
        call.agent = self.agent.clone();
        let done = route.run(&call);
        if route.writes() {
            self.space.hub.wake();
        }
        if self.caller.token_id().is_some() && (route.writes() || route.watched) {
            self.space
                .audit
                .note(self.entry(route, done.as_ref().map_or_else(|problem| problem.status, |reply| reply.status)));
        }
        read(done?.body)
    }

    fn entry(&self, route: &Route, status: u16) -> Entry {
        Entry {
            operation: route.operation.to_owned(),
            path: "/mcp".to_owned(),
            status,
            token_id: self.caller.token_id().map(str::to_owned),
            principal: self.caller.principal.clone(),
            claimed_actor: None,
            request_id: String::new(),
        }
    }
}

/// An answer as a value. Bytes are read as text, as far as a tool may tell it.
fn read(body: ReplyBody) -> Result<Value> {
    match body {
        ReplyBody::Json(json) => Ok(serde_json::from_str(&json).unwrap_or(Value::Null)),
        ReplyBody::Text { text, .. } => Ok(Value::String(text)),
        ReplyBody::Nothing | ReplyBody::Events(_) => Ok(Value::Null),
        ReplyBody::Bytes { source, .. } => {
            let mut bytes = Vec::new();
            let full = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
            let read = source(&mut |part| {
                bytes.extend_from_slice(part);
                if bytes.len() > READ_BYTES_MAX { Err(full()) } else { Ok(()) }
            });
            match read {
                Err(problem) if bytes.len() <= READ_BYTES_MAX => Err(problem),
                // An agent reads it as text, so it is shown as text is: without secrets.
                _ => Ok(Value::String(mask(&String::from_utf8_lossy(&bytes)).into_owned())),
            }
        }
    }
}

/// Bytes that are read of an answer, of which the wanted part is told.
const READ_BYTES_MAX: usize = 16 << 20;

/// A piece of a text, cut where characters end, and where the next one begins.
fn piece(text: &str, from: usize, bytes_max: usize) -> (&str, Option<usize>) {
    let at = |wanted: usize| {
        (wanted.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
    };
    let (from, to) = (at(from), at(from.saturating_add(bytes_max)));
    (&text[from..to], (to < text.len()).then_some(to))
}

type Http = StreamableHttpService<Handler, NeverSessionManager>;

/// The service behind `/mcp`. It keeps no sessions: each request says all that is needed.
pub fn http() -> Http {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The gate has looked at host and origin already, and knows which are ours.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(16 << 20);
    StreamableHttpService::new(|| Ok(Handler::new(None)), Arc::default(), config)
}

/// Answers one request to `/mcp`, for whoever may read or append.
pub async fn answer(app: Arc<App>, mut service: Http, mut request: Request) -> std::result::Result<Response, Problem> {
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Network);
    let caller = app.caller(request.headers(), peer);
    if caller.via == Via::Nobody {
        return Err(crate::app::unauthenticated());
    }
    if caller.token_id().is_some_and(|token| !app.limiter.admit(token)) {
        return Err(Problem::rate_limited("requests"));
    }
    let (spaces, namespace) = (app.clone(), caller.namespace.clone());
    let space = tokio::task::spawn_blocking(move || spaces.spaces.of(namespace.as_deref())).await;
    let space = space.map_err(|_| Problem::new(500, "internal", "the server made a mistake"))??;
    request.extensions_mut().insert(Guest { space, caller, agent: None });
    let Ok(response) = service.call(request).await;
    Ok(response.map(Body::new))
}

/// Serves a store over stdin and stdout, to the program that started us.
pub fn serve_stdio(space: Arc<Space>, by: Surroundings) -> std::result::Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Start)?;
    let guest = Guest { space, caller: Caller::owner(Via::Socket), agent: Some(Arc::new(by)) };
    runtime.block_on(async {
        let failed = |error: &dyn std::fmt::Display| ServeError::Start(std::io::Error::other(error.to_string()));
        // The descriptor itself: whoever prints for people holds the lock of the standard one.
        let stdout = std::io::stdout().as_fd().try_clone_to_owned().map_err(ServeError::Start)?;
        let stdout = tokio::fs::File::from_std(stdout.into());
        match Handler::new(Some(guest)).serve((tokio::io::stdin(), stdout)).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
            // A client that goes away before it has begun wants nothing.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    })?;
    runtime.shutdown_background();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_piece_by_piece() {
        let text = "aäbc";
        assert_eq!(piece(text, 0, 2), ("aä", Some(3)), "no character is cut");
        assert_eq!(piece(text, 3, 9), ("bc", None));
        assert_eq!(piece(text, 99, 9), ("", None));
    }
}
