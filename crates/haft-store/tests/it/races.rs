//! Races: whoever comes second is told so, every time.

use haft_core::session::{DecidedKind, Refusal, Stale};
use haft_store::{AppendError, CallStage, Fence};

use crate::backing::on_every_store;
use crate::driver::{Failed, START, Session, approval, charge, denial, proposal, read, user};

const ROUNDS: usize = 25;
const RIVALS: usize = 8;

#[test]
fn of_many_appends_upon_one_head_exactly_one_goes_through() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..ROUNDS {
            let mut rivals = Vec::new();
            for rival in 0..RIVALS {
                let mut rival_session = session.clone();
                rival_session.store = if rival % 2 == 0 { store.clone() } else { other.clone() };
                rivals.push(tokio::spawn(async move {
                    let (_, input) = proposal(&read());
                    rival_session.input(input).await
                }));
            }
            let mut won = 0;
            for rival in rivals {
                match rival.await.unwrap() {
                    Ok(()) => won += 1,
                    Err(Failed::Append(AppendError::HeadMoved { .. })) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert_eq!(won, 1);
            session.reload().await;
            let call = session.state.as_open().unwrap().calls().next().unwrap().id;
            session.finish(call, crate::driver::ok("sunny")).await;
        }
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

// D6, S4-20, S4-30: of all who resolve one call at the same moment, on whatever node, one is
// told yes and the others who was first.
#[test]
fn d6_of_many_who_resolve_one_call_one_wins_and_the_others_are_told_who() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        for round in 0..ROUNDS {
            let mut session = Session::create(&store, "acme").await;
            let call = session.propose(&charge()).await;
            let mut rivals = Vec::new();
            for rival in 0..RIVALS {
                let store = if rival % 2 == 0 { store.clone() } else { other.clone() };
                let id = session.id;
                rivals.push(tokio::spawn(async move {
                    let name = format!("user-{rival}");
                    let verdict = resolve(&store, id, call, &name, rival % 3 == 0).await;
                    (name, verdict)
                }));
            }
            let mut verdicts = Vec::new();
            for rival in rivals {
                verdicts.push(rival.await.unwrap());
            }
            let won: Vec<_> = verdicts
                .iter()
                .filter(|(_, verdict)| verdict.is_ok())
                .map(|(name, _)| name)
                .collect();
            assert_eq!(won.len(), 1, "round {round}: {verdicts:?}");
            for (_, verdict) in verdicts.iter().filter(|(_, verdict)| verdict.is_err()) {
                let Err(Refusal::Stale(Stale::Decided { by, at, .. })) = verdict else {
                    panic!("round {round}: {verdict:?}")
                };
                assert_eq!((by.id.as_str(), *at), (won[0].as_str(), START));
            }
            let stored = store.call(session.id, call).await.unwrap().unwrap();
            assert_eq!(stored.decided.unwrap().by.id.as_str(), won[0]);
        }
    });
}

/// Resolves as a node does that owns nothing: load, decide, append, and again when it was beaten.
async fn resolve(
    store: &haft_store::Store,
    id: haft_core::SessionId,
    call: haft_core::CallId,
    name: &str,
    deny: bool,
) -> Result<(), Refusal> {
    for _ in 0..20 {
        let mut session = Session::load(store, id, START).await;
        let input = if deny { denial(call, user(name)) } else { approval(call, user(name)) };
        match session.input_anywhere(input).await {
            Ok(()) => return Ok(()),
            Err(Failed::Append(AppendError::HeadMoved { .. })) => {}
            Err(Failed::Append(error)) => panic!("{error}"),
            Err(Failed::Refused(refusal)) => return Err(refusal),
        }
    }
    panic!("beaten twenty times over one call")
}

// S4-20: the store knows too, when the state has long forgotten the call.
#[test]
fn s4_20_a_late_resolver_of_an_earlier_turn_is_told_who_decided_and_when() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&charge()).await;
        session.input(denial(call, user("bob"))).await.unwrap();
        session.propose(&charge()).await;

        let late = session.input_anywhere(approval(call, user("ann"))).await;
        assert!(matches!(late, Err(Failed::Refused(Refusal::Stale(Stale::Decided { .. })))));
        let stored = store.call(session.id, call).await.unwrap().unwrap();
        assert_eq!(stored.stage, CallStage::Settled);
        assert_eq!(stored.class, Some(haft_core::ErrorClass::Denied));
        let decided = stored.decided.unwrap();
        assert_eq!((decided.by, decided.kind), (user("bob"), DecidedKind::Deny));
        assert_eq!(decided.at, START);
        let nobody = haft_core::CallId::from_bits(crate::driver::fresh());
        assert_eq!(store.call(session.id, nobody).await.unwrap(), None);
    });
}

// D7: the same call id in two sessions is two calls.
#[test]
fn d7_one_call_id_in_two_sessions_is_two_calls() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut one = Session::create(&store, "acme").await;
        let mut two = Session::create(&store, "acme").await;
        let (call, input) = proposal(&charge());
        one.input(input.clone()).await.unwrap();
        two.input(input).await.unwrap();
        one.input(denial(call, user("bob"))).await.unwrap();
        let stage =
            async |session: &Session| store.call(session.id, call).await.unwrap().unwrap().stage;
        assert_eq!(stage(&one).await, CallStage::Settled);
        assert_eq!(stage(&two).await, CallStage::Waiting);
    });
}

// Many sessions share commits; each gets its own verdict.
#[test]
fn a_refused_append_does_not_disturb_those_that_share_its_commit() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut tasks = Vec::new();
        for number in 0..64 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let mut session = Session::create(&store, "acme").await;
                for _ in 0..5 {
                    if number % 4 == 0 {
                        let wrong = Fence::Owner { epoch: 77 };
                        let append = session.append_of(wrong, vec![]);
                        let fenced = AppendError::Fenced { current: 0 };
                        assert_eq!(store.append(&append).await, Err(fenced));
                    }
                    let call = session.propose(&read()).await;
                    session.finish(call, crate::driver::ok("sunny")).await;
                }
                (session.id, session.head)
            }));
        }
        for task in tasks {
            let (id, head) = task.await.unwrap();
            assert_eq!(store.verify(id).await, Ok(head));
        }
    });
}
