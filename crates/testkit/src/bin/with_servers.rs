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
    let ended = Command::new(&program)
        .args(words)
        .env(database::VARIABLE, server.address())
        .env(gateway::VARIABLE, cluster.endpoint())
        .status();
    match ended {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => failed(&format!("{} could not be started: {error}", program.display())),
    }
}

fn failed(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "with_servers: {why}");
    ExitCode::from(2)
}
