//! What every request shares, and who is let in.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tokio::sync::{Semaphore, watch};

use crate::auth::{Caller, Oidc, Secret, Tokens, Via};
use crate::follower::Pace;
use crate::gate::Gate;
use crate::keys::Keys;
use crate::limit::{Bounds, Limiter};
use crate::metrics::Metrics;
use crate::otel::Exporter;
use crate::problem::{Problem, Result};
use crate::right_of_way::RightOfWay;
use crate::route::Route;
use crate::space::Spaces;

/// Operations that run at once. Those that append wait for the disk together, so there may be many more than cores.
const RUNNING_MAX: usize = 192;

/// Bounds of requests.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A body that is read whole has to have come by then.
    pub body: Duration,
    /// A body of any length has to go on within.
    pub idle: Duration,
    /// How long an operation waits until it may run.
    pub queue: Duration,
    /// Bytes of a body that is read whole.
    pub body_bytes_max: usize,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { body: seconds(30), idle: seconds(30), queue: seconds(30), body_bytes_max: 16 << 20 }
    }
}

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// By the unix socket, and as the owner of the store.
    Owner,
    Network,
}

/// The server as operations see it.
pub struct App {
    pub spaces: Spaces,
    pub tokens: Tokens,
    /// Of the owner's token.
    pub owner: String,
    pub oidc: Option<Arc<Oidc>>,
    pub gate: Gate,
    pub limiter: Limiter,
    pub keys: Keys,
    pub metrics: Arc<Metrics>,
    /// Where spans of requests are sent, if anywhere.
    pub spans: Option<Exporter>,
    pub patience: Patience,
    pub pace: Pace,
    pub running: Arc<Semaphore>,
    /// Of appends, before followers.
    pub right_of_way: Arc<RightOfWay>,
    pub ending: watch::Receiver<bool>,
}

impl App {
    pub fn new(spaces: Spaces, tokens: Tokens, owner: &Secret, gate: Gate, ending: watch::Receiver<bool>) -> Self {
        Self {
            spaces,
            tokens,
            owner: owner.digest(),
            oidc: None,
            gate,
            limiter: Limiter::new(Bounds::default()),
            keys: Keys::default(),
            metrics: Arc::default(),
            spans: None,
            patience: Patience::default(),
            pace: Pace::default(),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            right_of_way: Arc::default(),
            ending,
        }
    }

    /// Who sends a request. A token that is no good is the same as none, whatever is wrong with it.
    pub async fn caller(&self, headers: &HeaderMap, peer: Peer) -> Caller {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = match (given.next(), given.next()) {
            (None, _) if peer == Peer::Owner => return Caller::owner(Via::Socket),
            (Some(header), None) => header.to_str().ok().and_then(bearer),
            _ => None,
        };
        match (token, &self.oidc) {
            (Some(token), Some(oidc)) if Oidc::looks_like_one(token) => {
                let (oidc, token) = (oidc.clone(), token.to_owned());
                // It may have to ask the provider for a new key.
                let found = tokio::task::spawn_blocking(move || oidc.caller(&token)).await;
                found.ok().flatten().unwrap_or_else(Caller::nobody)
            }
            (Some(token), _) => Secret::parse(token).map_or_else(Caller::nobody, |secret| self.holder(&secret)),
            (None, _) => Caller::nobody(),
        }
    }

    /// Whether somebody who was let in may still be here, for answers that go on for long.
    pub fn is_live(&self, via: &Via) -> bool {
        match via {
            Via::Socket | Via::Owner | Via::Nobody => true,
            Via::Token(id) => self.tokens.is_live(id, now_ms()),
            Via::Issued { expires_ms, .. } => *expires_ms > now_ms(),
        }
    }

    fn holder(&self, secret: &Secret) -> Caller {
        if secret.is(&self.owner) {
            return Caller::owner(Via::Owner);
        }
        match self.tokens.caller(secret, now_ms()) {
            Ok(found) => found.unwrap_or_else(Caller::nobody),
            Err(error) => {
                tracing::error!(%error, "cannot read the tokens");
                Caller::nobody()
            }
        }
    }

    /// Whether somebody may do what they ask for, now.
    pub fn admit(&self, caller: &Caller, route: &Route) -> Result<()> {
        if caller.may(route.scope) {
            return match caller.token_id() {
                Some(token) if !self.limiter.admit(token) => Err(Problem::rate_limited("requests")),
                _ => Ok(()),
            };
        }
        if caller.via == Via::Nobody {
            return Err(unauthenticated());
        }
        let scope = route.scope.as_str();
        Err(Problem::new(403, "missing-scope", format!("this token has no scope {scope}")).with("scope", scope))
    }
}

/// The token in a header, if there is one.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

pub fn unauthenticated() -> Problem {
    Problem::new(401, "unauthenticated", "a valid token is needed")
        .header("www-authenticate", "Bearer")
        .help("send Authorization: Bearer …; the owner's token is in the store's directory")
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
