//! The real runtimes, started by `enjamb run`: what they do is a chain, and two go on from one context.

use serde_json::Value;

use crate::Problem;
use crate::cases::Outcome;
use crate::client::{Client, Stage, Turn};
use crate::endpoint::Reply;
use crate::seen::{Seen, seen};

const ASKED: &str = "why does checkout hang? (b7)";

pub fn run(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    let turn = |prompt, answer: &str| Turn { client, resume: None, prompt, replies: vec![Reply::Text(answer.into())] };
    let (_, first) = stage.run(None, &turn(ASKED, "The retries are not capped."))?;
    let understood = tip(&first)?;
    let mut tips = Vec::new();
    for (prompt, answer) in [("cap them at three", "Capped at three."), ("leave them", "Left as they are.")] {
        let (sent, document) = stage.run(Some(&understood), &turn(prompt, answer))?;
        let shown = seen(client, &sent);
        let said = |text: &str| {
            shown.iter().any(|seen| matches!(seen, Seen::User(found) | Seen::Assistant(found) if found.contains(text)))
        };
        if !said(ASKED) || !said("The retries are not capped.") || said("Capped at three.") {
            return Err(format!("the model was shown {shown:?}").into());
        }
        tips.push(tip(&document)?);
    }
    for tip in &tips {
        let chain = stage.enjamb(&["log", tip])?;
        let ids = chain["contexts"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_str());
        if !ids.into_iter().any(|id| id == understood) {
            return Err(format!("{tip} does not follow from {understood}").into());
        }
    }
    if tips[0] == tips[1] {
        return Err("two runs are one branch".into());
    }
    Ok(Outcome::Holds)
}

fn tip(document: &Value) -> Result<String, Problem> {
    Ok(document["tip"].as_str().ok_or_else(|| format!("nothing was kept: {document}"))?.to_owned())
}
