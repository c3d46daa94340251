//! Runs a command with a PostgreSQL that is there for as long as the command runs: `with_servers COMMAND [ARGUMENT…]`.

use std::process::{Command, ExitCode};

use enjamb_testkit::database::{Server, VARIABLE};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("with_servers: expected a command to run");
        return ExitCode::from(2);
    };
    let Some(server) = Server::start() else {
        eprintln!("with_servers: PostgreSQL is not installed: expected initdb and pg_ctl on the path");
        return ExitCode::from(2);
    };
    // What interrupts the command does not end this: the server has to be told to go.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        eprintln!("with_servers: an interruption would leave the server behind: {error}");
    }
    let ended = Command::new(&program).args(words).env(VARIABLE, server.address()).status();
    match ended {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => {
            eprintln!("with_servers: {} could not be started: {error}", program.display());
            ExitCode::from(2)
        }
    }
}
