//! What enjamb's tests share: laws that every ledger obeys, a disk that fails on purpose, and a provider that misbehaves.

pub mod database;
pub mod faulty;
pub mod laws;
pub mod make;
pub mod provider;
pub mod proxy;
pub mod questions;
