//! A pooler between the store and its database: refused by name, or all limits hold behind it.

use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use haft_store::{AppendError, ErrorKind, Store, examine_postgres};

use crate::backing::{Directory, runtime};
use crate::cluster::{Cluster, is_left_out};
use crate::driver::{Failed, Session, proposal, read};
use crate::outage::PATIENCE;

/// A running PgBouncer, killed when it is dropped.
struct Pooler {
    process: Child,
    url: String,
    _directory: Directory,
}

impl Pooler {
    #[expect(clippy::disallowed_methods, reason = "starts the pooler that the test is about")]
    fn start(cluster: &Cluster, mode: &str) -> Self {
        let (directory, port) = (Directory::new(), free_port());
        let server = cluster.url();
        let server_port = server.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        let (settings, users) =
            (directory.path().join("pgbouncer.ini"), directory.path().join("users"));
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={server_port}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\n\
             auth_file = {}\npool_mode = {mode}\nunix_socket_dir =\ndefault_pool_size = 30\n",
            users.display()
        );
        std::fs::write(&settings, text).unwrap();
        for path in [directory.path(), &settings, &users] {
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
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        Self { process, url, _directory: directory }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

// E18
#[test]
fn a_pooler_that_shares_sessions_is_refused_by_name() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        for mode in ["transaction", "statement"] {
            let pooler = Pooler::start(&cluster, mode);
            let error = Store::connect_postgres(&pooler.url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{mode}: {error}");
            let said = error.to_string();
            assert!(said.contains("PgBouncer") && said.contains("pool_mode = session"), "{said}");
        }
    });
}

// E18: the limits were dropped in silence.
#[test]
fn behind_a_pooler_that_keeps_sessions_everything_holds_and_the_limits_too() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let pooler = Pooler::start(&cluster, "session");
        let store = Store::connect_postgres(&pooler.url).await.unwrap();
        let mut session = Session::create(&store, "acme").await;
        session.propose(&read()).await;
        assert_eq!(store.verify(session.id).await, Ok(session.head));
        let report = examine_postgres(&pooler.url).await.unwrap();
        assert!(report.between.unwrap().contains("pooler"));

        let locker = locked(&cluster).await;
        let (_, input) = proposal(&read());
        let refused = session.input(input).await;
        let Err(Failed::Append(AppendError::Store(error))) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
        assert!(error.to_string().contains("lock timeout"), "{error}");
        drop(locker);
    });
}

/// Locks the sessions until what is returned is dropped.
#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
async fn locked(cluster: &Cluster) -> tokio_postgres::Client {
    let url = cluster.url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client.batch_execute("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    client
}

#[test]
fn settings_in_the_address_that_a_pooler_does_not_take_are_refused_by_name() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let pooler = Pooler::start(&cluster, "session");
        let url = format!("{}?options=-csearch_path%3Dpublic", pooler.url);
        let error = Store::connect_postgres(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("ignore_startup_parameters"), "{error}");
    });
}
