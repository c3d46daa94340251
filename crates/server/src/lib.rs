//! enjamb for programs: HTTP, server-sent events, the Model Context Protocol, tokens. One table of operations (`ops`) is what the router, the
//! OpenAPI document and the tests of authorization are made from.

mod app;
mod audit;
mod auth;
mod body;
mod call;
mod client;
mod docs;
mod flight;
mod follower;
mod gate;
mod http;
mod hub;
mod impatient;
mod input;
mod keys;
mod limit;
mod listen;
mod mcp;
mod metrics;
mod openapi;
mod operations;
mod ops;
mod pages;
mod problem;
mod route;
mod server;
mod space;
mod sse;
pub mod sync;
pub mod view;
pub mod wire;

pub use app::Patience;
pub use auth::{KeySource, NewToken, OidcError, OidcOptions, Secret, TokenError, TokenView, Tokens};
pub use call::Surroundings;
pub use client::{Address, Client, ClientError, Download, Follow};
pub use follower::Pace;
pub use limit::Bounds;
pub use listen::{ListenError, TlsFiles, socket_of};
pub use mcp::TOOLS;
pub use openapi::text as openapi_text;
pub use operations::{Operations, Told};
pub use ops::routes;
pub use problem::Problem;
pub use route::{Gives, Method, Route, Scope, Takes};
pub use server::{Running, ServeError, ServeOptions, Served, Server, serve_mcp};
