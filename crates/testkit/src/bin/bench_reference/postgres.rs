//! A PostgreSQL whose files are on the disk that is measured, there until its input ends.

use std::io::{Read, Write};

use enjamb_testkit::database::Server;
use tempfile::TempDir;

use crate::Problem;

/// Says where its programs are and how it is reached, and serves until its input ends.
pub(crate) fn serve() -> Result<String, Problem> {
    let dir = TempDir::new_in(".")?;
    // The server may be run as another user, who has to get there.
    let place = std::path::absolute(dir.path())?;
    let server = Server::start_in(dir).ok_or("PostgreSQL is not installed")?;
    writeln!(std::io::stdout(), "{} {}", server.programs().display(), server.address())?;
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(server);
    Ok(format!("{} is gone", place.display()))
}
