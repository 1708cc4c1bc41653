//! Requests that may be sent again: their writes are recorded along with what they write.

use haft_core::Digest;
use haft_core::session::{Ended, Input, accept};
use haft_store::{
    Append, AppendError, ErasureRequest, ErrorKind, Expected, Fence, Page, Place, Put, PutError,
    Request, RequestId, Step, Store, StoredRequest, Tenant, Which,
};

use crate::backing::on_every_store;
use crate::driver::{START, Session, fresh, user};

fn request() -> Request {
    Request::new(RequestId(fresh()), Digest::of_bytes(b"what was sent"), START)
}

async fn stored(store: &Store, request: &Request) -> Option<StoredRequest> {
    store.requests(request.id()..=request.id()).await.unwrap().pop()
}

fn place(key: &str) -> Place {
    Place::new(Tenant::new("acme").unwrap(), "agents", key).unwrap()
}

fn put(key: &str, expected: Expected, body: &str) -> Vec<Put> {
    vec![Put { place: place(key), expected, body: Some(body.as_bytes().to_vec()) }]
}

// E1: the record is in the transaction of the write: both are there, or neither.
#[test]
fn a_write_to_a_log_is_recorded_with_its_request_and_is_not_made_twice() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let session = Session::create(&store, "acme").await;
        let request = request();
        let Step::New(step) = request.step_in(session.id) else { panic!("nothing was done yet") };
        let ended = Input::Ended(Ended { by: user("ann"), note: None });
        let events = accept(&session.state, START, ended).unwrap().events;
        let append = |expected| Append {
            expected,
            request: Some(step.clone()),
            ..session.append_of(Fence::Anyone, events.clone())
        };
        assert_eq!(stored(&store, &request).await, None);
        let head = store.append(&append(session.head)).await.unwrap();
        // Another node, which knows the head and not that it was done.
        let other = backing.beside(&store).await;
        let again = other.append(&append(head)).await.unwrap_err();
        let AppendError::Store(error) = &again else { panic!("{again:?}") };
        assert_eq!(error.kind(), ErrorKind::Repeated, "{error}");
        assert_eq!(store.verify(session.id).await.unwrap(), head, "nothing was appended");
        let (id, before) = (session.id, session.head.seq);
        // It is closed with its last handle.
        drop((session, store, other));
        let store = backing.open().await;
        let known = stored(&store, &request).await.unwrap();
        assert_eq!(
            (known.digest, known.at, known.answer.is_none()),
            (request.digest(), START, true)
        );
        let again = Request::again(known);
        assert_eq!(again.log_before(id), Some(before));
        assert!(matches!(again.step_in(id), Step::Done(_)));
        assert!(matches!(again.step_in(id), Step::New(_)), "another write is another one");
    });
}

#[test]
fn versions_are_written_once_and_seen_as_they_were_by_whoever_comes_again() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let by = user("ann");
        let first = put("one", Expected::Absent, "before");
        store.put_versions(first, &by, START).await.unwrap();
        let request = request();
        let write = async |request: Request| {
            request
                .scope(async {
                    let seen = store.version(&place("one"), Which::Latest).await.unwrap().unwrap();
                    let expected = Expected::Version(seen.info.number);
                    let put = put("one", expected, "after");
                    let written = store.put_versions(put, &by, START).await;
                    let now = store.version(&place("one"), Which::Latest).await.unwrap().unwrap();
                    (seen.body.unwrap(), written.unwrap(), now.body.unwrap())
                })
                .await
        };
        let expected = (b"before".to_vec(), vec![2], b"after".to_vec());
        assert_eq!(write(request.clone()).await, expected);
        let known = stored(&store, &request).await.unwrap();
        assert_eq!(write(Request::again(known)).await, expected, "as the first time");
        let versions = store.versions(&place("one"), &Page::first(10)).await.unwrap();
        assert_eq!(versions.len(), 2, "{versions:?}");
        // A write that is refused leaves no record.
        let other = self::request();
        let moved = put("one", Expected::Version(1), "late");
        let moved = other.clone().scope(store.put_versions(moved, &by, START)).await;
        assert!(matches!(moved, Err(PutError::Moved { .. })), "{moved:?}");
        assert_eq!(stored(&store, &other).await, None);
    });
}

#[test]
fn the_first_answer_stays_and_is_forgotten_with_its_request() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (one, two) = (request(), request());
        let answers =
            vec![one.answered("first".to_owned(), START), two.answered("x".into(), START)];
        store.keep_answers(answers).await.unwrap();
        store.keep_answers(vec![one.answered("second".to_owned(), START)]).await.unwrap();
        let known = stored(&store, &one).await.unwrap();
        assert_eq!(known.answer, Some(("first".to_owned(), START)));
        assert_eq!(store.forget_requests(START, 10).await.unwrap(), 0, "not yet");
        let later = START + haft_core::Millis::from_secs(1);
        assert_eq!(store.forget_requests(later, 1).await.unwrap(), 1, "one at a time");
        assert_eq!(store.forget_requests(later, 10).await.unwrap(), 1);
        assert_eq!(stored(&store, &one).await, None);
        assert_eq!(store.request_salt().await.unwrap().len(), 32);
    });
}

// What was answered stays known when the answer goes with a session that it is about.
#[test]
fn an_erased_session_takes_the_answers_about_it_along_and_they_stay_answered() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let (about_it, other) = (request(), request());
        for (request, key) in [(&about_it, session.id.to_string()), (&other, "one".to_owned())] {
            let (put, by) = (put(&key, Expected::Absent, "beside it"), user("ann"));
            request.clone().scope(store.put_versions(put, &by, START)).await.unwrap();
        }
        let later = START + haft_core::Millis::from_secs(1);
        let answers = [&about_it, &other].map(|it| it.answered("what was said".to_owned(), later));
        store.keep_answers(answers.to_vec()).await.unwrap();
        let (by, tenant) = (user("ann"), Tenant::new("acme").unwrap());
        session.input(Input::Ended(Ended { by: by.clone(), note: None })).await.unwrap();
        let erasure = ErasureRequest { session: session.id, tenant, by, at: START };
        store.erase_session(&erasure, START).await.unwrap();
        let known = stored(&store, &about_it).await.unwrap();
        assert_eq!((known.answer, known.answered_at), (None, Some(later)));
        assert_eq!(known.steps.len(), 1, "that it was made is known");
        let known = stored(&store, &other).await.unwrap();
        assert_eq!(known.answer, Some(("what was said".to_owned(), later)));
    });
}

#[test]
fn ids_that_a_request_makes_are_the_same_in_every_run_and_of_no_other() {
    let one = request();
    let again = Request::new(one.id(), one.digest(), one.at());
    let ids: Vec<_> = (0..3).map(|_| one.next_id()).collect();
    assert_eq!(ids, (0..3).map(|_| again.next_id()).collect::<Vec<_>>());
    assert!(ids[0] != ids[1] && request().next_id() != ids[0]);
}
