//! Grants beyond a session: bounded, counted once whoever uses them, and never more than a grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_core::permission::Budget;
use haft_core::session::{Agent, Config, Driver as DrivenBy, Returned};
use haft_core::tool::{Definition, Gate, Mutates, Schema};
use haft_core::{Actor, ActorId, ActorKind, CallResult, Millis, Output, SessionId};
use haft_runtime::testing::user;
use haft_runtime::{
    Answer, FunctionTool, GrantError, GrantTerms, Haft, Holder, Opinion, Policy, Tool, ToolFuture,
    Wish,
};
use haft_store::{Store, Tenant};
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};

/// Runs a test over both stores.
pub(crate) async fn on_both<F: Future<Output = ()>>(test: impl Fn(Store) -> F) {
    let directory = tempfile::tempdir().unwrap();
    test(Store::open_sqlite(directory.path()).unwrap()).await;
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    test(Store::connect_postgres(&cluster.url()).await.unwrap()).await;
}

pub(crate) fn refund(gate: Gate, runs: &Arc<AtomicU32>) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {"euro": {"type": "number"}}});
    let schema = Schema::from_value(&schema).unwrap();
    let mut definition = Definition::new("refund".parse().unwrap(), "Refunds.", schema);
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.gate = gate;
    let runs = Arc::clone(runs);
    Arc::new(FunctionTool::new(definition, move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(Returned::from(CallResult::Ok(Output::of_value(json!(true))))) }
    }))
}

