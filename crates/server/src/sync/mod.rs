//! Bringing what one store has into another: both are asked by the table of operations, so either may be here or behind a
//! server.
//!
//! Nothing is remembered that the stores do not say themselves, but for one number that saves looking at old records. So what
//! was cut short is simply done again: whatever has arrived is known, and does not travel twice.

mod compare;
mod peer;
mod plan;
mod transfer;

pub use compare::{Comparison, Roots, compare, roots};
pub use peer::{Peer, Traffic};
pub use plan::{Plan, plan};
pub use transfer::{Transferred, transfer};
