//! Who may append: leases, epochs, and what becomes of a node that died.

use haft_core::Millis;
use haft_store::{AcquireError, AppendError, Attendance, ClientNote, Fence, Moment};

use crate::backing::on_every_store;
use crate::driver::{Failed, START, Session, ann, approval, charge, node, ok, read};

const TTL: Millis = Millis(10_000);

// D13: whoever held a lease and died does not block the next.
#[test]
fn d13_a_session_of_a_dead_node_is_taken_over_and_the_dead_node_is_fenced() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, Moment::At(START), TTL).await.unwrap();
        let mut old = Session::create_owned(&store, "acme", Some(a.clone())).await;
        let call = old.propose(&read()).await;

        let soon = Moment::At(START + Millis(9_999));
        let held = store.acquire(old.id, &b, soon).await;
        assert_eq!(held, Err(AcquireError::Held { owner: a }));

        let other = backing.beside(&store).await;
        let late = Moment::At(START + Millis(10_000));
        let lease = other.acquire(old.id, &b, late).await.unwrap();
        assert_eq!(lease.epoch, old.epoch + 1);
        let mut new = Session::load(&other, old.id, START).await;
        new.epoch = lease.epoch;
        new.finish(call, ok("sunny")).await;

        let (_, input) = crate::driver::proposal(&charge());
        let fenced = Err(Failed::Append(AppendError::Fenced { current: lease.epoch }));
        old.reload().await;
        assert_eq!(old.input(input).await, fenced, "the old owner comes back");
    });
}

#[test]
fn a_node_that_starts_again_fences_what_it_left_running() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let a = node("a");
        store.heartbeat(&a, Moment::At(START), TTL).await.unwrap();
        let session = Session::create_owned(&store, "acme", Some(a.clone())).await;
        let lease = store.acquire(session.id, &a, Moment::At(START)).await.unwrap();
        assert_eq!(lease.epoch, session.epoch + 1);
        let old = session.append_of(Fence::Owner { epoch: session.epoch }, vec![]);
        let fenced = AppendError::Fenced { current: lease.epoch };
        assert_eq!(store.append(&old).await, Err(fenced));
    });
}

#[test]
fn a_session_given_back_is_free_and_a_lease_taken_over_is_not_given_back() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        for node in [&a, &b] {
            store.heartbeat(node, Moment::At(START), TTL).await.unwrap();
        }
        let id = Session::create(&store, "acme").await.id;
        let first = store.acquire(id, &a, Moment::At(START)).await.unwrap();
        store.release(&first, None).await.unwrap();
        let second = store.acquire(id, &b, Moment::At(START)).await.unwrap();
        assert_eq!(second.epoch, first.epoch + 1);

        store.release(&first, None).await.unwrap();
        let held = store.acquire(id, &a, Moment::At(START)).await;
        assert_eq!(held, Err(AcquireError::Held { owner: b.clone() }));

        store.retire(&b).await.unwrap();
        let third = store.acquire(id, &a, Moment::At(START)).await.unwrap();
        assert_eq!(third.epoch, second.epoch + 1);
        let nobody = haft_core::SessionId::from_bits(crate::driver::fresh());
        let unknown = store.acquire(nobody, &a, Moment::At(START)).await;
        assert_eq!(unknown, Err(AcquireError::UnknownSession));
    });
}

#[test]
fn a_node_that_died_a_day_ago_is_forgotten_unless_it_left_something_behind() {
    const N_NODES: &str = "SELECT count(*) FROM nodes";
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (idle, owner, host, alive) = (node("idle"), node("owner"), node("host"), node("alive"));
        for node in [&idle, &owner, &host] {
            store.heartbeat(node, Moment::At(START), TTL).await.unwrap();
        }
        let session = Session::create_owned(&store, "acme", Some(owner)).await.id;
        let note = |attendance| vec![ClientNote { session, tool: "draw".to_owned(), attendance }];
        store.note_clients(&host, note(Attendance::Here), Moment::At(START)).await.unwrap();
        let day = |more: u64| Moment::At(START + TTL + Millis(86_400_000 + more));
        store.heartbeat(&alive, day(0), TTL).await.unwrap();
        assert_eq!(backing.count(N_NODES).await, 4);
        store.heartbeat(&alive, day(1), TTL).await.unwrap();
        assert_eq!(backing.count(N_NODES).await, 3, "of the one there is nothing left");
        assert_eq!(store.owned_or_orphaned(&alive, day(1)).await.unwrap(), [session]);

        store.acquire(session, &alive, day(1)).await.unwrap();
        // The clients of a dead node are forgotten when some of another node are noted.
        store.note_clients(&alive, note(Attendance::Gone), day(1)).await.unwrap();
        store.heartbeat(&alive, day(2), TTL).await.unwrap();
        assert_eq!(backing.count(N_NODES).await, 1);
    });
}

// S4-22, S4-23: a resolution needs no owner; the owner learns of it and goes on.
#[test]
fn s4_22_a_resolution_lands_beside_the_owner_who_then_goes_on() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let a = node("a");
        store.heartbeat(&a, Moment::At(START), TTL).await.unwrap();
        let mut owner = Session::create_owned(&store, "acme", Some(a)).await;
        let call = owner.propose(&charge()).await;

        let elsewhere = backing.beside(&store).await;
        let mut resolver = Session::load(&elsewhere, owner.id, START).await;
        resolver.input_anywhere(approval(call, ann())).await.unwrap();

        let stale = owner.input(approval(call, ann())).await;
        let moved = AppendError::HeadMoved { current: resolver.head };
        assert_eq!(stale, Err(Failed::Append(moved)));

        owner.reload().await;
        owner.input(haft_core::session::Input::Woken).await.unwrap();
        owner.finish(call, ok("charged")).await;
        assert_eq!(elsewhere.load(owner.id).await.unwrap().unwrap().state, owner.state);
    });
}

// Whoever is refused is told of another node: "you own it" would be no reason to go away.
#[test]
fn a_session_that_changes_hands_all_the_time_is_never_said_to_be_held_by_who_asks() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        for node in [&a, &b] {
            store.heartbeat(node, Moment::At(START), TTL).await.unwrap();
        }
        let id = Session::create(&store, "acme").await.id;
        let other = backing.beside(&store).await;
        let holder = a.clone();
        let holding = tokio::spawn(async move {
            for _ in 0..300 {
                if let Ok(lease) = other.acquire(id, &holder, Moment::At(START)).await {
                    other.release(&lease, None).await.unwrap();
                }
            }
        });
        while !holding.is_finished() {
            match store.acquire(id, &b, Moment::At(START)).await {
                Ok(lease) => store.release(&lease, None).await.unwrap(),
                Err(refused) => assert_eq!(refused, AcquireError::Held { owner: a.clone() }),
            }
        }
        holding.await.unwrap();
    });
}
