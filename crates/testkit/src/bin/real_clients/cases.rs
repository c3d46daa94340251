//! What is proved: each case is on a stage of its own, and says what it found.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Problem;
use crate::client::{Client, PROVIDER, Silent, Stage, Turn};
use crate::endpoint::Reply;
use crate::seen::{Seen, missing, plain, seen};
use crate::written::Written;

/// What the runtimes are told to go on with.
const PROMPT: &str = "Go on from here, please (a3f1).";

/// How a case ended.
#[derive(Debug)]
pub enum Outcome {
    Holds,
    /// The runtime does not load the original, which `check` explains; repaired, it does.
    Mended(String),
    /// The runtime does not load the original, and there is nothing in it.
    Hopeless(String),
    /// It does not apply here, for this reason.
    Skipped(String),
}

/// A session of a runtime, as a file.
#[derive(Clone)]
pub struct Original {
    pub client: Client,
    pub path: PathBuf,
}

/// The request that the runtime sends when it resumes the original itself, and under which id.
pub struct Native {
    session: String,
    items: Vec<Value>,
}

/// Has the runtime resume the original itself. The error is what it says when it does not load it.
pub fn native(stage: &Stage<'_>, original: &Original) -> Result<Result<Native, String>, Problem> {
    stage.clear()?;
    let session = match original.client {
        Client::Claude => "5d1c90ab-7a41-4b1e-9f53-2d1f6a0c9e10".to_owned(),
        Client::Codex => match rollout_id(&original.path)? {
            Some(id) => id,
            None => return Ok(Err("no session_meta".into())),
        },
    };
    fs::copy(&original.path, stage.place(original.client, &session)?)?;
    match go_on(stage, original.client, &session) {
        Ok(items) if said_before(seen(original.client, &items)).is_empty() => Ok(Err("it shows nothing of it".into())),
        Ok(items) => Ok(Ok(Native { session, items })),
        Err(problem) => Ok(Err(problem.downcast::<Silent>()?.0)),
    }
}

fn rollout_id(path: &Path) -> Result<Option<String>, Problem> {
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    let metas = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut metas = metas.filter(|line| line["type"] == "session_meta");
    Ok(metas.next().and_then(|meta| meta["payload"]["id"].as_str().map(str::to_owned)))
}

pub fn go_on(stage: &Stage<'_>, client: Client, session: &str) -> Result<Vec<Value>, Problem> {
    stage.turn(&Turn { client, resume: Some(session), prompt: PROMPT, replies: Vec::new() })
}

/// Imports a file and returns its last commit.
pub fn import(stage: &Stage<'_>, path: &Path) -> Result<String, Problem> {
    let path = path.to_str().ok_or("a path that is no text")?;
    stage.enjamb(&["import", path])?;
    let exported = stage.enjamb(&["export", "--source", path])?;
    Ok(exported["tip"].as_str().ok_or("nothing was imported")?.to_owned())
}

pub fn resume(stage: &Stage<'_>, revision: &str, client: Client) -> Result<(String, PathBuf), Problem> {
    let work = stage.work();
    let cwd = work.to_str().ok_or("a path that is no text")?;
    let said = stage.enjamb(&["resume", revision, "--in", client.runtime(), "--cwd", cwd])?;
    let session = said["session"].as_str().ok_or("no session")?.to_owned();
    Ok((session, said["path"].as_str().ok_or("no path")?.into()))
}

/// Resuming in the same runtime sends what resuming the original does, block for block.
pub fn same(stage: &Stage<'_>, original: &Original, native: &Native) -> Result<Outcome, Problem> {
    stage.clear()?;
    let tip = import(stage, &original.path)?;
    let (planted, _) = resume(stage, &tip, original.client)?;
    let found = go_on(stage, original.client, &planted)?;
    let ids = [native.session.as_str(), planted.as_str()];
    equal(original.client, &plain(&native.items, &ids), &plain(&found, &ids))
}

