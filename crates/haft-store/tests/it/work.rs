//! Deadlines, retries and wakes: nothing that is due is lost, and nothing comes early.

use haft_core::Millis;
use haft_core::session::{DecidedKind, Input, RetryDue};
use haft_core::tool::{Gate, Idempotency, Mutates, Retry, ToolSpec};
use haft_store::{CallStage, Due, DueWork, FoundCall, Moment, Tenant, Wake};

use crate::backing::on_every_store;
use crate::driver::{
    HOUR, START, Session, ann, approval, busy, charge, expiry, node, ok, read, tool,
};

const HOLD: Millis = Millis(5_000);

// D5, S4-27: the deadline belongs to the store; that every process was dead when it came changes
// nothing.
#[test]
fn d5_a_deadline_that_passed_while_every_process_was_dead_is_found() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&charge()).await;
        let deadline = store.next_due().await.unwrap().unwrap();
        let early = Moment::At(haft_core::Timestamp::from_ms(deadline.ms() - 1));
        assert_eq!(store.claim_due(&node("a"), early, HOLD, 10).await.unwrap(), []);
        let id = session.id;
        drop((session, store));

        let store = backing.open().await;
        let later = START + Millis::from_secs(30 * 24 * 3600);
        let work = DueWork::Expiry { round: 1 };
        let due = Due { session: id, call, work, due_at: deadline };
        assert_eq!(store.claim_due(&node("a"), Moment::At(later), HOLD, 10).await.unwrap(), [due]);
        let mut session = Session::load(&store, id, later).await;
        session.input_anywhere(expiry(call, 1)).await.unwrap();
        let wake = Wake { session: id, seq: session.head.seq };
        let a = node("a");
        assert_eq!(store.claim_wakes(&a, Moment::At(later), HOLD, 10).await.unwrap(), [wake]);

        let stored = store.call(id, call).await.unwrap().unwrap();
        assert_eq!(stored.stage, CallStage::Settled);
        assert_eq!(stored.decided.as_ref().unwrap().kind, DecidedKind::Expired);
        let (acme, other) = (Tenant::new("acme").unwrap(), Tenant::new("other").unwrap());
        let found = store.calls_between(&acme, call..=call, 10).await.unwrap();
        assert_eq!(found, [FoundCall { session: id, call, known: stored }]);
        assert_eq!(store.calls_between(&other, call..=call, 10).await.unwrap(), []);
        assert_eq!(store.next_due().await.unwrap(), None);
        assert_eq!(
            store.claim_due(&node("a"), Moment::At(later + HOUR), HOLD, 10).await.unwrap(),
            []
        );
    });
}

// S4-27: a wait that someone ended is not due any more.
#[test]
fn s4_27_a_resolution_takes_the_deadline_away() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&charge()).await;
        session.input_anywhere(approval(call, ann())).await.unwrap();
        assert_eq!(store.next_due().await.unwrap(), None);
        let later = Moment::At(START + Millis::from_secs(30 * 24 * 3600));
        assert_eq!(store.claim_due(&node("a"), later, HOLD, 10).await.unwrap(), []);
    });
}

#[test]
fn what_is_due_is_handed_to_one_and_found_again_when_nothing_came_of_it() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        for _ in 0..20 {
            Session::create(&store, "acme").await.propose(&charge()).await;
        }
        let later = START + Millis::from_secs(30 * 24 * 3600);
        let (a, b) = (node("a"), node("b"));
        let (one, two) = tokio::join!(
            store.claim_due(&a, Moment::At(later), HOLD, 12),
            other.claim_due(&b, Moment::At(later), HOLD, 12),
        );
        let mut both = [one.unwrap(), two.unwrap()].concat();
        both.sort();
        let n_claims = both.len();
        both.dedup();
        assert_eq!(both.len(), n_claims, "nothing is handed out twice");
        let rest = store.claim_due(&node("a"), Moment::At(later), HOLD, 100).await.unwrap();
        assert_eq!(n_claims + rest.len(), 20);
        assert_eq!(store.claim_due(&node("a"), Moment::At(later), HOLD, 100).await.unwrap(), []);
        let lapsed = Moment::At(later + HOLD);
        assert_eq!(store.claim_due(&node("a"), lapsed, HOLD, 100).await.unwrap().len(), 20);
    });
}

pub(crate) fn flaky() -> ToolSpec {
    tool("fetch_page", |definition| {
        definition.facets.mutates = Some(Mutates::Irreversible);
        definition.facets.idempotency = Some(Idempotency::Keyed);
        definition.gate = Gate::Auto;
        definition.retry = Retry { max_attempts: 3, ..Retry::default() };
    })
}

#[test]
fn a_retry_is_due_when_scheduled_and_over_when_started() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&flaky()).await;
        session.finish(call, busy()).await;
        let due_at = store.next_due().await.unwrap().unwrap();
        let due = Due { session: session.id, call, work: DueWork::Retry, due_at };
        assert_eq!(store.claim_due(&node("a"), Moment::At(START), HOLD, 10).await.unwrap(), []);
        assert_eq!(store.claim_due(&node("a"), Moment::At(due_at), HOLD, 10).await.unwrap(), [due]);
        session.now = due_at;
        session.input(Input::RetryDue(RetryDue { call })).await.unwrap();
        assert_eq!(store.next_due().await.unwrap(), None);
        let stored = store.call(session.id, call).await.unwrap().unwrap();
        assert_eq!(stored.stage, CallStage::Running);
    });
}

