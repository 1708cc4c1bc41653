//! A real PgBouncer in front of a test's cluster.

#![expect(clippy::disallowed_methods, reason = "starts the pooler that tests are about")]

use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;

/// How long PgBouncer may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running PgBouncer, killed when it is dropped.
pub(crate) struct Pooler {
    process: Child,
    pub(crate) url: String,
}

impl Pooler {
    /// Starts one that keeps its settings in a directory.
    pub(crate) fn start(cluster: &Cluster, mode: &str, directory: &Path, port: u16) -> Self {
        let server = cluster.url();
        let server_port = server.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        let (settings, users) = (directory.join("pgbouncer.ini"), directory.join("users"));
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\n\
             auth_file = {}\npool_mode = {mode}\nunix_socket_dir =\ndefault_pool_size = 30\n",
            users.display()
        );
        std::fs::write(&settings, text).unwrap();
        for path in [directory, &settings, &users] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        // It does not run as root. The kernel kills it with the test.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--reuid", "postgres", "--regid", "postgres"])
            .args(["--clear-groups", "/usr/sbin/pgbouncer", "-q"])
            .arg(&settings)
            .stderr(Stdio::null())
            .spawn()
            .expect("PgBouncer is not installed: run `cargo xtask test`, which installs it");
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "PgBouncer does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, url: format!("postgres://postgres@127.0.0.1:{port}/postgres") }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns a port that nobody listens at.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
