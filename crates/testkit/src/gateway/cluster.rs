//! The server's processes: a monitor, one place for objects, and the gateway that speaks S3.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAMS: [&str; 6] = ["ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin"];
const START_WAIT: Duration = Duration::from_secs(120);

/// One copy of everything, in memory; nobody has to prove who they are but to the gateway.
const SETTINGS: &str = "
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_bind_ipv6 = false
public_addr = 127.0.0.1
osd_objectstore = memstore
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
";

pub struct Cluster {
    dir: TempDir,
    /// In the order in which they were started.
    children: Vec<Child>,
    port: u16,
}

impl Cluster {
    /// Makes and starts one; `None` when Ceph's gateway is not installed.
    pub fn start() -> Option<Self> {
        if !PROGRAMS.iter().all(|program| is_on_path(program)) {
            return None;
        }
        let (monitor, port) = (free_port(), free_port());
        let mut cluster = Self { dir: directory(), children: Vec::new(), port };
        cluster.make(monitor);
        cluster.run(&["ceph-mon", "-f", "-i", "a"]);
        let id = random_uuid();
        cluster.succeed(&["ceph", "--connect-timeout", "60", "osd", "new", &id]);
        cluster.succeed(&["ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", &id]);
        cluster.run(&["ceph-osd", "-f", "-i", "0"]);
        let front = format!("beast endpoint=127.0.0.1:{port}");
        cluster.run(&["radosgw", "-f", "-n", "client.admin", "--rgw_frontends", &front]);
        cluster.wait();
        let keys = [("access", super::ACCESS_KEY), ("secret", super::SECRET_KEY)];
        let keys = keys.map(|(name, key)| format!("--{name}-key={key}"));
        let user = ["radosgw-admin", "-n", "client.admin", "user", "create", "--uid=tests", "--display-name=tests"];
        cluster.succeed(&[&user[..], &[&keys[0], &keys[1]]].concat());
        Some(cluster)
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn make(&self, monitor: u16) {
        let (dir, id) = (self.dir.path().display().to_string(), random_uuid());
        let place = |name: &&str| {
            std::fs::create_dir(self.dir.path().join(name)).expect("a directory");
            format!("{name} = {dir}/{name}\n")
        };
        let places: String = ["mon_data", "osd_data", "rgw_data", "run_dir"].iter().map(place).collect();
        let settings = format!(
            "[global]\nfsid = {id}\nmon_host = [v2:127.0.0.1:{monitor}/0]\nlog_file = {dir}/$name.log\n\
             keyring = {dir}/keyring\nadmin_socket = {dir}/run_dir/$name.asok\n{places}{SETTINGS}"
        );
        std::fs::write(self.settings(), settings).expect("a file");
        let (map, address) = (format!("{dir}/monmap"), format!("[v2:127.0.0.1:{monitor}]"));
        self.succeed(&["monmaptool", "--create", "--fsid", &id, "--addv", "a", &address, &map]);
        self.succeed(&["ceph-mon", "-i", "a", "--mkfs", "--monmap", &map]);
    }

    fn settings(&self) -> PathBuf {
        self.dir.path().join("ceph.conf")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.arg("-c").arg(self.settings()).args(&words[1..]).stdin(Stdio::null()).current_dir(self.dir.path());
        command
    }

    fn succeed(&self, words: &[&str]) {
        let Output { status, stderr, .. } = self.command(words).output().expect("it starts");
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
    }

    fn run(&mut self, words: &[&str]) {
        let child = self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.children.push(child.expect("it starts"));
    }

    fn wait(&self) {
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(began.elapsed() < START_WAIT, "Ceph's gateway does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // It may be gone already; nothing in it is worth an orderly end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a port").port()
}

fn random_uuid() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a random number");
    text.trim().to_owned()
}

/// In memory where that can be: syncs are free there.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary directory")
}
