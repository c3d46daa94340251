//! Which commits are listed: the flags of `enjamb log` and `enjamb tips`.

use clap::Args;
use enjamb_core::Timestamp;
use enjamb_service::{Filter, parse_ttl};

use super::status::now_ms;
use crate::failure::{Failure, Result};

#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub struct Filters {
    /// Only commits of this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only of this kind of agent
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only for this ticket, or linked to it
    #[arg(long, value_name = "ID")]
    ticket: Option<String>,
    /// Only of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Only in this format
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Only made at or after this time (RFC 3339), or so long ago (90s, 15m, 12h, 30d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only made at or before this time, or so long ago
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Filters {
    pub fn read(self) -> Result<Filter> {
        Ok(Filter {
            principal: self.principal,
            template: self.template,
            session: self.session,
            ticket: self.ticket,
            has_ticket: false,
            thread: self.thread,
            format: self.format,
            since: self.since.as_deref().map(instant).transpose()?,
            until: self.until.as_deref().map(instant).transpose()?,
            no_summary: false,
            tips: false,
        })
    }
}

/// An instant as it is written, or so long before now.
fn instant(text: &str) -> Result<Timestamp> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = parse_ttl(text).map_err(|_| {
        Failure::usage(format!("{text:?} is not a time: expected RFC 3339, such as 2026-11-15T09:12:00Z, or 12h, 30d"))
    })?;
    let ms = now_ms().saturating_sub(ago);
    Ok(Timestamp::from_millis(ms.min(i64::MAX as u64) as i64))
}
