//! What every engine promises, and what the embedded one promises beyond that.

mod laws;
mod model;
mod store;