fn equal(client: Client, expected: &[Value], found: &[Value]) -> Result<Outcome, Problem> {
    let (expected, found) = (history(client, expected), history(client, found));
    if expected == found {
        return Ok(Outcome::Holds);
    }
    let at = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let shown = |items: &[Value]| items.get(at).map_or_else(|| "nothing".into(), |item| brief(&item.to_string()));
    let (lengths, was, is) = ((expected.len(), found.len()), shown(&expected), shown(&found));
    Err(format!("item {at} of {} and {} differs: {was} and {is}", lengths.0, lengths.1).into())
}

/// What was said before the prompt. Codex tells the model of a directory that changed: the original's is not here.
fn history(client: Client, items: &[Value]) -> Vec<Value> {
    let is_told = |item: &&Value| {
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        !(client == Client::Codex && ["<environment_context>", "<permissions"].iter().any(|tag| text.starts_with(tag)))
    };
    items.iter().filter(is_told).cloned().collect()
}

fn brief(text: &str) -> String {
    let mut brief: String = text.chars().take(300).collect();
    if brief.len() < text.len() {
        brief.push('…');
    }
    brief
}

/// Resuming in the other runtime shows its model all that was said, called and answered, in order.
pub fn other(stage: &Stage<'_>, original: &Original, native: &Native) -> Result<Outcome, Problem> {
    stage.clear()?;
    let tip = import(stage, &original.path)?;
    let client = original.client.other();
    let (planted, _) = resume(stage, &tip, client)?;
    let found = go_on(stage, client, &planted)?;
    let written = Written::of(&original.path)?;
    let wanted = written.in_order(said_before(seen(original.client, &native.items)));
    contains(&wanted, &seen(client, &found), &written)
}

/// A copy of an original that the runtime would load here: Codex loads only what was had with the same provider.
pub fn prepared(stage: &Stage<'_>, original: &Original) -> Result<Original, Problem> {
    let path = stage.dir.join(original.path.file_name().ok_or("a file without a name")?);
    let bytes = fs::read(&original.path)?;
    match (original.client, String::from_utf8(bytes)) {
        (Client::Codex, Ok(text)) => fs::write(&path, text.lines().map(here).collect::<Vec<_>>().join("\n") + "\n")?,
        (_, Ok(text)) => fs::write(&path, text)?,
        (_, Err(error)) => fs::write(&path, error.as_bytes())?,
    }
    Ok(Original { client: original.client, path })
}

fn here(line: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(line).ok().filter(|line: &Value| line["type"] == "session_meta");
    let provider = parsed.as_ref().and_then(|line| line["payload"]["model_provider"].as_str());
    match provider {
        Some(provider) => {
            let had = format!("\"model_provider\":\"{provider}\"");
            line.replacen(&had, &format!("\"model_provider\":\"{PROVIDER}\""), 1)
        }
        None => line.to_owned(),
    }
}

/// Without the prompt that we added.
pub fn said_before(mut seen: Vec<Seen>) -> Vec<Seen> {
    seen.retain(|seen| !matches!(seen, Seen::User(text) if text.contains(PROMPT)));
    seen
}

fn contains(wanted: &[Seen], found: &[Seen], written: &Written) -> Result<Outcome, Problem> {
    if wanted.is_empty() {
        return Err("the original shows nothing at all".into());
    }
    match missing(wanted, found, written) {
        None => Ok(Outcome::Holds),
        Some(seen) => {
            let at = wanted.iter().position(|wanted| std::ptr::eq(wanted, seen)).unwrap_or_default();
            Err(format!("{at} of {} is missing: {}", wanted.len(), brief(&format!("{seen:?}"))).into())
        }
    }
}

