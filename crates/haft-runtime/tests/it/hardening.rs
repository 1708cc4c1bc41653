//! What a hostile reader found about crashes and races: each test states what holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::node::{Node, PATIENCE, ann, approve, charge, proposal, tenant, tool};
use haft_core::Millis;
use haft_core::session::{Config, Driver as DrivenBy, Event, Input};
use haft_runtime::{Clock, Driver, InputError, Observer, Settings};
use haft_store::{NodeId, Store};

fn two_workers() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

// Nobody but a test calls `wake`: a call whose process died must be found by the runtime itself.
#[test]
fn a_call_whose_process_died_is_recovered_without_anyone_asking() {
    let directory = tempfile::tempdir().unwrap();
    let world = Arc::default();
    let runtime = two_workers();
    let call = runtime.block_on(async {
        let node = Node::with(Store::open_sqlite(directory.path()).unwrap(), &world, |_| {});
        let session = node.open(DrivenBy::Caller).await;
        let call = node.propose(session, &tool("hang", |_| {})).await;
        node.eventually(|| async { (node.world.effects(call) == 1).then_some(()) }).await;
        call
    });
    drop(runtime);
    two_workers().block_on(async {
        let node = Node::with(Store::open_sqlite(directory.path()).unwrap(), &world, |_| {});
        node.clock.advance(Millis::from_secs(3600));
        let found = node.eventually(|| async { node.pending().await.into_iter().next() });
        let found = tokio::time::timeout(PATIENCE, found).await;
        assert_eq!(found.expect("nobody looked at the interrupted call").call, call);
    });
}

// A call that nobody may run is not recorded as begun, and nobody has to ask what became of it.
#[tokio::test]
async fn a_node_that_can_hold_no_lease_records_and_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let lapsed = Node::with(store, &Arc::default(), |settings| settings.lease_ttl = Duration::ZERO);
    let session = lapsed.open(DrivenBy::Caller).await;
    let call = haft_core::CallId::from_bits(lapsed.driver.fresh().unwrap());
    let refused = lapsed.driver.input(session, propose(call)).await;
    assert!(matches!(refused, Err(InputError::LeaseLapsed)), "{refused:?}");
    assert_eq!((lapsed.events(session).await.len(), lapsed.world.effects(call)), (1, 0));
}

fn propose(id: haft_core::CallId) -> Input {
    let calls = vec![proposal(id, &tool("look", |_| {}))];
    Input::CallsProposed(haft_core::session::CallsProposed { calls })
}

fn panics_once(armed: &Arc<AtomicBool>) -> Observer {
    let armed = Arc::clone(armed);
    Observer::new(move |_| {
        if armed.swap(false, Ordering::SeqCst) {
            panic!("a bug in the session's task");
        }
    })
}

// A panic in one session's task must not make the session unreachable for the process's life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_sessions_task_does_not_bury_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let store = Store::open_sqlite(directory.path()).unwrap();
    let node =
        Node::with(store, &Arc::default(), |settings| settings.observer = panics_once(&armed));
    let session = node.open(DrivenBy::Caller).await;
    armed.store(true, Ordering::SeqCst);
    let id = haft_core::CallId::from_bits(node.driver.fresh().unwrap());
    println!("during: {:?}", node.driver.input(session, propose(id)).await);
    let again = node.eventually(|| async { node.driver.input(session, propose(id)).await.ok() });
    let again = tokio::time::timeout(PATIENCE, again).await;
    assert!(again.is_ok(), "it takes nothing more, at work: {}", node.driver.n_at_work());
}

// One poisonous expiry must not end the sweeper, and with it the heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_settling_one_expiry_does_not_end_the_sweeper() {
    let directory = tempfile::tempdir().unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let store = Store::open_sqlite(directory.path()).unwrap();
    let node =
        Node::with(store, &Arc::default(), |settings| settings.observer = panics_once(&armed));
    let session = node.open(DrivenBy::Caller).await;
    let call = node.propose(session, &charge()).await;
    node.at_rest().await;
    armed.store(true, Ordering::SeqCst);
    node.clock.advance(Millis::from_secs(30 * 24 * 3600));
    node.eventually(|| async { (!armed.load(Ordering::SeqCst)).then_some(()) }).await;
    // The sweeper takes it up again some time after its trouble, which may be noted after a step.
    let over = async {
        let second = Duration::from_secs(1);
        while tokio::time::timeout(second, node.outcome(session, call)).await.is_err() {
            node.clock.advance(Millis::from_secs(60));
        }
    };
    node.clock.advance(Millis::from_secs(60));
    let over = tokio::time::timeout(PATIENCE, over).await;
    assert!(over.is_ok(), "the sweeper is dead: the expiry is never taken up again");
}

