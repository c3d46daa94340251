//! The command as people and programs meet it: every story runs the real binary on a store of its own.

mod agents;
mod artifacts;
mod capture;
mod care;
mod check;
mod collection;
mod commits;
mod compaction;
mod config;
mod contexts;
mod crash;
mod database;
mod disk;
mod endpoint;
mod expect;
mod frames;
mod help;
mod hooks;
mod hostile;
mod imports;
mod intake;
mod killed;
mod large;
mod listings;
mod live;
mod objects;
mod output;
mod packs;
mod parity;
mod processes;
mod refusals;
mod remote;
mod resume;
mod runner;
mod runs;
mod secrets;
mod served_work;
mod serving;
mod store;
mod sync;
mod tasks;
mod threads;
mod trouble;
mod turns;
mod workspace;

#[test]
fn what_is_left_out_on_postgres_is_there() {
    enjamb_testkit::home::check_left_out("enjamb-cli");
}
