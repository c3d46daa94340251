//! The directory of a task that runs: who runs it, what it has written so far, and the socket that it is spoken to by.
//!
//! It is made under another name and gets its own once its lock is held, so a directory whose lock nobody holds is one
//! whose supervisor is gone.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use enjamb_core::frame::OutputStream;
use enjamb_ledger::private;
use serde::{Deserialize, Serialize};

use crate::{Result, ServiceError, Store};

/// What a directory is called before it is locked.
const UNFINISHED: &str = ".new-";
/// Addresses of sockets are shorter than paths.
const ADDRESS_BYTES_MAX: usize = 100;

/// A task's directory, whoever holds its lock.
pub(super) struct TaskDir {
    pub path: PathBuf,
}

/// The process that a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub pid: i32,
    /// By which it is told from a later process with the same number, where the system says.
    pub began: Option<u64>,
    pub started_at_ms: u64,
}

impl Store {
    pub(super) fn tasks_dir(&self) -> PathBuf {
        self.dir().join("tasks")
    }

    pub(super) fn task_dir(&self, task: &str) -> TaskDir {
        TaskDir { path: self.tasks_dir().join(task) }
    }

    /// The directories of tasks that run, or did when their supervisors were last seen.
    pub(super) fn task_dirs(&self) -> io::Result<Vec<(String, TaskDir)>> {
        let entries = match fs::read_dir(self.tasks_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            found.extend(entry.file_name().into_string().ok().map(|name| (name, TaskDir { path: entry.path() })));
        }
        Ok(found)
    }
}

impl TaskDir {
    /// Makes the directory, and returns the lock that says that its supervisor lives.
    pub(super) fn create(&self) -> Result<File> {
        self.make().map_err(|source| self.failed(source))
    }

    fn make(&self) -> io::Result<File> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = Self { path: self.path.with_file_name(format!("{UNFINISHED}{name}")) };
        private::make_dir(&unfinished.path)?;
        let lock = private::create(&unfinished.path.join("lock"))?;
        lock.try_lock().map_err(io::Error::from)?;
        fs::rename(&unfinished.path, &self.path)?;
        Ok(lock)
    }

    pub(super) fn is_unfinished(name: &str) -> bool {
        name.starts_with(UNFINISHED)
    }

    pub(super) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// The lock, if whoever held it is gone.
    pub(super) fn abandoned(&self) -> io::Result<Option<File>> {
        let lock = match File::options().write(true).open(self.path.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock?,
        };
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    pub(super) fn log(&self, stream: &OutputStream) -> PathBuf {
        self.path.join(stream.as_str())
    }

    pub(super) fn write_process(&self, process: &Process) -> Result<()> {
        let written =
            serde_json::to_vec(process).map_err(io::Error::from).and_then(|bytes| self.write("process.json", &bytes));
        written.map_err(|source| self.failed(source))
    }

    pub(super) fn process(&self) -> Option<Process> {
        serde_json::from_slice(&fs::read(self.path.join("process.json")).ok()?).ok()
    }

    /// Whole or not at all, also when the machine dies.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.path.join(format!("{name}.new"));
        let mut file = private::create(&unfinished)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        fs::rename(unfinished, self.path.join(name))
    }

    /// The address of the task's socket, and what has to stay open for it to be one.
    pub(super) fn address(&self) -> io::Result<(PathBuf, Option<OwnedFd>)> {
        let plain = self.path.join("control");
        if plain.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok((plain, None));
        }
        let dir: OwnedFd = File::open(&self.path)?.into();
        Ok((Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join("control"), Some(dir)))
    }

    pub(super) fn failed(&self, source: io::Error) -> ServiceError {
        ServiceError::File { path: self.path.clone(), source }
    }
}

impl Process {
    pub(super) fn of(pid: u32, started_at_ms: u64) -> Self {
        Self { pid: pid.cast_signed(), began: began(pid.cast_signed()), started_at_ms }
    }

    /// Whether its group may be signalled: it is the same process, or it is gone, and then no other has its number while
    /// its group lives.
    pub(super) fn is_ours(&self) -> bool {
        let exists = Path::new("/proc").join(self.pid.to_string()).exists();
        self.began.is_some() && (!exists || began(self.pid) == self.began)
    }
}

/// When a process began, in ticks of the system's own clock.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let after = &stat[stat.rfind(')')? + 1..];
    after.split_whitespace().nth(19)?.parse().ok()
}