// What a tool returned within its grace is what happened.
struct Late;

impl haft_runtime::Performer for Late {
    async fn perform(&self, job: haft_runtime::Job) -> Input {
        use haft_core::session::{AttemptEnded, AttemptReport, Returned};
        let haft_runtime::Task::Execute { call, attempt, .. } = job.task else { panic!() };
        // The request is on its way to the bank, which is not undone by asking to stop.
        tokio::time::sleep(Duration::from_millis(60)).await;
        let done = haft_core::CallResult::Ok(haft_core::Output::of_text("charged, receipt 4711"));
        let report = AttemptReport::Returned(Returned::from(done));
        Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
    }
}

#[tokio::test]
async fn a_result_that_comes_within_the_grace_is_not_thrown_away() {
    use haft_core::session::{CallsProposed, Check, PolicyFacts, Proposal, SoundCall};
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let settings = Settings::new(NodeId::new("node-1").unwrap());
    let driver = Driver::start(store, Arc::new(Late), &settings);
    let config = Config { driver: DrivenBy::Caller, ..Config::default() };
    let session = driver.open(tenant(), config, ann()).await.unwrap();
    let tool = tool("slow", |definition| definition.exec_timeout = Millis(30));
    let id = haft_core::CallId::from_bits(driver.fresh().unwrap());
    let calls = vec![Proposal {
        id,
        provider_id: haft_core::ProviderCallId::new("toolu_1").unwrap(),
        name: tool.name.to_string(),
        check: Check::Sound(SoundCall {
            contract: Arc::clone(tool.contract()),
            arguments: haft_core::Arguments::plain(serde_json::Map::new()),
            policy: PolicyFacts::default(),
            grants: vec![],
        }),
    }];
    driver.input(session, Input::CallsProposed(CallsProposed { calls })).await.unwrap();
    let finished = async {
        loop {
            let entries = driver.store().entries(session, 0, 100).await.unwrap();
            let mut events = entries.iter().map(|entry| entry.event().unwrap());
            if let Some(over) = events.find(|event| matches!(event, Event::CallFinished { .. })) {
                return format!("{over:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let over = tokio::time::timeout(PATIENCE, finished).await.expect("the call ends");
    assert!(over.contains("receipt 4711"), "the log says: {over}");
}

// A node that is told to go lets its sessions go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_shut_down_owns_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let node = Node::with(store.clone(), &Arc::default(), |_| {});
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let session = node.open(DrivenBy::Caller).await;
        let call = node.propose(session, &charge()).await;
        node.driver.resolve(session, node.resolved(call, ann(), approve())).await.unwrap();
        sessions.push(session);
    }
    let hung = node.open(DrivenBy::Caller).await;
    node.propose(hung, &tool("hang", |_| {})).await;
    sessions.push(hung);
    node.driver.shutdown(Duration::from_millis(300)).await;
    let mut owned = 0;
    for session in sessions {
        owned += usize::from(store.load(session).await.unwrap().unwrap().owner.is_some());
    }
    assert_eq!(owned, 0, "sessions still owned by a node that is gone");
}

const LEASE_MS: u64 = 1000;

// Waiting for what runs takes longer than a lease: the lease must be kept meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_its_tools_while_shutting_down_keeps_its_lease() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let change = |settings: &mut Settings| {
        settings.clock = Clock::System;
        settings.lease_ttl = Duration::from_millis(LEASE_MS);
    };
    let node = Node::with(store.clone(), &Arc::default(), change);
    let session = node.open(DrivenBy::Caller).await;
    node.propose(session, &tool("hang", |_| {})).await;
    let driver = node.driver.clone();
    let going = tokio::spawn(async move { driver.shutdown(PATIENCE * 2).await });
    // Past whatever the node has been given until now: it holds then only if it goes on to beat
    // for longer than a lease.
    let later = haft_store::Moment::At(Clock::System.now() + Millis(2 * LEASE_MS));
    let thief = NodeId::new("node-2").unwrap();
    let is_free = async || {
        let free = store.owned_or_orphaned(&thief, later).await.unwrap();
        free.contains(&session)
    };
    assert!(is_free().await, "its lease ends before that");
    let kept = node.eventually(|| async { (!is_free().await).then_some(()) });
    let kept = tokio::time::timeout(PATIENCE, kept).await;
    let is_going = !going.is_finished();
    going.abort();
    assert!(kept.is_ok() && is_going, "the lease of a session whose tool still runs is not kept");
}
