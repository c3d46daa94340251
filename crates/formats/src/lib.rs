//! The formats in which agent runtimes and providers write conversations down.
//!
//! A delta is bytes in one of these formats. What can be done with it without understanding it (cutting it into items,
//! joining deltas byte for byte) depends on its framing alone; what needs understanding goes through one neutral
//! [`enjamb_core::conversation::Conversation`], so that every format translates to every other. Nothing here does I/O,
//! and the same bytes always give the same answer.

mod adapt;
mod anthropic;
mod bureau_agent;
mod cbor;
mod chat;
mod check;
mod checker;
mod claude_code;
mod codex;
mod derived;
mod encoder;
mod events;
pub mod fidelity;
mod format;
mod frames;
mod framing;
mod gemini;
mod generic;
mod inspection;
mod join;
mod json;
mod label;
pub mod narrative;
mod opencode;
mod outline;
mod position;
mod problem;
mod reader;
mod registry;
mod repair;
mod responses;
pub mod session;
mod tokens;
mod translate;
mod unrolled;
mod verbatim;
mod window;

pub use checker::{Checker, Examined, Reuse};
pub use encoder::{Before, Encoder};
pub use fidelity::{Encoded, Fate, FidelityLedger, Outcome, Tier};
pub use format::{Format, Reading};
pub use framing::{Content, DamageReport, Framing, Item, Items, Piece, Unframed, Weight};
pub use inspection::{Damage, Inspection, Look};
pub use join::{JoinError, Joiner, Sink, concat};
pub use label::Label;
pub use outline::Detail;
pub use position::{FormatError, Position};
pub use problem::{Code, Problem, Remedy, Severity};
pub use reader::ItemReader;
pub use registry::{all, by_id};
pub use repair::{Change, Repaired, repair};
pub use tokens::{TOKENIZER, TokenCounting, TokenMethod, Tokens};
pub use translate::{Survey, Surveyed, Translation};
pub use unrolled::UnrolledLine;
pub use window::Windows;
