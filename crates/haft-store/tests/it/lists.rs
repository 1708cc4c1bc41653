//! The inbox and the list of sessions: filters, and pages that stay stable while things change.

use haft_core::session::{Agent, Config, Event, Input, SuspensionKind};
use haft_core::tool::{Executor, Facets, Gate, Mutates};
use haft_core::{Actor, ActorKind, Millis, SessionId};
use haft_store::{Page, PendingCursor, PendingFilter, SessionFilter, SessionStatus, Tenant};

use crate::backing::on_every_store;
use crate::driver::{START, Session, ann, charge, denial, read, tool, user};

// S4-16, S4-17: what is kept of a suspension is what a renderer needs, and it shows which kind.
#[test]
fn s4_17_the_inbox_shows_what_waits_by_deadline_tenant_and_kind() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let question = tool("ask_user", |definition| definition.executor = Executor::Human);
        let mut late = Session::create(&store, "acme").await;
        late.now = START + Millis(1_000);
        let asked = late.propose(&question).await;
        let mut early = Session::create(&store, "acme").await;
        let gated = early.propose(&charge()).await;
        let mut foreign = Session::create(&store, "umbrella").await;
        foreign.propose(&charge()).await;

        let acme = PendingFilter { tenant: Tenant::new("acme").ok(), ..PendingFilter::default() };
        let inbox = store.pending(&acme, &Page::first(10)).await.unwrap();
        let shown: Vec<_> =
            inbox.iter().map(|wait| (wait.call, wait.kind, wait.tool.as_str())).collect();
        let expected = [
            (gated, SuspensionKind::Approval, "charge_card"),
            (asked, SuspensionKind::Elicitation, "ask_user"),
        ];
        assert_eq!(shown, expected);
        assert_eq!((inbox[0].since, inbox[0].round), (START, 1));

        let kind = Some(SuspensionKind::Elicitation);
        let asked_only = PendingFilter { kind, ..acme };
        assert_eq!(store.pending(&asked_only, &Page::first(10)).await.unwrap().len(), 1);
        let session = Some(foreign.id);
        let of_session = PendingFilter { session, ..PendingFilter::default() };
        assert_eq!(store.pending(&of_session, &Page::first(10)).await.unwrap().len(), 1);
        assert_eq!(
            store.pending(&PendingFilter::default(), &Page::first(10)).await.unwrap().len(),
            3
        );
    });
}

#[test]
fn pages_of_the_inbox_neither_repeat_nor_hide_anything_while_it_changes() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut sessions = Vec::new();
        for number in 0..30u64 {
            let mut session = Session::create(&store, "acme").await;
            // Several share a deadline.
            session.now = START + Millis(number / 3 * 1_000);
            let call = session.propose(&charge()).await;
            sessions.push((session, call));
        }
        let mut seen = Vec::new();
        let mut page = Page::first(7);
        loop {
            let waits = store.pending(&PendingFilter::default(), &page).await.unwrap();
            let Some(last) = waits.last() else { break };
            page = Page::after(last.cursor(), 7);
            seen.extend(waits.iter().map(|wait| wait.call));
            // One that was shown goes away between two pages.
            let shown = seen[seen.len() - 2];
            let (session, call) = sessions.iter_mut().find(|(_, call)| *call == shown).unwrap();
            session.input(denial(*call, ann())).await.unwrap();
        }
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((seen.len(), sorted.len()), (30, 30));
    });
}

#[test]
fn sessions_are_listed_newest_first_by_tenant_and_status() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut created = Vec::new();
        for number in 0..9 {
            let tenant = if number % 3 == 0 { "umbrella" } else { "acme" };
            let mut session = Session::create(&store, tenant).await;
            if number % 2 == 0 {
                session.propose(&charge()).await;
            }
            created.push(session.id);
        }
        let mut listed = Vec::new();
        let mut page = Page::first(4);
        loop {
            let sessions = store.sessions(&SessionFilter::default(), &page).await.unwrap();
            let Some(last) = sessions.last() else { break };
            page = Page::after(last.session, 4);
            listed.extend(sessions.iter().map(|session| session.session));
        }
        created.reverse();
        assert_eq!(listed, created);

        let tenant = Tenant::new("acme").ok();
        let status = Some(SessionStatus::Working);
        let filter = SessionFilter { tenant, status, ..SessionFilter::default() };
        let working = store.sessions(&filter, &Page::first(10)).await.unwrap();
        assert_eq!(working.len(), 3);
        assert!(working.iter().all(|session| session.n_waiting == 1));
        assert!(working.iter().all(|session| session.tenant.as_str() == "acme"));
        assert!(working.iter().all(|session| session.status == SessionStatus::Working));
    });
}

