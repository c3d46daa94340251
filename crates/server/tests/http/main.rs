//! The server as programs meet it: every test runs one on a free port, on a store of its own.

mod access;
mod artifacts;
mod conformance;
mod contexts;
mod events;
mod frames;
mod harness;
mod matrix;
mod mcp;
mod operations;
mod refusals;
mod rows;
mod seed;
mod sync;
mod team;
