//! What enjamb's tests share: laws that every ledger obeys, a disk that fails on purpose, a provider and a bucket that misbehave.

pub mod bucket;
pub mod database;
pub mod faulty;
pub mod gateway;
pub mod home;
pub mod laws;
pub mod make;
pub mod provider;
pub mod proxy;
pub mod questions;
