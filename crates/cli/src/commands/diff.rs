//! `enjamb diff`

use clap::Args;
use enjamb_server::view::{Diff as Difference, DiffSide};
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::count;
use crate::ui::Table;

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb diff reviewer-a reviewer-b")]
pub struct Diff {
    a: String,
    b: String,
    /// Exit with 1 when they differ
    #[arg(long)]
    exit_code: bool,
}

impl Diff {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let asked = json!({"context": self.a, "other": self.b});
        let difference: Difference = context.operations()?.call("diff", asked)?;
        let (a, b) = (&difference.a, &difference.b);
        let exit = if self.exit_code && a.commits + b.commits > 0 { Exit::No } else { Exit::Done };
        if context.ui.is_json() {
            context.ui.json("diff", as_json(&difference))?;
            return Ok(exit);
        }
        context.ui.line(format!("shared  {}", difference.shared.as_deref().unwrap_or("nothing")))?;
        let mut table = Table::new(&["", "a", "b"]);
        let numbers =
            [("commits", a.commits, b.commits), ("messages", a.messages, b.messages), ("tokens", a.tokens, b.tokens)];
        for (name, left, right) in numbers {
            table.row([name.into(), format!("+{}", count(left)).into(), format!("+{}", count(right)).into()]);
        }
        for (name, left, right) in
            [("tools", &a.tools, &b.tools), ("read", &a.read, &b.read), ("wrote", &a.wrote, &b.wrote)]
        {
            table.row([name.into(), listed(left).into(), listed(right).into()]);
        }
        table.row(["ends".into(), ends(a).into(), ends(b).into()]);
        context.ui.table(&table)?;
        Ok(exit)
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "-".into() } else { names.join(" ") }
}

fn ends(side: &DiffSide) -> String {
    let text = side.ends.as_deref().unwrap_or("-");
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}
