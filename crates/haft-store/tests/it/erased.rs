//! Sessions that are erased, and what is kept of them.

use haft_core::session::{Agent, Config, Driver, Ended, Input, Reconfigured};
use haft_core::{Actor, ArtifactId, ArtifactRef, Millis, SessionId};
use haft_store::{
    EraseError, ErasureRequest, Expected, NewArtifact, Page, Place, Put, SessionFilter, Store,
    Tenant, VerifyError, Which,
};

use crate::backing::{Backing, Directory, on_every_store, runtime, tamper_sqlite};
use crate::driver::{START, Session, ann, charge, fresh, ok, read, user};

fn tenant() -> Tenant {
    Tenant::new("acme").unwrap()
}

fn request(session: SessionId, by: Actor) -> ErasureRequest {
    ErasureRequest { session, tenant: tenant(), by, at: START }
}

async fn end(session: &mut Session) {
    session.input(Input::Ended(Ended { by: ann(), note: None })).await.unwrap();
}

async fn put(store: &Store, space: &str, key: &str, body: &str) {
    let place = Place::new(tenant(), space, key).unwrap();
    let put = Put { place, expected: Expected::Anything, body: Some(body.into()) };
    store.put_versions(vec![put], &ann(), START).await.unwrap();
}

async fn read_back(store: &Store, space: &str, key: &str) -> Option<Vec<u8>> {
    let place = Place::new(tenant(), space, key).unwrap();
    store.version(&place, Which::Latest).await.unwrap().and_then(|version| version.body)
}

#[test]
fn an_erased_session_leaves_its_head_and_who_erased_it_in_a_chain_that_can_be_verified() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let mut session = Session::create(&store, "acme").await;
            let call = session.propose(&read()).await;
            session.finish(call, ok("said")).await;
            let (id, call) = (session.id.to_string(), call.to_string());
            put(&store, "desk", &id, "of the session").await;
            put(&store, "seals", &call, "of the call").await;
            put(&store, "questions", &format!("{call}.name"), "of the question").await;
            put(&store, "notes", "shared", "of nobody").await;
            sessions.push((session, id, call));
        }
        let waits = sessions[0].0.id;
        let refused = store.erase_session(&request(waits, ann()), START).await;
        assert_eq!(refused, Err(EraseError::NotEnded));
        let mut kept = Vec::new();
        for (session, id, call) in sessions.iter_mut().take(2) {
            store.request_erasure(&request(session.id, ann())).await.unwrap();
            end(session).await;
            let head = store.verify(session.id).await.unwrap();
            let erased = store.erase_session(&request(session.id, user("bob")), START).await;
            let erased = erased.unwrap();
            assert_eq!((erased.head, &erased.by), (head, &user("bob")));
            assert!(store.load(session.id).await.unwrap().is_none());
            assert!(store.entries(session.id, 0, 9).await.unwrap().is_empty());
            for (space, key) in
                [("desk", &*id), ("seals", call), ("questions", &format!("{call}.name"))]
            {
                assert_eq!(read_back(&store, space, key).await, None, "{space}");
            }
            let again = store.erase_session(&request(session.id, ann()), START + Millis(9)).await;
            assert_eq!(again, Ok(erased.clone()), "it is erased once");
            kept.push(erased);
        }
        assert!(store.erasure_requests(9).await.unwrap().is_empty());
        assert_eq!(read_back(&store, "notes", "shared").await.as_deref(), Some(&b"of nobody"[..]));
        let left = store.sessions(&SessionFilter::default(), &Page::first(9)).await.unwrap();
        assert_eq!(left.iter().map(|row| row.session).collect::<Vec<_>>(), [sessions[2].0.id]);
        assert!(store.verify(sessions[2].0.id).await.is_ok(), "the others are whole");
        assert_eq!(store.erasures(&Page::first(9)).await.unwrap(), kept);
        assert_eq!(store.verify_erasures().await.unwrap().seq, 2);
        backing.tamper("UPDATE erasures SET head_seq = head_seq + 1 WHERE number = 1").await;
        let found = store.verify_erasures().await;
        assert_eq!(found, Err(VerifyError::Erasure { number: 1 }));
        backing.tamper("DELETE FROM erasures WHERE number = 1").await;
        let found = store.verify_erasures().await;
        assert_eq!(found, Err(VerifyError::Erasure { number: 1 }));
    });
}

#[test]
fn what_does_nothing_for_long_is_found_and_what_waits_is_not() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut rests = Session::create(&store, "acme").await;
        let call = rests.propose(&read()).await;
        rests.finish(call, ok("")).await;
        let mut waits = Session::create(&store, "acme").await;
        waits.propose(&charge()).await;
        let child = Session::create_child(&store, Config::default(), rests.id).await;
        let later = START + Millis::from_secs(3600);
        let found = store.at_rest_since(later, &Page::first(9)).await.unwrap();
        assert_eq!(found.iter().map(|row| row.session).collect::<Vec<_>>(), [rests.id], "{child}");
        assert!(store.at_rest_since(START, &Page::first(9)).await.unwrap().is_empty());
        let after = store.at_rest_since(later, &Page::after(rests.id, 9)).await.unwrap();
        assert!(after.is_empty());
    });
}