// S2-35: an agent's sessions, and those that one of them opened, are found by themselves.
#[test]
fn s2_35_sessions_are_found_by_agent_and_by_parent() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let open = async |agent: Option<&str>, parent| {
            let agent = agent.map(|id| Agent {
                id: id.to_owned(),
                version: 1,
                model: "scripted".to_owned(),
                instructions: None,
                environment: None,
            });
            let config = Config { agent, ..Config::default() };
            match parent {
                Some(parent) => Session::create_child(&store, config, parent).await,
                None => Session::create_with(&store, "acme", config).await.id,
            }
        };
        open(None, None).await;
        let parent = open(Some("ada"), None).await;
        let children =
            [open(Some("ada"), Some(parent)).await, open(Some("ada"), Some(parent)).await];
        open(Some("bob"), None).await;
        let found = async |filter: SessionFilter| {
            let listed = store.sessions(&filter, &Page::first(10)).await.unwrap();
            listed.iter().map(|session| session.session).collect::<Vec<_>>()
        };
        let agent = Some("ada".to_owned());
        let ada = SessionFilter { agent, ..SessionFilter::default() };
        assert_eq!(found(ada).await, [children[1], children[0], parent]);
        let below = SessionFilter { parent: Some(parent), ..SessionFilter::default() };
        assert_eq!(found(below.clone()).await, [children[1], children[0]]);
        let listed = store.sessions(&below, &Page::first(1)).await.unwrap();
        assert_eq!(listed[0].parent, Some(parent));
        assert_eq!(listed[0].agent.as_deref(), Some("ada"));
    });
}

#[test]
fn a_session_is_idle_working_and_idle_again() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let status = async || {
            let page = Page::first(1);
            store.sessions(&SessionFilter::default(), &page).await.unwrap()[0].status
        };
        assert_eq!(status().await, SessionStatus::Idle);
        let call = session.propose(&read()).await;
        assert_eq!(status().await, SessionStatus::Working);
        session.finish(call, crate::driver::ok("sunny")).await;
        assert_eq!(status().await, SessionStatus::Idle);
    });
}

// E7: whose session it is, and the deadline, are part of the query.
#[test]
fn the_inbox_is_narrowed_by_who_opened_the_session_and_by_deadline() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&charge()).await;
        let found = async |opened_by, expires_after| {
            let tenant = Tenant::new("acme").ok();
            let filter =
                PendingFilter { tenant, opened_by, expires_after, ..PendingFilter::default() };
            let waits = store.pending(&filter, &Page::first(10)).await.unwrap();
            waits.iter().map(|wait| wait.call).collect::<Vec<_>>()
        };
        assert_eq!(found(Some(ann()), None).await, [call]);
        assert_eq!(found(Some(user("bob")), None).await, []);
        let service = Actor { kind: ActorKind::Service, ..ann() };
        assert_eq!(found(Some(service), None).await, [], "another sort of actor is another one");
        assert_eq!(found(None, Some(START)).await, [call]);
        assert_eq!(found(None, Some(START + crate::driver::HOUR)).await, [], "it has run out");
    });
}

// U2: a call in doubt is the first to be looked at, whatever its deadline.
#[test]
fn calls_in_doubt_come_first_in_the_inbox() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut asked = Session::create(&store, "acme").await;
        let waits = asked.propose(&charge()).await;
        let mut doubtful = Session::create(&store, "acme").await;
        doubtful.now = START + Millis(60_000);
        let unsafe_tool = tool("send_mail", |definition| {
            let mutates = Some(Mutates::Irreversible);
            definition.facets = Facets { mutates, ..Facets::default() };
            definition.gate = Gate::Auto;
        });
        let doubted = doubtful.propose(&unsafe_tool).await;
        doubtful.input(Input::Revived).await.unwrap();
        let tenant = Tenant::new("acme").ok();
        let filter = PendingFilter { tenant, ..PendingFilter::default() };
        let first = store.pending(&filter, &Page::first(1)).await.unwrap();
        assert_eq!(first[0].call, doubted);
        let cursor: PendingCursor = first[0].cursor().to_string().parse().unwrap();
        let next = store.pending(&filter, &Page::after(cursor, 10)).await.unwrap();
        assert_eq!(next.iter().map(|wait| wait.call).collect::<Vec<_>>(), [waits]);
    });
}

// E7: the log says everything that a row shows, at the places that the row has.
#[test]
fn a_wait_knows_the_entries_that_tell_of_it() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        session.propose(&read()).await;
        let call = session.propose(&charge()).await;
        let waits = store.pending(&PendingFilter::default(), &Page::first(10)).await.unwrap();
        assert_eq!((waits.len(), waits[0].call, waits[0].config_seq), (1, call, 1));
        let places = waits[0].told.iter().map(|seq| (session.id, *seq)).collect();
        let mut told = store.entries_at(places).await.unwrap();
        told.sort_by_key(|entry| entry.seq);
        let kinds: Vec<_> = told.iter().map(|entry| entry.event().unwrap()).collect();
        assert!(matches!(&kinds[0], Event::CallProposed { call: of, .. } if *of == call));
        assert!(matches!(&kinds[1], Event::CallSuspended { call: of, .. } if *of == call));
        assert_eq!(kinds.len(), 2);
        let nowhere = vec![(session.id, 999), (SessionId::from_bits(1), 1)];
        assert_eq!(store.entries_at(nowhere).await.unwrap(), []);
    });
}
