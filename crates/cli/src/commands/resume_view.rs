//! What a resumed context looks like: what travels, what changes, what stays, what was checked; then how to go on.

use std::path::Path;

use enjamb_formats::{Outcome, Severity};
use enjamb_service::Resumed;
use serde_json::{Value, json};

use super::Context;
use super::resume::is_installed;
use crate::failure::Result;
use crate::text::{count, plural};

pub fn show(context: &mut Context<'_>, resumed: &Resumed, here: &Path, exec: bool) -> Result<()> {
    if context.ui.is_json() {
        return Ok(context.ui.json("resume", document(resumed))?);
    }
    for line in report(resumed) {
        context.ui.line(line)?;
    }
    let wrote = if resumed.written { "wrote " } else { "would write " };
    context.ui.line(format!("\n{wrote} {}", resumed.path.display()))?;
    let program = &resumed.command[0];
    if !is_installed(program) {
        context.ui.note(&format!("{program} is not on the PATH; the session waits for it"));
    }
    if resumed.written && !exec {
        context.ui.line(format!("run    {}        (or add --exec)", shell_line(resumed, here)))?;
    }
    Ok(())
}

fn report(resumed: &Resumed) -> Vec<String> {
    let travels = &resumed.travels;
    let turns = plural(travels.turns, "turn");
    let mut lines = vec![
        format!("from   {}  {}  {turns}, {} tokens", short(resumed), resumed.format, count(travels.tokens)),
        format!("into   {}    tier {} of 4: {}", resumed.runtime.as_str(), resumed.tier as u8 + 1, resumed.tier),
        String::new(),
    ];
    lines.extend(row("travels", vec![travelling(resumed)]));
    lines.extend(row("changes", changes(resumed)));
    lines.extend(row("stays", stays(resumed)));
    lines.extend(row("checks", vec![checks(resumed)]));
    lines.extend(row("", problems(resumed)));
    lines
}

fn short(resumed: &Resumed) -> String {
    resumed.tip.to_string().chars().take(12).collect()
}

/// A name, and one line for each thing under it.
fn row(name: &str, values: Vec<String>) -> Vec<String> {
    let named = values.into_iter().enumerate();
    named.map(|(at, value)| format!("  {:<9}  {value}", if at == 0 { name } else { "" })).collect()
}

fn travelling(resumed: &Resumed) -> String {
    let travels = &resumed.travels;
    let mut said = vec![plural(travels.turns, "turn"), plural(travels.messages, "message")];
    if travels.answered > 0 {
        said.push(format!("{} with results", plural(travels.answered, "tool call")));
    }
    if travels.images > 0 {
        said.push(plural(travels.images, "image"));
    }
    said.join(" · ")
}

fn changes(resumed: &Resumed) -> Vec<String> {
    let rows = resumed.ledger.rows().filter(|(outcome, ..)| matches!(outcome, Outcome::Mapped | Outcome::Rendered));
    let mut changes: Vec<String> =
        rows.map(|(_, reason, blocks)| format!("{}: {reason}", plural(blocks, "block"))).collect();
    if resumed.interrupted > 0 {
        changes
            .push(format!("{} without a result: one is added that says so", plural(resumed.interrupted, "tool call")));
    }
    if let Some(was) = &resumed.moved_from {
        changes.push(format!("directory: {was} → {}", resumed.cwd.display()));
    }
    changes
}

fn stays(resumed: &Resumed) -> Vec<String> {
    let rows = resumed.ledger.rows().filter(|(outcome, ..)| *outcome == Outcome::Dropped);
    let mut stays: Vec<String> =
        rows.map(|(_, reason, blocks)| format!("{}: {reason}", plural(blocks, "block"))).collect();
    if resumed.left.commits > 0 {
        let (commits, tokens) = (plural(resumed.left.commits, "commit"), count(resumed.left.tokens));
        stays.push(format!("{commits}, {tokens} tokens: beyond the stop or the budget"));
    }
    stays
}

fn checks(resumed: &Resumed) -> String {
    let travels = &resumed.travels;
    let missing = travels.calls - travels.answered;
    let paired = match missing {
        0 => "every tool call has its result ✓".to_owned(),
        _ => format!("{} without a result ✗", plural(missing, "tool call")),
    };
    if resumed.written { format!("{paired}   read back, compared ✓") } else { paired }
}

fn problems(resumed: &Resumed) -> Vec<String> {
    const SHOWN_MAX: usize = 5;
    let errors: Vec<_> = resumed.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    let mut lines: Vec<String> =
        errors.iter().take(SHOWN_MAX).map(|problem| format!("{}: {}", problem.code, problem.sentence)).collect();
    if errors.len() > SHOWN_MAX {
        lines.push(format!("and {} more", errors.len() - SHOWN_MAX));
    }
    lines
}

/// The command as one types it, from where one is.
fn shell_line(resumed: &Resumed, here: &Path) -> String {
    let line = |words: &Vec<String>| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let command = resumed.before.iter().chain([&resumed.command]).map(line).collect::<Vec<_>>().join(" && ");
    match resumed.cwd == here {
        true => command,
        false => format!("cd {} && {command}", quoted(&resumed.cwd.to_string_lossy())),
    }
}

/// A word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn document(resumed: &Resumed) -> Value {
    let row = |(outcome, reason, blocks): (Outcome, &str, u64)| json!({"outcome": outcome.as_str(), "reason": reason, "blocks": blocks});
    let problem = |problem: &enjamb_formats::Problem| {
        let severity = problem.severity.as_str();
        json!({"code": problem.code.as_str(), "severity": severity, "sentence": problem.sentence})
    };
    let travels = &resumed.travels;
    json!({
        "from": {"commit": resumed.tip.to_string(), "format": resumed.format, "commits": travels.commits,
            "tokens": travels.tokens},
        "into": {"runtime": resumed.runtime.as_str(), "installed": is_installed(&resumed.command[0])},
        "tier": resumed.tier.as_str(),
        "travels": {"turns": travels.turns, "messages": travels.messages, "calls": travels.calls,
            "answered": travels.answered, "images": travels.images},
        "interrupted": resumed.interrupted, "left": {"commits": resumed.left.commits, "tokens": resumed.left.tokens},
        "ledger": resumed.ledger.rows().map(row).collect::<Vec<_>>(),
        "problems": resumed.problems.iter().map(problem).collect::<Vec<_>>(),
        "session": resumed.session, "path": resumed.path.to_string_lossy(), "bytes": resumed.bytes,
        "cwd": resumed.cwd.to_string_lossy(), "moved_from": resumed.moved_from, "before": resumed.before, "command": resumed.command,
        "written": resumed.written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("/home/dana/shop"), "/home/dana/shop");
        assert_eq!(quoted("/home/dana's $HOME"), r"'/home/dana'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
