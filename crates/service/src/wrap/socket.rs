//! A socket on which a running agent's tools ask which commit it is at.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use enjamb_core::CommitId;
use tempfile::TempDir;

/// The variable that names the socket.
pub(super) const VARIABLE: &str = "ENJAMB_RUN_SOCKET";
/// How long whoever asks waits: the end of a transcript is stored first.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
const NOTHING: &str = "nothing";

/// In a directory of its own that only its owner enters. It goes with this.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    dir: TempDir,
}

impl Socket {
    /// `None` where no socket can be made: the agent runs all the same.
    pub fn open() -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("enjamb-").tempdir().ok()?;
        let listener = UnixListener::bind(dir.path().join("s")).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Self { listener, dir })
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Whoever asks now.
    pub fn caller(&self) -> Option<UnixStream> {
        self.listener.accept().ok().map(|(stream, _)| stream)
    }
}

/// Tells a caller, who may be gone.
pub(super) fn tell(mut caller: UnixStream, tip: Option<CommitId>) {
    let answer = tip.map_or_else(|| NOTHING.to_owned(), |id| id.to_string());
    let _ = caller.write_all(answer.as_bytes());
}

/// Asks a running agent's starter. `None` when nobody answers; `Some(None)` when there is no commit yet.
pub(crate) fn ask(path: &Path) -> Option<Option<CommitId>> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(ANSWER_WAIT)).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    match answer.trim() {
        NOTHING => Some(None),
        id => id.parse().ok().map(Some),
    }
}
