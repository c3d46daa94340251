//! `enjamb doctor`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb doctor\n\nExits with 1 when something needs attention.")]
pub struct Doctor {}

impl Doctor {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let report: view::DoctorReport = context.operations()?.call("doctor", json!({}))?;
        let exit = if report.healthy { Exit::Done } else { Exit::No };
        if context.ui.is_json() {
            context.ui.json("doctor", as_json(&report))?;
            return Ok(exit);
        }
        for check in &report.checks {
            let text = format!("{:16} {}", check.name, check.detail);
            match check.verdict.as_str() {
                "good" => context.ui.good(&text)?,
                _ => context.ui.bad(&text)?,
            }
            if let Some(help) = &check.help {
                context.ui.line(format!("  help: {help}"))?;
            }
        }
        Ok(exit)
    }
}
