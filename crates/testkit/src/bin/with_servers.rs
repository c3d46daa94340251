//! Runs a command with a PostgreSQL and an S3 server that are there for as long as the command runs: `with_servers COMMAND
//! [ARGUMENT…]`.

use std::io::Write;
use std::process::{Command, ExitCode};

use enjamb_testkit::database::{self, Server};
use enjamb_testkit::gateway::{self, Cluster};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        return failed("expected a command to run");
    };
    let Some(server) = Server::start() else {
        return failed("PostgreSQL is not installed: expected initdb and pg_ctl on the path");
    };
    let Some(cluster) = Cluster::start() else {
        return failed("Ceph's gateway is not installed: expected radosgw, ceph, ceph-mon and ceph-osd on the path");
    };
    // What interrupts the command does not end this: the servers have to be told to go.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        return failed(&format!("an interruption would leave the servers behind: {error}"));
    }
    let mut command = Command::new(&program);
    command.args(words).env(database::VARIABLE, server.address()).env(gateway::VARIABLE, cluster.endpoint());
    // If this was started by cargo and starts another one, that one's build scripts are not to take this package for
    // their own, find it changed, and build anew.
    for (name, _) in std::env::vars_os().filter(|(name, _)| tells_of_a_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    match command.status() {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => failed(&format!("{} could not be started: {error}", program.display())),
    }
}

fn tells_of_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

fn failed(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "with_servers: {why}");
    ExitCode::from(2)
}