// A retry is its owner's as long as that lives; whoever else claimed it could do nothing with it
// and would only keep it from the owner.
#[test]
fn a_due_retry_goes_to_the_owner_as_long_as_it_lives() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, Moment::At(START), HOUR).await.unwrap();
        let mut session = Session::create_owned(&store, "acme", Some(a.clone())).await;
        let call = session.propose(&flaky()).await;
        session.finish(call, busy()).await;
        let due_at = store.next_due().await.unwrap().unwrap();
        let due = Due { session: session.id, call, work: DueWork::Retry, due_at };
        assert_eq!(store.claim_due(&b, Moment::At(due_at), HOLD, 10).await.unwrap(), []);
        assert_eq!(store.claim_due(&a, Moment::At(due_at), HOLD, 10).await.unwrap(), [due]);
        let dead = Moment::At(START + HOUR);
        assert_eq!(store.claim_due(&b, dead, HOLD, 10).await.unwrap(), [due], "a died");
    });
}

// S4-22: whoever answers a session that nobody runs leaves a wake, and it stays until someone
// has dealt with it.
#[test]
fn s4_22_a_wake_is_never_lost() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        let mut session = Session::create(&store, "acme").await;
        let calls = session.propose_all(&[&charge(), &charge()]).await;
        session.input_anywhere(approval(calls[0], ann())).await.unwrap();
        let at = |ms| Moment::At(START + Millis(ms));
        let first = Wake { session: session.id, seq: session.head.seq };
        assert_eq!(store.claim_wakes(&a, at(0), HOLD, 10).await.unwrap(), [first]);
        assert_eq!(store.claim_wakes(&b, at(0), HOLD, 10).await.unwrap(), [], "a holds it");
        assert_eq!(store.claim_wakes(&b, at(5_000), HOLD, 10).await.unwrap(), [first], "a died");

        session.input_anywhere(approval(calls[1], ann())).await.unwrap();
        let second = Wake { session: session.id, seq: session.head.seq };
        store.finish_wake(first).await.unwrap();
        assert_eq!(
            store.claim_wakes(&a, at(5_000), HOLD, 10).await.unwrap(),
            [second],
            "what came later is not finished along with the first"
        );
        store.finish_wake(second).await.unwrap();
        assert_eq!(store.claim_wakes(&a, at(60_000), HOLD, 10).await.unwrap(), []);
        store.wake(session.id).await.unwrap();
        assert_eq!(store.claim_wakes(&a, at(60_000), HOLD, 10).await.unwrap().len(), 1);
    });
}

#[test]
fn a_wake_goes_to_the_owner_as_long_as_it_lives() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, Moment::At(START), Millis(10_000)).await.unwrap();
        let mut session = Session::create_owned(&store, "acme", Some(a.clone())).await;
        let call = session.propose(&charge()).await;
        session.input_anywhere(approval(call, ann())).await.unwrap();
        let at = |ms| Moment::At(START + Millis(ms));
        assert_eq!(store.claim_wakes(&b, at(0), HOLD, 10).await.unwrap(), []);
        assert_eq!(store.claim_wakes(&a, at(0), HOLD, 10).await.unwrap().len(), 1);
        assert_eq!(store.claim_wakes(&b, at(10_000), HOLD, 10).await.unwrap().len(), 1);
    });
}

// A wake that one node writes reaches another without a look at the clock; the test would hang,
// not fail, if only the poll found it, so it counts on the hint coming within the poll's second.
#[test]
fn a_hint_follows_a_wake() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&charge()).await;
        let mut changes = other.changes();
        session.input_anywhere(approval(call, ann())).await.unwrap();
        changes.changed().await;
        let wakes = other.claim_wakes(&node("b"), Moment::At(START), HOLD, 10).await.unwrap();
        assert_eq!(wakes.len(), 1);
    });
}

// The store's own clock serves where no moment is given.
#[test]
fn the_clock_of_the_store_serves_leases_and_deadlines() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let a = node("a");
        let until = store.heartbeat(&a, Moment::Clock, HOUR).await.unwrap();
        assert!(until > START + HOUR, "{until}");
        let mut session = Session::create_owned(&store, "acme", Some(a)).await;
        let call = session.propose(&charge()).await;
        let held = store.acquire(session.id, &node("b"), Moment::Clock).await;
        assert!(held.is_err());
        let due = store.claim_due(&node("a"), Moment::Clock, HOLD, 10).await.unwrap();
        assert_eq!(due.len(), 1, "2023 is over");
        session.input(approval(call, ann())).await.unwrap();
        session.finish(call, ok("charged")).await;
        session.propose(&read()).await;
    });
}

// Both stores say alike that there is nothing to look at.
#[test]
fn a_wake_of_an_unknown_session_is_refused_and_says_so() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let nobody = haft_core::SessionId::from_bits(crate::driver::fresh());
        let error = store.wake(nobody).await.unwrap_err();
        assert_eq!(error.kind(), haft_store::ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&nobody.to_string()), "{error}");
        let wakes = store.claim_wakes(&node("a"), Moment::At(START), HOLD, 10).await.unwrap();
        assert_eq!(wakes, []);
    });
}
