//! Files that are not what they should be, and disks that do not take what they should.

use haft_core::session::Input;
use haft_store::{AppendError, Error, ErrorKind, Store};

use crate::backing::{Backing, Directory, runtime, tamper_sqlite};
use crate::driver::{Failed, Session, ok, proposal, read};

#[track_caller]
fn refused(directory: &Directory, kind: ErrorKind, says: &str) {
    let error = Store::open_sqlite(directory.path()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let directory = Directory::new();
    let text = "dear diary, ".repeat(1_000);
    std::fs::write(directory.database(), &text).unwrap();
    refused(&directory, ErrorKind::WrongFile, "haft.db");
    assert_eq!(std::fs::read_to_string(directory.database()).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let directory = Directory::new();
    tamper_sqlite(&directory, "CREATE TABLE recipes (name TEXT)");
    let before = std::fs::read(directory.database()).unwrap();
    refused(&directory, ErrorKind::WrongFile, "another program");
    assert_eq!(std::fs::read(directory.database()).unwrap(), before);
}

#[test]
fn a_database_of_a_newer_haft_is_refused() {
    let directory = Directory::new();
    drop(Store::open_sqlite(directory.path()).unwrap());
    tamper_sqlite(&directory, "PRAGMA user_version = 99");
    refused(&directory, ErrorKind::NewerSchema, "schema version 99");
}

#[test]
fn a_directory_belongs_to_one_store_at_a_time() {
    let directory = Directory::new();
    let first = Store::open_sqlite(directory.path()).unwrap();
    refused(&directory, ErrorKind::InUse, "another process has");
    drop(first);
    Store::open_sqlite(directory.path()).unwrap();
}

#[test]
fn a_file_where_a_directory_should_be_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("file");
    std::fs::write(&path, "x").unwrap();
    let error = Store::open_sqlite(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongFile, "{error}");
}

/// A file system of its own in memory, taken away with the test.
struct SmallDisk(Directory);

impl SmallDisk {
    /// `None` where mounting is not allowed, as in a container without the right to.
    fn mount(megabytes: u32) -> Option<Self> {
        let disk = Self(Directory::new());
        let size = format!("size={megabytes}m");
        disk.run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"]).then_some(disk)
    }

    fn make_read_only(&self) {
        assert!(self.run("mount", &["-o", "remount,ro"]));
    }

    #[expect(clippy::disallowed_methods, reason = "mounts a disk that can be full or read-only")]
    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = std::process::Command::new(program);
        command.args(arguments).arg(self.0.path());
        command.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
fn left_out(what: &str) {
    println!("left out: {what} needs what this machine does not have or allow");
}

#[test]
fn a_read_only_directory_is_refused() {
    let Some(disk) = SmallDisk::mount(8) else { return left_out("a read-only directory") };
    drop(Store::open_sqlite(disk.0.path()).unwrap());
    disk.make_read_only();
    refused(&disk.0, ErrorKind::ReadOnly, "");
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_keeps_what_was_acknowledged_and_goes_on() {
    let Some(disk) = SmallDisk::mount(4) else { return left_out("a full disk") };
    runtime().block_on(async {
        let store = Store::open_sqlite(disk.0.path()).unwrap();
        let filler = disk.0.path().join("filler");
        let mut session = Session::create(&store, "acme").await;
        std::fs::write(&filler, vec![0; 2 << 20]).unwrap();
        let error = fill(&mut session).await;
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        assert!(error.is_retryable());
        let loaded = store.load(session.id).await.unwrap().unwrap();
        assert_eq!((&loaded.state, loaded.head), (&session.state, session.head));

        std::fs::remove_file(&filler).unwrap();
        session.propose(&read()).await;
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

/// Appends until the disk has had enough.
async fn fill(session: &mut Session) -> Error {
    for _ in 0..20_000 {
        let (call, input) = proposal(&read());
        match session.input(input).await {
            Ok(()) => {}
            Err(Failed::Append(AppendError::Store(error))) => return error,
            Err(other) => panic!("{other:?}"),
        }
        let attempt = session.state.as_open().unwrap().call(call).unwrap().attempts;
        let report = haft_core::session::AttemptReport::Returned(ok(&"x".repeat(4_000)).into());
        let ended = haft_core::session::AttemptEnded { call, attempt, report };
        match session.input(Input::AttemptEnded(ended)).await {
            Ok(()) => {}
            Err(Failed::Append(AppendError::Store(error))) => return error,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk took everything")
}

/// Names the directory to the process that is made to fail.
const CHILD_DIRECTORY: &str = "HAFT_TEST_CHILD_DIRECTORY";

// A disk that did not keep its promise once is not asked again: what is stored after a failed sync
// may rest on what is not.
#[test]
#[expect(clippy::disallowed_methods, reason = "runs itself under strace, which fails a sync")]
fn after_a_failed_sync_the_store_takes_nothing_more_and_keeps_what_was_acknowledged() {
    if let Ok(directory) = std::env::var(CHILD_DIRECTORY) {
        return meet_a_failed_sync(std::path::Path::new(&directory));
    }
    let directory = Directory::new();
    let output = std::process::Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync"])
        .args(["-e", "inject=fdatasync,fsync:error=EIO:when=40"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(
            "sqlite_files::after_a_failed_sync_the_store_takes_nothing_more_and_keeps_what_was_acknowledged",
        )
        .env(CHILD_DIRECTORY, directory.path())
        .output();
    let Ok(output) = output else { return left_out("a failing sync (and strace)") };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let acknowledged = said.lines().find_map(|line| line.split_once("acknowledged: "));
    let (id, seq) = acknowledged.expect("it says what was acknowledged").1.split_once(' ').unwrap();
    runtime().block_on(async {
        let store = Store::open_sqlite(directory.path()).unwrap();
        let head = store.verify(id.parse().unwrap()).await.unwrap();
        assert!(head.seq >= seq.parse().unwrap(), "entry {seq} was acknowledged: {}", head.seq);
    });
}

#[expect(clippy::print_stdout, reason = "tells the process that started it what to look for")]
fn meet_a_failed_sync(directory: &std::path::Path) {
    runtime().block_on(async {
        let store = Store::open_sqlite(directory).unwrap();
        let mut session = Session::create(&store, "acme").await;
        let error = fill(&mut session).await;
        assert_eq!(error.kind(), ErrorKind::Stopped, "{error}");
        println!("acknowledged: {} {}", session.id, session.head.seq);
        for _ in 0..3 {
            let append = session.append_of(haft_store::Fence::Anyone, vec![]);
            let refused = store.append(&append).await.unwrap_err();
            let AppendError::Store(refused) = refused else { panic!("{refused}") };
            assert_eq!(refused.kind(), ErrorKind::Stopped);
            assert!(refused.to_string().contains("no more writes are taken"), "{refused}");
        }
        assert!(store.load(session.id).await.unwrap().is_some(), "reading goes on");
    });
}

// A store that is closed lets go of everything it had.
#[test]
fn a_store_can_be_opened_again_at_once_many_times() {
    let backing = Backing::Sqlite(Directory::new());
    runtime().block_on(async {
        let mut id = None;
        for _ in 0..10 {
            let store = backing.open().await;
            let id = *id.get_or_insert(Session::create(&store, "acme").await.id);
            assert!(store.load(id).await.unwrap().is_some());
        }
    });
}

// Someone's shell or backup holds the file: that passes, and nobody needs to report it.
#[test]
#[expect(clippy::disallowed_methods, reason = "plays the other program")]
fn a_file_that_another_program_locks_is_said_to_be_away_and_comes_back() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut session = Session::create(&store, "acme").await;
        let other = rusqlite::Connection::open(directory.database()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (_, input) = proposal(&read());
        let Err(Failed::Append(AppendError::Store(error))) = session.input(input).await else {
            panic!("the append went through a lock")
        };
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
        assert!(error.is_retryable());
        other.execute_batch("ROLLBACK").unwrap();
        session.propose(&read()).await;
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

// Checkpoints are made beside the writer, and keep up with it: what is written ends in the file.
#[test]
fn what_is_written_moves_on_into_the_file_while_writing_goes_on() {
    const MEGABYTES: u64 = 40;
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..MEGABYTES * 10 {
            let call = session.propose(&read()).await;
            session.finish(call, ok(&"x".repeat(100_000))).await;
        }
        let file = std::fs::metadata(directory.database()).unwrap().len();
        assert!(file > (MEGABYTES << 20) / 4, "{file} of {MEGABYTES} MB are in the file");
        let (id, head) = (session.id, session.head);
        drop((session, store));
        let store = Store::open_sqlite(directory.path()).unwrap();
        assert_eq!(store.verify(id).await, Ok(head));
    });
}
