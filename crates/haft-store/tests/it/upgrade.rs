//! A store that an older Haft wrote: it opens, and what waits in it can be answered.
//!
//! The file is one that the first schema wrote. A schema that has been released is never edited;
//! what changes comes as the next migration, which this test then puts to the proof. Until the
//! first release the file is written anew by `HAFT_WRITE_FIXTURE=1 cargo test -p haft-store
//! upgrade`.

#![expect(clippy::disallowed_methods, reason = "reads and writes a file of the repository")]

use std::path::PathBuf;

use haft_core::session::{Input, SuspensionKind};
use haft_core::tool::{Facets, Gate, Mutates};
use haft_store::{CallStage, Page, PendingFilter, SessionFilter, Store};

use crate::backing::{Directory, runtime};
use crate::driver::{START, Session, ann, approval, charge, ok, tool};

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1.db")
}

/// One call that waits for an approval, one that was interrupted and waits to be settled, and one
/// that is over.
#[test]
fn write_the_fixture_when_asked_to() {
    if std::env::var("HAFT_WRITE_FIXTURE").is_err() {
        return;
    }
    let directory = Directory::new();
    runtime().block_on(async {
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut asked = Session::create(&store, "acme").await;
        asked.propose(&charge()).await;
        asked.keep_snapshot().await;
        let mut doubtful = Session::create(&store, "acme").await;
        let unsafe_tool = tool("send_mail", |definition| {
            let mutates = Some(Mutates::Irreversible);
            definition.facets = Facets { mutates, ..Facets::default() };
            definition.gate = Gate::Auto;
        });
        doubtful.propose(&unsafe_tool).await;
        doubtful.input(Input::Revived).await.unwrap();
        let mut over = Session::create(&store, "acme").await;
        let call = over.propose(&charge()).await;
        over.input(approval(call, ann())).await.unwrap();
        over.finish(call, ok("charged")).await;
    });
    let connection = rusqlite::Connection::open(directory.database()).unwrap();
    drop(std::fs::remove_file(fixture()));
    // Small pages make a small file.
    connection.execute_batch("PRAGMA page_size = 512;").unwrap();
    connection.execute("VACUUM INTO ?1", [fixture().to_str().unwrap()]).unwrap();
}

#[test]
fn a_store_of_the_first_schema_opens_and_what_waits_in_it_can_be_answered() {
    let directory = Directory::new();
    std::fs::copy(fixture(), directory.database()).unwrap();
    runtime().block_on(async {
        let store = Store::open_sqlite(directory.path()).unwrap();
        let waiting = store.pending(&PendingFilter::default(), &Page::first(10)).await.unwrap();
        let mut kinds: Vec<_> = waiting.iter().map(|pending| pending.kind).collect();
        kinds.sort_by_key(|kind| *kind == SuspensionKind::Settlement);
        assert_eq!(kinds, [SuspensionKind::Approval, SuspensionKind::Settlement]);
        for pending in &waiting {
            let mut session = Session::load(&store, pending.session, START).await;
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
    });
}
