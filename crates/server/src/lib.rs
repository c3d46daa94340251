//! enjamb for programs. What is here so far is what every surface shares: failures as problem documents.

pub mod wire;
