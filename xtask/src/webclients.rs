//! `cargo xtask webclients` and `cargo xtask schemathesis`: programs that others wrote, against a server of ours. curl and
//! a browser follow a stream, a Python client made from the OpenAPI document does the first four calls that anybody does,
//! and Schemathesis sends whatever the document allows, and what it does not.

mod browser;
mod serving;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::serving::Serving;
use crate::Problem;
use crate::command::{self, cargo, workspace_root};
use crate::needs::{self, Absence, Need, Source};

const FOUR_CALLS: &str = include_str!("webclients/four_calls.py");
const PACKAGES: &[&str] = &["schemathesis", "openapi-python-client"];

fn debian(name: &'static str, binary: &'static str, packages: &'static [&'static str]) -> Need {
    Need { name, source: Source::Debian { binary, packages }, absence: Absence::Stops }
}

/// Everything, or the cases that are named: curl, browser, python.
pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    let place = prepared(&[debian("curl", "curl", &["curl"]), debian("Chromium", "chromium", &["chromium"])])?;
    let wanted = |case: &str| arguments.is_empty() || arguments.iter().any(|word| word == case);
    if wanted("curl") {
        follow_with_curl(&Serving::start(&place.join("store"))?)?;
    }
    if wanted("browser") {
        browser::follow(&Serving::start(&place.join("store"))?, &place)?;
    }
    if wanted("python") {
        four_calls(&Serving::start(&place.join("store"))?, &place)?;
    }
    Ok(())
}

/// Arguments go on to Schemathesis, such as `--max-examples 200` or `--include-operation-id post`.
pub(crate) fn schemathesis(arguments: &[String]) -> Result<(), Problem> {
    let place = prepared(&[])?;
    let serving = Serving::start(&place.join("store"))?;
    let ids = serving.fill()?;
    // Commands are printed, and the token is not to be.
    let settings = place.join("schemathesis.toml");
    let mut text = format!("headers = {{ Authorization = \"Bearer {}\" }}\n\n[parameters]\n", serving.token);
    // What is there has to be asked for by name, or nothing would be found.
    ids.iter().for_each(|(name, id)| text.push_str(&format!("\"path.{name}\" = \"{id}\"\n")));
    fs::write(&settings, text).map_err(|cause| format!("{}: {cause}", settings.display()))?;
    let mut test = Command::new(place.join("venv/bin/schemathesis"));
    test.arg("--config-file").arg(&settings).arg("run").arg(workspace_root().join("crates/server/openapi.json"));
    test.args(["--url", &serving.url]);
    // Followers go on for ever; they have tests of their own.
    test.args(["--exclude-path-regex", "/events$", "--generation-database", "none", "--seed", "7"]);
    test.args(["--checks", CHECKS, "--no-color", "--workers", "2"]);
    if !arguments.iter().any(|word| word == "--max-examples") {
        test.args(["--max-examples", "30"]);
    }
    command::run(test.args(arguments).current_dir(&place))
}

/// What every answer has to be: no failure of ours, and as the document says.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
    response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth";

/// A directory with our program built and theirs installed, where nobody else's are touched.
fn prepared(more: &[Need]) -> Result<PathBuf, Problem> {
    needs::meet(&[debian("Python", "python3", &["python3", "python3-venv"])])?;
    needs::meet(more)?;
    let place = workspace_root().join("target/webclients");
    fs::create_dir_all(&place).map_err(|cause| format!("{}: {cause}", place.display()))?;
    let pip = place.join("venv/bin/pip");
    if !place.join("venv/bin/schemathesis").exists() || !place.join("venv/bin/openapi-python-client").exists() {
        command::run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
        command::run(Command::new(pip).args(["install", "--quiet"]).args(PACKAGES))?;
    }
    command::run(&mut cargo(["build", "--bin", "enjamb", "-p", "enjamb-cli"]))?;
    Ok(place)
}

/// curl sees what is there, is cut off, and goes on after the last event that it saw.
fn follow_with_curl(serving: &Serving) -> Result<(), Problem> {
    serving.append("followed", 0)?;
    serving.append("followed", 1)?;
    let url = format!("{}/v1/streams/note/followed/events", serving.url);
    let follow = |after: Option<&str>| -> Result<String, Problem> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--no-buffer", "--max-time", "2", "--header"]);
        curl.arg(format!("Authorization: Bearer {}", serving.token));
        if let Some(id) = after {
            curl.args(["--header", &format!("Last-Event-ID: {id}")]);
        }
        // It ends because its time is over, which it calls a failure.
        let ran = curl.arg(&url).stdin(Stdio::null()).output().map_err(|cause| format!("curl: {cause}"))?;
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    };
    expect_ids("curl", &follow(None)?, &["0", "1"])?;
    serving.append("followed", 2)?;
    expect_ids("curl after Last-Event-ID: 0", &follow(Some("0"))?, &["1", "2"])
}

fn expect_ids(who: &str, text: &str, expected: &[&str]) -> Result<(), Problem> {
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    if ids != expected {
        return Err(format!("{who} saw the events {ids:?} instead of {expected:?}:\n{text}"));
    }
    println!("{who} saw the events {ids:?}.");
    Ok(())
}

/// Makes a client from the document, and lets it do the first four calls.
fn four_calls(serving: &Serving, place: &Path) -> Result<(), Problem> {
    let (script, client) = (place.join("four_calls.py"), place.join("client"));
    fs::write(&script, FOUR_CALLS).map_err(|cause| format!("{}: {cause}", script.display()))?;
    let mut generate = Command::new(place.join("venv/bin/openapi-python-client"));
    generate.args(["generate", "--overwrite", "--meta", "none", "--path"]);
    generate.arg(workspace_root().join("crates/server/openapi.json")).arg("--output-path").arg(client.join("enjamb"));
    fs::create_dir_all(&client).map_err(|cause| format!("{}: {cause}", client.display()))?;
    command::run(&mut generate)?;
    let mut python = Command::new(place.join("venv/bin/python"));
    python.arg(&script).arg(&serving.url).arg(place.join("store/token")).env("PYTHONPATH", &client);
    command::run(&mut python)
}