/// A session of three turns, of which the second calls a tool, made by the runtime itself. Returns its id and its file.
pub fn record(stage: &Stage<'_>, client: Client) -> Result<(String, PathBuf), Problem> {
    fs::write(stage.work().join("a.txt"), "the gateway bans after 5 attempts\n")?;
    let text = |text: &str| Reply::Text(text.into());
    let call = match client {
        Client::Claude => {
            let path = stage.work().join("a.txt");
            Reply::Call { tool: "Read".into(), input: json!({"file_path": path.to_string_lossy()}) }
        }
        Client::Codex => Reply::Call { tool: "exec_command".into(), input: json!({"cmd": "cat a.txt"}) },
    };
    let turns = [
        ("why does checkout hang?", vec![text("The retries are not capped.")]),
        ("what does a.txt say?", vec![call, text("Five attempts are a ban.")]),
        ("cap them at three", vec![text("Capped, with some jitter.")]),
    ];
    let mut session: Option<(String, PathBuf)> = None;
    for (prompt, replies) in turns {
        let resume = session.as_ref().map(|(id, _)| id.as_str());
        stage.turn(&Turn { client, resume, prompt, replies })?;
        session = Some(only_session(stage, client)?);
    }
    session.ok_or_else(|| "no turn was taken".into())
}

/// The one session that the runtime keeps.
fn only_session(stage: &Stage<'_>, client: Client) -> Result<(String, PathBuf), Problem> {
    let dir = match client {
        Client::Claude => ".claude/projects",
        Client::Codex => ".codex/sessions",
    };
    let mut found = Vec::new();
    transcripts(&stage.home().join(dir), &mut found)?;
    let path = found.pop().filter(|_| found.is_empty()).ok_or("there is not one session")?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let from = stem.len().saturating_sub(36);
    Ok((stem[from..].to_owned(), path))
}

fn transcripts(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), Problem> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            transcripts(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}

/// A session that the runtime made itself, kept outside its home.
pub fn recorded(stage: &Stage<'_>, client: Client) -> Result<Original, Problem> {
    stage.clear()?;
    let (_, path) = record(stage, client)?;
    let kept = stage.dir.join(path.file_name().ok_or("a file without a name")?);
    fs::copy(path, &kept)?;
    Ok(Original { client, path: kept })
}

/// Going on from the middle shows what was said up to there, and nothing of what came after.
pub fn fork(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    let (session, path) = record(stage, client)?;
    let tip = import(stage, &path)?;
    let whole = said_before(seen(client, &go_on(stage, client, &session)?));
    let (planted, _) = resume(stage, &format!("{tip}~1"), client)?;
    let part = said_before(seen(client, &go_on(stage, client, &planted)?));
    let ends = matches!(part.last(), Some(Seen::Assistant(text)) if text == "Five attempts are a ban.");
    match whole.starts_with(&part) && part.len() < whole.len() && ends {
        true => Ok(Outcome::Holds),
        false => Err(format!("the fork shows {part:?}, and the whole {whole:?}").into()),
    }
}

/// A session that was deleted comes back under its own id, and loads as it did.
pub fn replant(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    if !stage.has_command("replant") {
        return Ok(Outcome::Skipped("enjamb has no replant yet".into()));
    }
    let (session, path) = record(stage, client)?;
    import(stage, &path)?;
    let before = fs::read(&path)?;
    let expected = go_on(stage, client, &session)?;
    stage.clear_clients()?;
    stage.enjamb(&["replant", &session])?;
    if fs::read(&path)? != before {
        return Err("what was put back is not what was there".into());
    }
    let found = go_on(stage, client, &session)?;
    equal(client, &plain(&expected, &[]), &plain(&found, &[]))
}

