//! A real PostgreSQL for the tests: a throw-away cluster on loopback, shared by every test process
//! that runs at the same time and stopped by the last one.
//!
//! The processes agree by locks on files: each holds `users` as long as it needs the cluster, and
//! whoever starts or stops it holds `gate`. A run that was killed leaves a cluster behind that the
//! next run finds, uses and stops.

#![expect(clippy::disallowed_methods, reason = "starts the database that the tests run on")]

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A running cluster, as long as it is held.
pub(crate) struct Cluster {
    directory: PathBuf,
    stop: Stop,
}

/// Who stops the cluster.
enum Stop {
    /// Whoever holds it last, of all processes.
    LastUser { users: File, gate: File },
    /// The test that started it for itself.
    Owner,
}

/// Returns the shared cluster's address, and what keeps it running.
pub(crate) fn shared() -> (String, Option<Arc<Cluster>>) {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    if let Ok(url) = std::env::var("HAFT_TEST_POSTGRES") {
        return (url, None);
    }
    let mut shared = SHARED.lock().unwrap();
    let cluster = shared.upgrade().unwrap_or_else(|| Arc::new(Cluster::join()));
    *shared = Arc::downgrade(&cluster);
    (cluster.url(), Some(cluster))
}

/// Returns whether what needs more than the toolchain is left out, and says so.
#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
pub(crate) fn is_left_out() -> bool {
    let is_left_out = std::env::var("HAFT_TEST_FAST").is_ok_and(|value| value == "1");
    if is_left_out {
        println!("left out: what needs PostgreSQL, strace or Python (HAFT_TEST_FAST=1)");
    }
    is_left_out
}

impl Cluster {
    fn join() -> Self {
        let base = std::env::temp_dir().join("haft-test-postgres");
        std::fs::create_dir_all(&base).unwrap();
        let lock_file = |name: &str| {
            OpenOptions::new().create(true).append(true).open(base.join(name)).unwrap()
        };
        let (users, gate) = (lock_file("users"), lock_file("gate"));
        users.lock_shared().unwrap();
        gate.lock().unwrap();
        // Beside and not inside: PostgreSQL runs as a user of its own, who makes the directory.
        let directory = std::env::temp_dir().join("haft-test-postgres-data");
        let cluster = Self { directory, stop: Stop::LastUser { users, gate } };
        if !cluster.is_running() {
            cluster.initialise();
            cluster.start(free_port());
        }
        if let Stop::LastUser { gate, .. } = &cluster.stop {
            gate.unlock().unwrap();
        }
        cluster
    }

    /// Starts a cluster for one test, which may stop it and start it again.
    pub(crate) fn private() -> Self {
        let cluster = Self::unstarted();
        cluster.start(free_port());
        cluster
    }

    fn unstarted() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("haft-test-pg-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let cluster = Self { directory, stop: Stop::Owner };
        cluster.initialise();
        cluster
    }

    /// Starts a cluster for one test that takes encrypted connections only.
    pub(crate) fn encrypted(certificate: &str, key: &str) -> Self {
        let cluster = Self::unstarted();
        let owner = std::fs::metadata(&cluster.directory).unwrap();
        for (name, content) in [("server.crt", certificate), ("server.key", key)] {
            let path = cluster.directory.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let settings = cluster.directory.join("postgresql.conf");
        let mut settings = OpenOptions::new().append(true).open(settings).unwrap();
        settings.write_all(b"ssl = on\n").unwrap();
        let rules = "hostssl all all 127.0.0.1/32 trust\nlocal all all trust\n";
        std::fs::write(cluster.directory.join("pg_hba.conf"), rules).unwrap();
        cluster.start(free_port());
        cluster
    }

    pub(crate) fn url(&self) -> String {
        let port = std::fs::read_to_string(self.directory.join("haft_port")).unwrap();
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// The same database through its socket.
    pub(crate) fn socket_url(&self) -> String {
        let port = std::fs::read_to_string(self.directory.join("haft_port")).unwrap();
        let socket = self.directory.display();
        format!("postgres://postgres@/postgres?host={socket}&port={port}")
    }

    fn is_running(&self) -> bool {
        self.directory.join("haft_port").exists() && self.pg_ctl(&["status"]).status.success()
    }

    fn initialise(&self) {
        // What a killed run has left behind is of no use.
        drop(std::fs::remove_dir_all(&self.directory));
        let data = self.directory.to_str().unwrap();
        let arguments = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", data];
        let output = run("initdb", &arguments);
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, port: u16) {
        let socket = self.directory.display();
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket} \
             -c fsync=on -c max_connections=300 -c shared_buffers=64MB"
        );
        let log = self.directory.join("log");
        let output =
            self.pg_ctl(&["start", "-w", "-t", "60", "-l", log.to_str().unwrap(), "-o", &options]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        std::fs::write(self.directory.join("haft_port"), port.to_string()).unwrap();
    }

    /// Takes the database away as a crash does, and gives it back.
    pub(crate) fn stop(&self) {
        assert!(self.pg_ctl(&["stop", "-w", "-m", "immediate"]).status.success());
    }

    pub(crate) fn start_again(&self) {
        let port = std::fs::read_to_string(self.directory.join("haft_port")).unwrap();
        self.start(port.parse().unwrap());
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Output {
        let data = self.directory.to_str().unwrap();
        run("pg_ctl", &[&["-D", data], arguments].concat())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Stop::LastUser { users, gate } = &self.stop {
            // A lock that fails leaves the cluster to the next run.
            if users.unlock().and_then(|()| gate.lock()).is_err() || users.try_lock().is_err() {
                return;
            }
        }
        self.pg_ctl(&["stop", "-m", "immediate"]);
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns a schema as SQL that makes it and everything in it.
pub(crate) fn dump(url: &str, schema: &str) -> String {
    let arguments = ["--inserts", "--no-owner", "--schema", schema, "--dbname", url];
    let output = run("pg_dump", &arguments);
    assert!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a statement in a database and returns what it says, one row in a line.
pub(crate) fn sql(url: &str, statement: &str) -> String {
    let output = run("psql", &["--no-psqlrc", "-qAt", "-c", statement, url]);
    assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs one of PostgreSQL's programs, which refuse to run as root.
fn run(program: &str, arguments: &[&str]) -> Output {
    let program = installed().join(program);
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = if is_root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).current_dir("/").output().unwrap()
}

/// Returns where Debian puts the newest PostgreSQL's programs.
fn installed() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    let newest = programs.filter(|programs| Path::exists(&programs.join("initdb"))).max();
    newest.expect(
        "PostgreSQL is not installed: run `cargo xtask test`, which installs it, or leave its \
         cases out with HAFT_TEST_FAST=1",
    )
}
