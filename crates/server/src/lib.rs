//! enjamb for programs: HTTP, server-sent events, tokens. One table of operations (`ops`) is what the router, the
//! OpenAPI document and the tests of authorization are made from.

mod app;
mod audit;
mod auth;
mod body;
mod call;
mod docs;
mod flight;
mod gate;
mod http;
mod hub;
mod impatient;
mod input;
mod limit;
mod listen;
mod metrics;
mod openapi;
mod ops;
mod problem;
mod route;
mod server;
mod space;
mod sse;
pub mod view;
pub mod wire;

pub use app::Patience;
pub use auth::{NewToken, Secret, TokenError, TokenView, Tokens};
pub use limit::Bounds;
pub use listen::{ListenError, TlsFiles, socket_of};
pub use openapi::text as openapi_text;
pub use ops::routes;
pub use problem::Problem;
pub use route::{Gives, Method, Route, Scope, Takes};
pub use server::{Running, ServeError, ServeOptions, Served, Server};
pub use sse::Pace;
