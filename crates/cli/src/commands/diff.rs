//! `enjamb diff`

use clap::Args;
use enjamb_service::Side;
use serde_json::{Value, json};

use super::Context;
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
        let store = context.open()?;
        let difference = store.diff(&store.revision(&self.a)?, &store.revision(&self.b)?)?;
        let [a, b] = &difference.sides;
        let shared = difference.shared.map(|id| id.to_string());
        let exit = if self.exit_code && a.commits + b.commits > 0 { Exit::No } else { Exit::Done };
        if context.ui.is_json() {
            context.ui.json("diff", json!({"shared": shared, "a": side_json(a), "b": side_json(b)}))?;
            return Ok(exit);
        }
        context.ui.line(format!("shared  {}", shared.unwrap_or_else(|| "nothing".into())))?;
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

fn ends(side: &Side) -> String {
    let text = side.ends.as_deref().unwrap_or("-");
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}

fn side_json(side: &Side) -> Value {
    json!({
        "commits": side.commits, "messages": side.messages, "tokens": side.tokens, "tools": side.tools,
        "read": side.read, "wrote": side.wrote, "ends": side.ends,
    })
}
