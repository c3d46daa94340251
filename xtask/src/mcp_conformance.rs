//! `cargo xtask mcp-conformance`: the official SDK of the Model Context Protocol, over stdio and HTTP, and the public
//! conformance suite, against the real binary.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Problem;
use crate::command::{self, cargo, workspace_root};
use crate::needs::{self, Absence, Need, Source};

/// The suite needs a Node.js that may be newer than the machine's, so that comes by npm as well.
const PACKAGES: &[&str] = &["@modelcontextprotocol/conformance", "@modelcontextprotocol/sdk", "node@22"];
const SCRIPTS: &[&str] = &["run.mjs", "client.mjs", "go_between.mjs"];

fn needs() -> Vec<Need> {
    let need =
        |name, binary, packages| Need { name, source: Source::Debian { binary, packages }, absence: Absence::Stops };
    vec![need("Node.js", "node", &["nodejs"]), need("npm", "npm", &["npm"])]
}

/// `--update` fetches the suite and the SDK anew.
pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    needs::meet(&needs())?;
    let dir = workspace_root().join("target/mcp-conformance");
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    install(&dir, arguments.iter().any(|word| word == "--update"))?;
    command::run(&mut cargo(["build", "--bin", "enjamb"]))?;
    let from = workspace_root().join("xtask/mcp");
    for script in SCRIPTS {
        // Beside the packages, where Node.js looks for them.
        fs::copy(from.join(script), dir.join(script)).map_err(|cause| format!("{script}: {cause}"))?;
    }
    let node = dir.join("node_modules/node/bin/node");
    let enjamb = workspace_root().join("target/debug/enjamb");
    command::run(Command::new(node).arg("run.mjs").arg(enjamb).arg(from.join("baseline.yml")).current_dir(&dir))
}

fn install(dir: &Path, update: bool) -> Result<(), Problem> {
    let is_there = dir.join("node_modules/@modelcontextprotocol/conformance").exists()
        && dir.join("node_modules/node/bin/node").exists();
    if is_there && !update {
        return Ok(());
    }
    let manifest = dir.join("package.json");
    fs::write(&manifest, "{\"private\":true,\"type\":\"module\"}\n")
        .map_err(|cause| format!("{}: {cause}", manifest.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).args(PACKAGES).current_dir(dir);
    command::run(&mut npm)
}
