//! The server's processes.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::NoTls;

/// Where Debian keeps a version's programs, which are not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";
const PASSWORD: &str = "not a secret";
const START_WAIT: Duration = Duration::from_secs(60);

/// A server in a directory of its own.
pub struct Server {
    programs: PathBuf,
    dir: TempDir,
    port: u16,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Orderly,
    /// As if its machine had died: nothing is written back.
    Killed,
}

impl Server {
    /// Makes and starts one; `None` when PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::start_in(directory())
    }

    /// As [`Server::start`], with its files in a directory.
    pub fn start_in(dir: TempDir) -> Option<Self> {
        let programs = programs()?;
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a port").port();
        let server = Self { programs, dir, port };
        server.make();
        server.run();
        Some(server)
    }

    pub fn address(&self) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/postgres", PASSWORD.replace(' ', "%20"), self.port)
    }

    /// The directory of PostgreSQL's own programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn make(&self) {
        let password = self.dir.path().join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        if is_root() {
            succeed(Command::new("chown").args(["-R", "postgres:postgres"]).arg(self.dir.path()));
        }
        succeed(
            self.program("initdb")
                .args([
                    "--username=postgres",
                    "--auth=scram-sha-256",
                    "--data-checksums",
                    "--encoding=UTF8",
                    "--no-locale",
                ])
                .arg(format!("--pwfile={}", password.display()))
                .arg(self.data()),
        );
    }

    /// Starts the processes, and waits until they answer.
    pub fn run(&self) {
        let settings = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={} -c max_connections=1000 \
             -c shared_buffers=64MB -c max_wal_size=256MB -c log_min_messages=error",
            self.port,
            self.dir.path().display()
        );
        succeed(
            self.program("pg_ctl")
                .args(["start", "--wait", "--silent", "--timeout=60"])
                .arg(format!("--pgdata={}", self.data()))
                .arg(format!("--log={}", self.dir.path().join("log").display()))
                .arg(format!("--options={settings}")),
        );
        let began = Instant::now();
        while execute(&self.address(), "SELECT 1").is_err() {
            assert!(began.elapsed() < START_WAIT, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn stop(&self, stop: Stop) {
        let mode = match stop {
            Stop::Orderly => "fast",
            Stop::Killed => "immediate",
        };
        let data = format!("--pgdata={}", self.data());
        succeed(self.program("pg_ctl").args(["stop", "--wait", "--silent", "--mode", mode]).arg(data));
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    /// PostgreSQL refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command.current_dir(self.dir.path());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = format!("--pgdata={}", self.data());
        // It may be stopped already.
        let _ = self.program("pg_ctl").args(["stop", "--wait", "--silent", "--mode", "immediate"]).arg(data).output();
    }
}

/// The directory of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    places.extend(versions.into_iter().rev().map(|(_, path)| path));
    places.into_iter().find(|place| place.join("initdb").is_file() && place.join("pg_ctl").is_file())
}

/// In memory where that can be: syncs are free there.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary directory")
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn succeed(command: &mut Command) {
    // The server inherits what pg_ctl has open: a pipe that is read to its end would never end.
    let Output { status, stderr, .. } =
        command.stdout(std::process::Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
}

/// Runs SQL on a connection of its own.
pub(super) fn execute(address: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        let driven = tokio::spawn(connection);
        let done = client.batch_execute(sql).await;
        drop(client);
        let _ = driven.await;
        done
    })
}