/// From one runtime to the other and back: the original records as they were, then what was new.
pub fn round_trip(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    let (session, path) = record(stage, client)?;
    let tip = import(stage, &path)?;
    let expected = said_before(seen(client, &go_on(stage, client, &session)?));
    let there = client.other();
    let (planted, away) = resume(stage, &tip, there)?;
    let replies = vec![Reply::Text("Said on the other side.".into())];
    stage.turn(&Turn { client: there, resume: Some(&planted), prompt: "and what do you say?", replies })?;
    let tip = import(stage, &away)?;
    let original = fs::read_to_string(&path)?;
    let (back, home) = resume(stage, &tip, client)?;
    let written = fs::read_to_string(home)?.replace(&back, &session);
    let before = common_lines(&original, &written);
    let found = seen(client, &go_on(stage, client, &back)?);
    let mut wanted = expected;
    wanted.push(Seen::User("and what do you say?".into()));
    wanted.push(Seen::Assistant("Said on the other side.".into()));
    // What we asked the original above is its last turn, and was not imported.
    let lines = original.lines().count().min(before.1);
    if before.0 < lines {
        return Err(format!("{} of {lines} records came back as they were", before.0).into());
    }
    contains(&wanted, &found, &Written::of(&path)?)
}

/// How many lines two files begin with alike, and how many the original had when it was imported.
fn common_lines(original: &str, written: &str) -> (usize, usize) {
    let alike = original.lines().zip(written.lines()).take_while(|(a, b)| a == b).count();
    let imported = original.lines().take_while(|line| !line.contains(PROMPT)).count();
    (alike, imported.saturating_sub(3))
}

/// A session from which the result of a call is gone: what was repaired loads, and shows all the rest.
pub fn repair(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    if !stage.has_command("repair") {
        return Ok(Outcome::Skipped("enjamb has no repair yet".into()));
    }
    let (_, path) = record(stage, client)?;
    let whole = fs::read_to_string(&path)?;
    let is_result = |line: &&str| line.contains("\"tool_result\"") || line.contains("\"function_call_output\"");
    let (gone, left): (Vec<&str>, Vec<&str>) = whole.lines().partition(is_result);
    if gone.is_empty() {
        return Err("there is no result to take away".into());
    }
    let broken = stage.dir.join(path.file_name().ok_or("a file without a name")?);
    fs::write(&broken, left.join("\n") + "\n")?;
    let tip = import(stage, &broken)?;
    let fork = stage.enjamb(&["repair", &tip])?["fork"].as_str().ok_or("nothing was repaired")?.to_owned();
    let (planted, _) = resume(stage, &fork, client)?;
    let found = seen(client, &go_on(stage, client, &planted)?);
    fs::remove_file(broken)?;
    let texts = ["why does checkout hang?", "what does a.txt say?", "cap them at three"];
    let mut wanted: Vec<Seen> = texts.iter().map(|text| Seen::User((*text).into())).collect();
    wanted.insert(1, Seen::Assistant("The retries are not capped.".into()));
    wanted.insert(3, Seen::Assistant("Five attempts are a ban.".into()));
    wanted.push(Seen::Assistant("Capped, with some jitter.".into()));
    let has_result = |seen: &Seen| matches!(seen, Seen::Call { result: Some(_), .. });
    match found.iter().any(has_result) {
        true => contains(&wanted, &found, &Written::of(&path)?),
        false => Err("the call has no result".into()),
    }
}

/// Hooks that `capture on` put in place tell of the work of a real runtime: the chain is there.
pub fn capture(stage: &Stage<'_>, client: Client) -> Result<Outcome, Problem> {
    stage.clear()?;
    if !stage.has_command("capture") {
        return Ok(Outcome::Skipped("enjamb has no capture yet".into()));
    }
    if client == Client::Codex {
        return Ok(Outcome::Skipped("Codex asks a person to trust hooks first".into()));
    }
    fs::create_dir_all(stage.home().join(".claude"))?;
    stage.enjamb(&["init"])?;
    stage.enjamb(&["capture", "on", client.runtime(), "--yes"])?;
    let (session, _) = record(stage, client)?;
    let exported = stage.enjamb(&["export", &session])?;
    match exported["commits"].as_u64() {
        // What the runtime notes when it ends may come as a commit of its own.
        Some(commits) if commits >= 3 => Ok(Outcome::Holds),
        found => Err(format!("three turns are {found:?} commits").into()),
    }
}
