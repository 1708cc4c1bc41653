//! A store that an older Haft wrote: it opens, and what waits in it can be answered.
//!
//! The file and the dump are what the first schema wrote. A schema that has been released is never
//! edited; what changes comes as the next migration, which these tests then put to the proof. Until
//! the first release they are written anew by `HAFT_WRITE_FIXTURE=1 cargo test -p haft-store
//! upgrade`.

#![expect(clippy::disallowed_methods, reason = "reads and writes files of the repository")]

use std::path::PathBuf;

use haft_core::session::{Input, SuspensionKind};
use haft_core::tool::{Facets, Gate, Mutates};
use haft_store::{CallStage, Page, PendingFilter, SessionFilter, Store};

use crate::backing::{Directory, on_postgres, runtime};
use crate::cluster;
use crate::driver::{START, Session, ann, approval, charge, ok, tool};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What the dump calls its schema; each test loads it under a name of its own.
const SCHEMA: &str = "haft_of_the_first_schema";

#[test]
fn write_the_fixtures_when_asked_to() {
    if std::env::var("HAFT_WRITE_FIXTURE").is_err() {
        return;
    }
    let directory = Directory::new();
    runtime().block_on(async {
        let store = Store::open_sqlite(directory.path()).unwrap();
        leave_behind(&store).await;
    });
    let connection = rusqlite::Connection::open(directory.database()).unwrap();
    drop(std::fs::remove_file(fixture("schema-1.db")));
    // Small pages make a small file.
    connection.execute_batch("PRAGMA page_size = 512;").unwrap();
    connection.execute("VACUUM INTO ?1", [fixture("schema-1.db").to_str().unwrap()]).unwrap();
    on_postgres(async |schema| {
        let store = Store::connect_postgres(schema.url()).await.unwrap();
        leave_behind(&store).await;
        let (base, _cluster) = cluster::shared();
        let dump = cluster::dump(&base, schema.name()).replace(schema.name(), SCHEMA);
        // What begins with a backslash is for psql.
        let lines = dump.lines().filter(|line| !line.starts_with('\\') && !line.starts_with("--"));
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        std::fs::write(fixture("schema-1.sql"), lines.join("\n") + "\n").unwrap();
    });
}

/// One call that waits for an approval, one that was interrupted and waits to be settled, and one
/// that is over.
async fn leave_behind(store: &Store) {
    let mut asked = Session::create(store, "acme").await;
    asked.propose(&charge()).await;
    asked.keep_snapshot().await;
    let mut doubtful = Session::create(store, "acme").await;
    let unsafe_tool = tool("send_mail", |definition| {
        let mutates = Some(Mutates::Irreversible);
        definition.facets = Facets { mutates, ..Facets::default() };
        definition.gate = Gate::Auto;
    });
    doubtful.propose(&unsafe_tool).await;
    doubtful.input(Input::Revived).await.unwrap();
    let mut over = Session::create(store, "acme").await;
    let call = over.propose(&charge()).await;
    over.input(approval(call, ann())).await.unwrap();
    over.finish(call, ok("charged")).await;
}

#[test]
fn a_file_of_the_first_schema_opens_and_what_waits_in_it_can_be_answered() {
    let directory = Directory::new();
    std::fs::copy(fixture("schema-1.db"), directory.database()).unwrap();
    runtime().block_on(async {
        answer_everything(&Store::open_sqlite(directory.path()).unwrap()).await;
    });
}

#[test]
fn a_database_of_the_first_schema_opens_and_what_waits_in_it_can_be_answered() {
    on_postgres(async |schema| {
        let dump = std::fs::read_to_string(fixture("schema-1.sql")).unwrap();
        schema.run(&format!("DROP SCHEMA {}", schema.name())).await;
        schema.run(&dump.replace(SCHEMA, schema.name())).await;
        answer_everything(&Store::connect_postgres(schema.url()).await.unwrap()).await;
    });
}

async fn answer_everything(store: &Store) {
    let waiting = store.pending(&PendingFilter::default(), &Page::first(10)).await.unwrap();
    let mut kinds: Vec<_> = waiting.iter().map(|pending| pending.kind).collect();
    kinds.sort_by_key(|kind| *kind == SuspensionKind::Settlement);
    assert_eq!(kinds, [SuspensionKind::Approval, SuspensionKind::Settlement]);
    for pending in &waiting {
        let mut session = Session::load(store, pending.session, START).await;
        let answer = match pending.kind {
            SuspensionKind::Settlement => crate::driver::happened(pending.call, ann()),
            _ => approval(pending.call, ann()),
        };
        session.input_anywhere(answer).await.unwrap();
        session.input(Input::Woken).await.unwrap();
        if pending.kind == SuspensionKind::Approval {
            session.finish(pending.call, ok("charged")).await;
        }
        let stored = store.call(pending.session, pending.call).await.unwrap().unwrap();
        assert_eq!(stored.stage, CallStage::Settled);
    }
    let all = store.sessions(&SessionFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!(all.len(), 3);
    for session in all {
        store.verify(session.session).await.unwrap();
    }
}
