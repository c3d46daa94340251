//! What can be told of a delta at a look: counts, first words, times, models, and what was not understood.

use std::collections::BTreeMap;

use enjamb_core::Timestamp;

use crate::format::Reading;
use crate::framing::DamageReport;
use crate::tokens::{TokenCounting, Tokens};

/// How closely to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub counting: TokenCounting,
    pub damage: Damage,
}

/// What to do about places that hold no item, such as a line cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// Refuse the delta: its writer should know better.
    #[default]
    Refuse,
    /// Keep it and report the places: it was found so, in a file that a runtime left behind.
    Keep,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub messages: u64,
    /// Items of the delta, messages or not.
    pub records: u64,
    pub tokens: Tokens,
    /// What a person first asked, whole.
    pub first_prompt: Option<String>,
    pub time_span: Option<(Timestamp, Timestamp)>,
    /// In order of appearance.
    pub models: Vec<String>,
    /// Kinds of records and blocks that are kept but not understood, and how many of each.
    pub unknown: BTreeMap<String, u64>,
    pub damage: DamageReport,
}

impl Inspection {
    pub(crate) fn of(messages: u64, reading: Reading, counting: TokenCounting) -> Self {
        let Reading { conversation, unknown, records, damage, .. } = reading;
        Self {
            messages,
            records,
            tokens: Tokens::of(&conversation, counting),
            first_prompt: conversation.first_prompt(),
            time_span: conversation.time_span(),
            models: conversation.models(),
            unknown,
            damage,
        }
    }
}
