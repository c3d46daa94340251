//! The command as people and programs meet it: every story runs the real binary on a store of its own.

mod artifacts;
mod care;
mod collection;
mod commits;
mod compaction;
mod contexts;
mod crash;
mod disk;
mod endpoint;
mod expect;
mod frames;
mod help;
mod hostile;
mod imports;
mod intake;
mod large;
mod listings;
mod output;
mod packs;
mod processes;
mod refusals;
mod runner;
mod secrets;
mod store;
mod threads;
mod trouble;
