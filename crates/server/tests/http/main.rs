//! The server as programs meet it: every test runs one on a free port, on a store of its own.

mod access;
mod artifacts;
mod conformance;
mod contexts;
mod events;
mod frames;
mod harness;
mod keys;
mod matrix;
mod mcp;
mod operations;
mod refusals;
mod rows;
mod seed;
mod sync;
mod team;

#[test]
fn what_is_left_out_on_postgres_is_there() {
    enjamb_testkit::home::check_left_out("enjamb-server");
}