pub(crate) fn node(store: &Store, runs: &Arc<AtomicU32>) -> Haft {
    Haft::builder().tool(refund(Gate::Ask, runs)).start(store.clone()).unwrap()
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn config() -> Config {
    Config { driver: DrivenBy::Caller, ..Config::default() }
}

pub(crate) async fn session(haft: &Haft, by: &str) -> SessionId {
    haft.open(tenant("acme"), config(), user(by)).await.unwrap()
}

/// Whether a call went through without anyone being asked.
async fn runs(haft: &Haft, session: SessionId, arguments: Value) -> bool {
    let arguments = arguments.as_object().cloned().unwrap();
    match haft.call(session, "refund", arguments).await.unwrap() {
        Answer::Done(outcome) => matches!(outcome.result, CallResult::Ok(_)),
        Answer::Waiting(_) => false,
        Answer::InDoubt(_) => panic!("nothing crashed"),
    }
}

pub(crate) async fn give(haft: &Haft, holder: Holder, terms: GrantTerms) -> haft_core::GrantId {
    let given = haft.grants().give(&tenant("acme"), holder, "refund", terms, user("ann")).await;
    given.unwrap().grant.id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_at_once_never_use_a_grant_more_often_than_it_says() {
    on_both(|store| async move {
        let effects = Arc::new(AtomicU32::new(0));
        let nodes = [node(&store, &effects), node(&store, &effects)];
        let budget = Budget { field: "/euro".parse().unwrap(), left: "70".parse().unwrap() };
        let terms = GrantTerms { uses: Some(9), budget: Some(budget), ..GrantTerms::default() };
        give(&nodes[0], Holder::Tenant, terms).await;
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..12 {
            let haft = nodes[n % 2].clone();
            calls.spawn(async move {
                let session = session(&haft, "bob").await;
                runs(&haft, session, json!({"euro": 10})).await
            });
        }
        let through = calls.join_all().await.into_iter().filter(|ran| *ran).count();
        assert_eq!((through, effects.load(Ordering::SeqCst)), (7, 7), "7 times 10 of 70");
        let left = nodes[1].grants().list(&tenant("acme")).await.unwrap().remove(0).grant;
        assert_eq!(left.uses_left, Some(2));
        assert_eq!(left.budget.unwrap().left.to_string(), "0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stands_for_its_holder_alone_until_it_is_revoked_or_over() {
    on_both(|store| async move {
        let haft = node(&store, &Arc::default());
        let (anns, bobs) = (session(&haft, "ann").await, session(&haft, "bob").await);
        let ann = Holder::User(ActorId::new("ann").unwrap());
        let id = give(&haft, ann, GrantTerms::default()).await;
        assert!(runs(&haft, anns, json!({"euro": 1})).await);
        assert!(!runs(&haft, bobs, json!({"euro": 1})).await);
        let foreign = haft.open(tenant("other"), config(), user("ann")).await.unwrap();
        assert!(!runs(&haft, foreign, json!({"euro": 1})).await, "another tenant's");
        haft.grants().revoke(&tenant("acme"), id, user("bob")).await.unwrap();
        let again = haft.grants().revoke(&tenant("acme"), id, user("bob")).await;
        assert!(matches!(again, Err(GrantError::UnknownGrant { .. })), "{again:?}");
        assert!(haft.grants().list(&tenant("acme")).await.unwrap().is_empty());
        assert!(!runs(&haft, anns, json!({"euro": 2})).await);

        let (id, model) = ("helper".to_owned(), "none".to_owned());
        let helper = Agent { id, version: 1, model, instructions: None, environment: None };
        let helped = Config { agent: Some(helper), ..config() };
        let helped = haft.open(tenant("acme"), helped, user("bob")).await.unwrap();
        give(&haft, Holder::Agent("helper".into()), GrantTerms::default()).await;
        assert!(runs(&haft, helped, json!({"euro": 1})).await);
        assert!(!runs(&haft, bobs, json!({"euro": 3})).await);

        let over = GrantTerms { lasts: Some(Millis(0)), ..GrantTerms::default() };
        give(&haft, Holder::Tenant, over).await;
        assert!(!runs(&haft, bobs, json!({"euro": 4})).await);
    })
    .await;
}

struct Denies;

impl Policy for Denies {
    fn source(&self) -> haft_core::permission::Source {
        haft_core::permission::Source::Rule("no refunds".into())
    }

    fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        let verdict = haft_core::permission::Verdict::Deny;
        Box::pin(async move { Ok(Some(Opinion { verdict, reason: "closed".into() })) })
    }
}

#[tokio::test]
async fn a_grant_covers_no_denial_no_changed_tool_and_no_tool_that_always_asks() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let effects = Arc::new(AtomicU32::new(0));
    let haft = node(&store, &effects);
    give(&haft, Holder::Tenant, GrantTerms { uses: Some(1), ..GrantTerms::default() }).await;

    let strict = Haft::builder().tool(refund(Gate::Ask, &effects)).policy(Denies);
    let strict = strict.start(store.clone()).unwrap();
    let denied = session(&strict, "ann").await;
    assert!(strict.call(denied, "refund", serde_json::Map::new()).await.is_err());

    let always = Haft::builder().tool(refund(Gate::AskAlways, &effects));
    let always = always.start(store.clone()).unwrap();
    let asked = session(&always, "ann").await;
    assert!(!runs(&always, asked, json!({})).await);
    let tenant = tenant("acme");
    let terms = GrantTerms::default;
    let given = always.grants().give(&tenant, Holder::Tenant, "refund", terms(), user("a")).await;
    assert!(matches!(given, Err(GrantError::NeverApplies { .. })), "{given:?}");

    let mut changed = config();
    changed.level = haft_core::permission::Level::Standard;
    let other = Haft::builder().tool(refund(Gate::Unset, &effects)).start(store).unwrap();
    let changed = other.open(tenant.clone(), changed, user("ann")).await.unwrap();
    assert!(!runs(&other, changed, json!({})).await, "its contract is another one");
    assert_eq!(effects.load(Ordering::SeqCst), 0);
    let left = haft.grants().list(&tenant).await.unwrap();
    assert_eq!(left[0].grant.uses_left, Some(1), "nothing was used");

    let agent = Actor { kind: ActorKind::Agent, id: ActorId::new("model").unwrap() };
    let given = haft.grants().give(&tenant, Holder::Tenant, "refund", terms(), agent).await;
    assert!(matches!(given, Err(GrantError::NotAllowed { .. })), "{given:?}");
}

// A use that is taken for a call which then needs none is put back.
#[tokio::test]
async fn what_a_call_did_not_use_is_there_for_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let haft = node(&Store::open_sqlite(directory.path()).unwrap(), &Arc::default());
    let mut limited = config();
    limited.limits.calls_per_turn = 0;
    let full = haft.open(tenant("acme"), limited, user("ann")).await.unwrap();
    give(&haft, Holder::Tenant, GrantTerms { uses: Some(1), ..GrantTerms::default() }).await;
    assert!(haft.call(full, "refund", serde_json::Map::new()).await.is_err(), "over a limit");
    let free = session(&haft, "ann").await;
    assert!(runs(&haft, free, json!({"euro": 1})).await);
    assert!(!runs(&haft, free, json!({"euro": 2})).await);
}
