//! `cargo xtask realclients`: the real Claude Code and Codex, with no network but a model on the loopback, load what
//! `enjamb resume` wrote; what they then send is held against what they send for their own sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Problem;
use crate::command::{self, cargo, succeeds, workspace_root};
use crate::needs::{self, Absence, Need, Source};

const CLIENTS: &[&str] = &["@anthropic-ai/claude-code", "@openai/codex"];

fn needs() -> Vec<Need> {
    let need =
        |name, binary, packages| Need { name, source: Source::Debian { binary, packages }, absence: Absence::Stops };
    vec![
        need("Node.js", "node", &["nodejs"]),
        need("npm", "npm", &["npm"]),
        need("unshare", "unshare", &["util-linux"]),
        need("ip", "ip", &["iproute2"]),
    ]
}

/// Arguments are `--corpus DIR`, `--sessions N` and names of cases; `--update` fetches the clients anew.
pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    needs::meet(&needs())?;
    let dir = workspace_root().join("target/realclients");
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    let (update, mut rest): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| *word == "--update");
    install(&dir, !update.is_empty())?;
    command::run(&mut cargo(["build", "--bin", "enjamb", "--bin", "real_clients", "--workspace"]))?;
    let corpus = if rest.iter().any(|word| *word == "--corpus") { None } else { corpus(&dir) };
    let corpus = corpus.map(|corpus| corpus.display().to_string());
    let named = ["--corpus".to_owned()];
    if let Some(corpus) = &corpus {
        rest.splice(0..0, [&named[0], corpus]);
    }
    let built = workspace_root().join("target/debug");
    let mut isolated = isolated()?;
    isolated.arg(built.join("real_clients")).arg(&dir).arg(built.join("enjamb")).arg(dir.join("stage")).args(rest);
    fs::create_dir_all(dir.join("stage")).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    command::run(&mut isolated)
}

/// Puts the clients into a directory of the workspace, where nobody else's are touched.
fn install(dir: &Path, update: bool) -> Result<(), Problem> {
    let is_there = |program: &str| dir.join("node_modules/.bin").join(program).exists();
    if !update && is_there("claude") && is_there("codex") {
        return Ok(());
    }
    let manifest = dir.join("package.json");
    fs::write(&manifest, "{\"private\":true}\n").map_err(|cause| format!("{}: {cause}", manifest.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).args(CLIENTS).current_dir(dir);
    command::run(&mut npm)?;
    // The program is put in its place by a script, which npm may have been told not to run.
    let package = dir.join("node_modules").join(CLIENTS[0]);
    if package.join("install.cjs").exists() {
        command::run(Command::new("node").arg("install.cjs").current_dir(package))?;
    }
    Ok(())
}

/// Real transcripts that may lie beside the project; they are other people's and not part of it.
fn corpus(dir: &Path) -> Option<PathBuf> {
    let unpack = workspace_root().join("../shared/corpus/unpack");
    let unpacked = dir.join("corpus");
    let is_there = unpacked.is_dir() || unpack.exists() && succeeds(Command::new(unpack).arg(&unpacked));
    if !is_there {
        println!("There is no corpus; sessions are made by the clients themselves.");
    }
    is_there.then_some(unpacked)
}

/// Something to be run where there is no network but the loopback.
fn isolated() -> Result<Command, Problem> {
    const SCRIPT: &str = "ip link set lo up && exec \"$@\"";
    for options in [&["--net"][..], &["--net", "--map-root-user"]] {
        if succeeds(Command::new("unshare").args(options).args(["sh", "-c", SCRIPT, "sh", "true"])) {
            let mut command = Command::new("unshare");
            command.args(options).args(["sh", "-c", SCRIPT, "sh"]);
            return Ok(command);
        }
    }
    Err("no network namespace can be made here: run it as root, or where user namespaces are allowed".into())
}
