//! What every engine promises, and what the embedded one promises beyond that.

mod cuts;
mod entries;
mod faults;
mod flips;
mod handles;
mod jobs;
mod lab;
mod laws;
mod model;
mod nodes;
mod objects;
mod power;
mod repacked;
mod sealed;
mod store;
