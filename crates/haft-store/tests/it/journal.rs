//! What was appended is what is read: states, entries, hashes, snapshots.

use haft_core::journal::{JournalError, replay};
use haft_core::session::{Event, State};
use haft_store::{AppendError, CreateError, ErrorKind, Fence, NewSession, Tenant, VerifyError};

use crate::backing::{Backing, on_every_store};
use crate::driver::{Session, ann, approval, charge, fresh, ok, read};

// S4-33, S4-36: the log and the rows survive a restart, and loading gives the live state.
// S4-40: this case, as all of these, is written once and run on every store.
#[test]
fn s4_36_a_session_loads_as_it_was_left_also_after_a_restart() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let waiting = session.propose(&charge()).await;
        let (state, head, id) = (session.state.clone(), session.head, session.id);
        let loaded = store.load(id).await.unwrap().unwrap();
        assert_eq!((&loaded.state, loaded.head), (&state, head));
        drop((session, store));

        let store = backing.open().await;
        let mut session = Session::load(&store, id, crate::driver::START).await;
        assert_eq!((&session.state, session.head), (&state, head));
        session.input(approval(waiting, ann())).await.unwrap();
        session.finish(waiting, ok("charged")).await;
        assert_eq!(store.load(id).await.unwrap().unwrap().state, session.state);
    });
}

#[test]
fn a_session_is_created_once_and_an_unknown_one_is_told_from_an_empty_one() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let session = Session::create(&store, "acme").await;
        let tenant = Tenant::new("other").unwrap();
        let (events, owner) = (vec![], None);
        let again = NewSession {
            session: session.id,
            tenant,
            at: session.now,
            events,
            owner,
            request: None,
        };
        assert_eq!(store.create_session(&again).await, Err(CreateError::Exists));
        assert_eq!(store.load(session.id).await.unwrap().unwrap().tenant.as_str(), "acme");

        let nobody = haft_core::SessionId::from_bits(fresh());
        assert!(store.load(nobody).await.unwrap().is_none());
        assert_eq!(store.verify(nobody).await, Err(VerifyError::UnknownSession));
        let append =
            haft_store::Append { session: nobody, ..session.append_of(Fence::Anyone, vec![]) };
        assert_eq!(store.append(&append).await, Err(AppendError::UnknownSession));
    });
}

// Entries can be followed from any place, without gap or repetition.
#[test]
fn entries_are_read_in_order_from_any_place() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..5 {
            let call = session.propose(&read()).await;
            session.finish(call, ok("sunny")).await;
        }
        let whole = store.entries(session.id, 0, 1_000).await.unwrap();
        assert_eq!(whole.len() as u64, session.head.seq);
        let mut pieces = Vec::new();
        loop {
            let after = pieces.len() as u64;
            let piece = store.entries(session.id, after, 3).await.unwrap();
            if piece.is_empty() {
                break;
            }
            pieces.extend(piece);
        }
        assert_eq!(pieces, whole);
        assert_eq!(replay(State::Unopened, &whole).unwrap(), session.state);
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

// S4-36: the snapshot is a cache of the log; without it, or with one that this version cannot
// read, the log gives the same state.
#[test]
fn s4_36_snapshot_and_tail_give_what_the_whole_log_gives() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..20 {
            let call = session.propose(&read()).await;
            session.finish(call, ok("sunny")).await;
        }
        let whole = store.load(session.id).await.unwrap().unwrap();
        assert_eq!(whole.replayed, session.head.seq);
        session.keep_snapshot().await;
        session.propose(&charge()).await;

        let short = store.load(session.id).await.unwrap().unwrap();
        assert_eq!((&short.state, short.head), (&session.state, session.head));
        assert!(short.replayed < 10, "{} entries were replayed", short.replayed);

        for unusable in ["format = 999", "format = 1, body = '{}'"] {
            backing.tamper(&format!("UPDATE snapshots SET {unusable}")).await;
            let long = store.load(session.id).await.unwrap().unwrap();
            assert_eq!((&long.state, long.head), (&session.state, session.head));
            assert_eq!(long.replayed, session.head.seq);
        }
    });
}

// What someone changes behind the store's back is found, whichever way it is done.
#[test]
fn a_changed_missing_or_cut_entry_is_found() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..3 {
            let call = session.propose(&read()).await;
            session.finish(call, ok("sunny")).await;
        }
        let (id, last) = (session.id, session.head.seq);
        assert_eq!(store.verify(id).await, Ok(session.head));

        backing.tamper("UPDATE sessions SET head_seq = head_seq - 1").await;
        let lowered = VerifyError::Cut { expected: last - 1, found: last };
        assert_eq!(store.verify(id).await, Err(lowered));
        backing.tamper("UPDATE sessions SET head_seq = head_seq + 1").await;

        backing.tamper(&format!("DELETE FROM events WHERE seq = {last}")).await;
        // SQLite keeps an append in one row, and the last one had two entries.
        let lost = if matches!(backing, Backing::Sqlite(_)) { 2 } else { 1 };
        let cut = VerifyError::Cut { expected: last, found: last - lost };
        assert_eq!(store.verify(id).await, Err(cut));

        backing.tamper("UPDATE events SET body = replace(body, 'Ann', 'Eve')").await;
        let changed = store.verify(id).await.unwrap_err();
        assert!(
            matches!(changed, VerifyError::Journal(JournalError::Changed { .. })),
            "{changed:?}"
        );
        let error = store.load(id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");

        backing.tamper("DELETE FROM events WHERE seq BETWEEN 2 AND 5").await;
        let missing = JournalError::OutOfPlace { expected: 2, found: 6 };
        assert_eq!(store.verify(id).await, Err(VerifyError::Journal(missing)));
    });
}

// A changed length moves what follows it, which is a change like any other.
#[test]
fn an_entry_that_was_made_longer_is_found() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        session.propose(&read()).await;
        backing.tamper("UPDATE events SET body = replace(body, 'Ann', 'Annabel')").await;
        let changed = store.verify(session.id).await.unwrap_err();
        assert!(
            matches!(changed, VerifyError::Journal(JournalError::Changed { .. })),
            "{changed:?}"
        );
    });
}

// A long log is read from marks on its way, and every place of it is between two of them.
#[test]
fn a_long_log_is_read_from_any_place() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        while session.head.seq < 400 {
            let call = session.propose(&read()).await;
            session.finish(call, ok("sunny")).await;
        }
        let whole = store.entries(session.id, 0, 1_000).await.unwrap();
        assert_eq!(whole.len() as u64, session.head.seq);
        for after in (0..whole.len()).step_by(7) {
            for limit in [1, 63, 64, 65, 1_000] {
                let expected = &whole[after..whole.len().min(after + limit as usize)];
                let read = store.entries(session.id, after as u64, limit).await.unwrap();
                assert_eq!(read, expected, "{limit} after {after}");
            }
        }
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

// The events are the caller's, the entries the store's: their order and their times are kept.
#[test]
fn an_append_keeps_the_order_of_its_events() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        session.propose(&read()).await;
        let entries = store.entries(session.id, 0, 100).await.unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.event().unwrap().name()).collect();
        let expected =
            ["session.opened", "turn.started", "call.proposed", "call.admitted", "call.started"];
        assert_eq!(names, expected);
        assert!(entries.iter().all(|entry| entry.at == session.now));
        assert!(matches!(entries[0].event(), Ok(Event::SessionOpened { .. })));
    });
}
