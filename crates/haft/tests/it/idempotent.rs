//! Verbs under an idempotency key, as a program uses them.

use std::sync::atomic::{AtomicU32, Ordering};

use haft::{
    Actor, ActorId, Answer, CallError, Config, ContentBlock, Driver, Haft, InputError,
    RequestError, Response, SessionId, Store, Tenant, Value, json, tool,
};

static PAID: AtomicU32 = AtomicU32::new(0);

/// Pays something out. Use when a customer is owed money.
#[tool(write, approve)]
fn pay(
    /// How much
    cents: u32,
) -> u32 {
    PAID.fetch_add(cents, Ordering::SeqCst)
}

fn arguments(cents: u32) -> serde_json::Map<String, Value> {
    let Value::Object(arguments) = json!({"cents": cents}) else { panic!("it is an object") };
    arguments
}

#[tokio::test]
async fn a_verb_that_is_repeated_with_its_key_is_done_once_also_by_the_next_node() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let start = || Haft::builder().tool(pay::tool()).start(store.clone()).unwrap();
    let haft = start();
    let (tenant, by) = (Tenant::new("acme").unwrap(), Actor::system());
    let config = Config { driver: Driver::Caller, ..Config::default() };
    let open = async |haft: &Haft| {
        let opened = haft.idempotent("desk").open(tenant.clone(), config.clone(), by.clone()).await;
        opened.unwrap()
    };
    let session = open(&haft).await;
    assert_eq!(open(&haft).await, session);
    let call = async |haft: &Haft, cents| {
        haft.idempotent("order-17").call(session, "pay", arguments(cents)).await
    };
    let Answer::Waiting(wait) = call(&haft, 5).await.unwrap() else { panic!("it asks") };
    let ann = Actor::user(ActorId::new("ann").unwrap());
    let approve = async |haft: &Haft| {
        let yes = Response::Approve { arguments: None, note: None, grant: None };
        haft.idempotent("yes").resolve(session, wait.call, ann.clone(), yes).await
    };
    approve(&haft).await.unwrap();
    haft.wait(session, wait.call).await.unwrap();
    haft.shutdown(std::time::Duration::from_secs(5)).await;
    drop(haft);

    let haft = start();
    assert_eq!(open(&haft).await, session);
    approve(&haft).await.unwrap();
    let Answer::Done(outcome) = call(&haft, 5).await.unwrap() else { panic!("it was done") };
    assert_eq!((outcome.call, PAID.load(Ordering::SeqCst)), (wait.call, 5));
    let reused = call(&haft, 6).await.unwrap_err();
    assert!(
        matches!(&reused, CallError::Input(InputError::Key(RequestError::Reused))),
        "{reused:?}"
    );
}

/// How often a text is in a session's log as a message.
async fn heard(haft: &Haft, session: SessionId, text: &str) -> usize {
    let log = haft.store().entries(session, 0, 1_000).await.unwrap();
    let is_said = |body: &str| body.contains("message.received") && body.contains(text);
    log.iter().filter(|entry| is_said(&entry.body)).count()
}

#[tokio::test]
async fn what_is_said_again_with_its_key_is_heard_once_also_by_the_next_node() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let start = || Haft::builder().start(store.clone()).unwrap();
    let ann = Actor::user(ActorId::new("ann").unwrap());
    let say = async |haft: &Haft, session, text: &str| {
        let content = vec![ContentBlock::Text { text: text.to_owned() }];
        haft.idempotent("hello").say(session, ann.clone(), content).await
    };
    let haft = start();
    let tenant = Tenant::new("acme").unwrap();
    let session = haft.open(tenant, Config::default(), ann.clone()).await.unwrap();
    let first = say(&haft, session, "good morning").await.unwrap();
    assert_eq!(say(&haft, session, "good morning").await.unwrap(), first);
    haft.shutdown(std::time::Duration::from_secs(5)).await;
    drop(haft);
    let haft = start();
    assert_eq!(say(&haft, session, "good morning").await.unwrap(), first);
    assert_eq!(heard(&haft, session, "good morning").await, 1);
    let reused = say(&haft, session, "good evening").await.unwrap_err();
    assert!(matches!(&reused, InputError::Key(RequestError::Reused)), "{reused:?}");
    assert_eq!(heard(&haft, session, "good evening").await, 0);
}
