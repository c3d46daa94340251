//! A session that its own runtime does not load: `check` has to say why by name, and what `repair` makes of it has to load,
//! unless nothing was ever said in it.

use serde_json::Value;

use crate::Problem;
use crate::cases::{Original, Outcome, go_on, import, resume, said_before};
use crate::client::Stage;
use crate::seen::seen;

/// The one shape that no repair mends.
const NOTHING_SAID: &str = "no-messages";

pub fn unloaded(stage: &Stage<'_>, original: &Original, why: &str) -> Result<Outcome, Problem> {
    stage.clear()?;
    let path = original.path.to_str().ok_or("a path that is no text")?;
    let checked = stage.enjamb_ending(&["check", "--file", path], &[0, 1])?;
    let codes = errors(&checked["problems"]);
    if codes.is_empty() {
        return Err(format!("the runtime does not load it ({why}), and check finds nothing wrong").into());
    }
    let why = format!("{why}; check says {}", codes.join(", "));
    let tip = import(stage, &original.path)?;
    let repaired = stage.enjamb_ending(&["repair", &tip], &[0, 1])?;
    if repaired["loads"] == false && errors(&repaired["left"]) == [NOTHING_SAID] {
        return Ok(Outcome::Hopeless(why));
    }
    let fork = repaired["fork"].as_str().ok_or_else(|| format!("{why}; nothing was repaired"))?;
    let (planted, _) = resume(stage, fork, original.client)?;
    match said_before(seen(original.client, &go_on(stage, original.client, &planted)?)) {
        said if said.is_empty() => Err(format!("{why}; repaired, it shows nothing").into()),
        _ => Ok(Outcome::Mended(why)),
    }
}

fn errors(problems: &Value) -> Vec<String> {
    let problems = problems.as_array().map(Vec::as_slice).unwrap_or_default();
    let errors = problems.iter().filter(|problem| problem["severity"] == "error");
    let mut codes: Vec<String> = errors.filter_map(|problem| problem["code"].as_str().map(str::to_owned)).collect();
    codes.sort();
    codes.dedup();
    codes
}