/// How a session behaves that was told something, which every snapshot of it holds.
fn told(instructions: &str) -> Config {
    let (id, model) = ("agent_1".to_owned(), "none".to_owned());
    let instructions = Some(instructions.to_owned());
    let agent = Some(Agent { id, version: 1, model, instructions, environment: None });
    Config { driver: Driver::Caller, agent, ..Config::default() }
}

/// How often any file of a store holds a text.
fn holds(directory: &Directory, text: &str) -> usize {
    let files = std::fs::read_dir(directory.path()).unwrap();
    let count = |bytes: Vec<u8>| {
        bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    };
    files.map(|file| count(std::fs::read(file.unwrap().path()).unwrap())).sum()
}

// Not even someone with the files reads what was said in a session that was erased, also if others
// were at work beside it and its snapshots were replaced many times.
#[test]
fn what_was_said_in_an_erased_session_is_in_no_file_of_the_store() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut sessions = Vec::new();
        for _ in 0..12 {
            sessions.push(Session::create_with(&store, "acme", told("nothing yet")).await);
        }
        for round in 0..30_usize {
            for (n, session) in sessions.iter_mut().enumerate() {
                let canary = format!("CANARY-{n}-");
                let filler = "x".repeat((round * 97 + n * 53) % 3_000);
                let config = told(&format!("{canary}{round} {filler}"));
                let by = ann();
                let changed = Input::Reconfigured(Reconfigured { config, by });
                session.input(changed).await.unwrap();
                let call = session.propose(&read()).await;
                session.finish(call, ok(&format!("{canary}result {filler}"))).await;
                session.keep_snapshot().await;
                let large = format!("{canary}{round} {}", filler.repeat(20));
                put(&store, "desk", &session.id.to_string(), &large).await;
                let (id, media_type) = (ArtifactId::from_bits(fresh()), "text/plain".to_owned());
                let reference = ArtifactRef { id, media_type, bytes: 0, title: None };
                let at = START;
                let new =
                    NewArtifact { reference, tenant: tenant(), session: Some(session.id), at };
                store.put_artifact(&new, large.into_bytes()).await.unwrap();
            }
        }
        for n in [3, 4, 7, 0, 11, 5] {
            assert!(holds(&directory, &format!("CANARY-{n}-")) > 0);
            end(&mut sessions[n]).await;
            store.erase_session(&request(sessions[n].id, ann()), START).await.unwrap();
            assert_eq!(holds(&directory, &format!("CANARY-{n}-")), 0, "session {n}");
        }
        for n in [1, 2, 6, 8, 9, 10] {
            assert!(store.verify(sessions[n].id).await.is_ok());
            assert!(store.load(sessions[n].id).await.unwrap().is_some());
        }
        assert_eq!(store.verify_erasures().await.unwrap().seq, 6);
    });
}

// A row in the middle that nobody can read must not keep what is around it.
#[test]
fn a_damaged_log_is_erased_whole() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut other = Session::create(&store, "acme").await;
        other.propose(&charge()).await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..3 {
            let call = session.propose(&read()).await;
            session.finish(call, ok("CANARY")).await;
        }
        end(&mut session).await;
        // Invalid as text, so that the row cannot be read.
        let sql = "UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE place = (
                     SELECT place FROM events WHERE instr(body, 'CANARY') > 0 LIMIT 1 OFFSET 1)";
        tamper_sqlite(&directory, sql);
        assert!(store.verify(session.id).await.is_err());
        store.erase_session(&request(session.id, ann()), START).await.unwrap();
        let backing = Backing::Sqlite(directory);
        let left = "SELECT count(*) FROM events WHERE instr(body, 'CANARY') > 0
                      OR (body <> '' AND session NOT IN (SELECT key FROM sessions))";
        assert_eq!(backing.count(left).await, 0, "nothing of it is left");
        assert_eq!(backing.count("SELECT count(*) FROM calls").await, 1, "the other one's");
        assert!(store.verify(other.id).await.is_ok());
        assert_eq!(store.verify_erasures().await.unwrap().seq, 1);
    });
}

// The copy is as of one moment while others write, and can be opened like any other.
#[test]
fn a_copy_that_is_made_while_others_write_is_whole() {
    runtime().block_on(async {
        let directory = Directory::new();
        let elsewhere = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut first = Session::create(&store, "acme").await;
        let call = first.propose(&charge()).await;
        let writing = tokio::spawn({
            let store = store.clone();
            async move {
                for _ in 0..200 {
                    let mut session = Session::create(&store, "acme").await;
                    let call = session.propose(&read()).await;
                    session.finish(call, ok("")).await;
                }
            }
        });
        store.copy_to(&elsewhere.database()).await.unwrap();
        writing.await.unwrap();
        let copy = Store::open_sqlite(elsewhere.path()).unwrap();
        let loaded = copy.load(first.id).await.unwrap().unwrap();
        assert!(loaded.state.as_open().unwrap().call(call).is_some());
        let page = Page::first(500);
        for row in copy.sessions(&SessionFilter::default(), &page).await.unwrap() {
            copy.verify(row.session).await.unwrap();
        }
        let left_over = directory.path().join(format!("haft.db{}0", haft_store::COPY_MARK));
        std::fs::write(&left_over, "of a process that was killed").unwrap();
        drop(store);
        drop(first);
        drop(Store::open_sqlite(directory.path()).unwrap());
        assert!(!left_over.exists(), "it may hold what was erased since");
    });
}
