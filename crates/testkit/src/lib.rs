//! What enjamb's tests share: laws that every ledger obeys, and a disk that fails on purpose.

pub mod faulty;
pub mod laws;
pub mod make;
pub mod questions;
