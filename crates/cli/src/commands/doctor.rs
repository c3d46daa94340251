//! `enjamb doctor`

use clap::Args;
use enjamb_service::Verdict;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb doctor\n\nExits with 1 when something needs attention.")]
pub struct Doctor {}

impl Doctor {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let checks = store.doctor()?;
        let healthy = checks.iter().all(|check| check.verdict == Verdict::Good);
        let exit = if healthy { Exit::Done } else { Exit::No };
        if context.ui.is_json() {
            let rows: Vec<_> = checks
                .iter()
                .map(|check| {
                    let verdict = check.verdict.as_str();
                    json!({"name": check.name, "verdict": verdict, "detail": check.detail, "help": check.help})
                })
                .collect();
            context.ui.json("doctor", json!({"healthy": healthy, "checks": rows}))?;
            return Ok(exit);
        }
        for check in &checks {
            let text = format!("{:16} {}", check.name, check.detail);
            match check.verdict {
                Verdict::Good => context.ui.good(&text)?,
                Verdict::Warning | Verdict::Bad => context.ui.bad(&text)?,
            }
            if let Some(help) = &check.help {
                context.ui.line(format!("  help: {help}"))?;
            }
        }
        Ok(exit)
    }
}
