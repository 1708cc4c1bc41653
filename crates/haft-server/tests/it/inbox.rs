//! The inbox over HTTP: everyone sees what is theirs to see, however much waits for others, and a
//! page costs the same whatever else there is.

use std::collections::BTreeSet;

use haft_core::session::{Config as SessionConfig, DecidedKind, Driver, Returned};
use haft_core::tool::{Definition, Executor, Gate, Mutates, Schema};
use haft_core::{Actor, ActorId, CallId, CallResult, Millis, Output, SessionId};
use haft_runtime::{Answer, FunctionTool, HaftBuilder, SealingKey, Tool};
use haft_server::{Config, Scope};
use haft_store::{CallStage, Tenant};
use serde_json::{Map, Value, json};

use crate::house::{House, Visitor, asking_agent, unattended};
use crate::once::posted;

/// Asks for calls that wait for an approval, and returns their ids.
async fn waiting(who: &Visitor, n: usize) -> Vec<String> {
    let mut calls = Vec::with_capacity(n);
    for _ in 0..n {
        calls.push(who.call("refund").await.1);
    }
    calls
}

fn calls(page: &Value) -> Vec<String> {
    let rows = page["data"].as_array().unwrap();
    rows.iter().map(|row| row["call"].as_str().unwrap().to_owned()).collect()
}

/// Reads a list to its end, and lets something happen after each page.
async fn paged(who: &Visitor, limit: usize, mut between: impl AsyncFnMut()) -> Vec<String> {
    let (mut seen, mut path) = (Vec::new(), format!("/haft/v1/pending?limit={limit}"));
    loop {
        let page = who.get(&path).await;
        seen.extend(calls(&page));
        assert_eq!(page["has_more"], json!(!page["next_page"].is_null()), "{page}");
        let Some(next) = page["next_page"].as_str() else { return seen };
        path = format!("/haft/v1/pending?limit={limit}&page={next}");
        between().await;
    }
}

// E7: whose a wait is stands in the query, so that a page is never full of what is not shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_mine_is_listed_among_six_hundred_of_others() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let writer = [Scope::Read, Scope::Write, Scope::Approve];
            let bob = house.visitor("default", "bob", &writer).await;
            let others = waiting(&bob, 600).await;
            let ann = house.visitor("default", "ann", &writer).await;
            let mine = waiting(&ann, 1).await;
            let only_hers = house.visitor("default", "ann", &[Scope::Read]).await;
            let stranger = house.visitor("default", "eve", &[Scope::Read]).await;
            let elsewhere = house.visitor("acme", "ann", &[Scope::Read]).await;

            let loads = house.haft.store().measures().loads();
            let page = only_hers.get("/haft/v1/pending").await;
            assert_eq!(calls(&page), mine, "{page}");
            assert_eq!(page["next_page"], Value::Null);
            let all = bob.get("/haft/v1/pending?limit=500").await;
            assert_eq!((calls(&all).len(), &all["has_more"]), (500, &json!(true)));
            let loaded = house.haft.store().measures().loads() - loads;
            assert_eq!(loaded, 0, "a page folds no session");

            assert!(calls(&stranger.get("/haft/v1/pending").await).is_empty());
            assert!(calls(&elsewhere.get("/haft/v1/pending").await).is_empty(), "another tenant");
            let every: BTreeSet<String> = paged(&bob, 500, async || {}).await.into_iter().collect();
            assert_eq!(every, others.into_iter().chain(mine).collect());
        },
    )
    .await;
}

// E7: a page goes on where the one before it ended, whatever came or went meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn pages_visit_every_wait_once_while_new_ones_come_and_others_go() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let ann = house.admin().await;
            let first = waiting(&ann, 25).await;
            let gone = house.admin().await;
            let seen = paged(&ann, 4, async || {
                waiting(&gone, 1).await;
                // What was shown first is decided while the next page is read.
                let shown = gone.get("/haft/v1/pending?limit=1").await["data"][0].clone();
                let (session, call) = (shown["session"].as_str(), shown["call"].as_str());
                let path = format!(
                    "/haft/v1/sessions/{}/calls/{}/resolve",
                    session.unwrap(),
                    call.unwrap()
                );
                gone.post(&path, &json!({"type": "deny"})).await;
            })
            .await;
            let once: BTreeSet<&String> = seen.iter().collect();
            assert_eq!(once.len(), seen.len(), "nothing is shown twice");
            assert!(first.iter().all(|call| once.contains(call)), "nothing is left out");
            ann.refused("GET", "/haft/v1/pending?page=nonsense", &Value::Null, 400).await;
        },
    )
    .await;
}

// E7: what a row shows is what the session's log says, whatever changed about the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_shows_the_call_as_it_is_asked_about() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let ann = house.admin().await;
            let (session, call) = ann.call("refund").await;
            let page = ann.get(&format!("/haft/v1/pending?session={session}")).await;
            let row = &page["data"][0];
            assert_eq!((&row["call"], &row["tool"]), (&json!(call), &json!("refund")));
            assert_eq!((&row["round"], &row["kind"]), (&json!(1), &json!("approval")));
            assert_eq!(row["arguments"], json!({"euro": 5}));
            assert_eq!(row["approvals"], json!({"needed": 1, "given": []}));
            assert_eq!(row["derivation"]["decision"], "ask", "{row}");
            assert!(row["input_schema"]["properties"]["euro"].is_object(), "{row}");
            assert_eq!(
                (&row["mutates"], &row["may_grant"]),
                (&json!("irreversible"), &json!(true))
            );
            assert_eq!(page["unreadable"], 0);
        },
    )
    .await;
}

// E7: a session that cannot be read is one row that says so.
#[tokio::test]
async fn a_session_that_cannot_be_read_is_one_row_of_the_page() {
    let house = House::start().await;
    let ann = house.admin().await;
    let whole = waiting(&ann, 1).await;
    let (_, broken) = ann.call("refund").await;
    let connection = rusqlite::Connection::open(house.data.path().join("haft.db")).unwrap();
    let damaged = connection.execute(
        "UPDATE events SET body = replace(body, 'call.proposed', 'call.prop0sed')
         WHERE body LIKE ?1",
        [format!("%{broken}%")],
    );
    assert_eq!(damaged, Ok(1));
    let page = ann.get("/haft/v1/pending").await;
    assert_eq!(page["unreadable"], 1, "{page}");
    let row = |call: &str| {
        let rows = page["data"].as_array().unwrap();
        rows.iter().find(|row| row["call"] == call).unwrap().clone()
    };
    assert_eq!(row(&whole[0])["unreadable"], Value::Null);
    let row = row(&broken);
    assert!(row["unreadable"].as_str().unwrap().contains("call.prop0sed"), "{row}");
    assert_eq!((&row["tool"], &row["kind"]), (&json!("refund"), &json!("approval")));
}

// E21: a session that cannot be read was left out of the SDKs' list without a word.
#[tokio::test]
async fn a_list_of_sessions_names_those_that_it_cannot_read() {
    let house = House::start().await;
    let ann = house.admin().await;
    let wanted = json!({"agent": "agent_demo", "environment_id": "env_demo"});
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let opened = ann.post("/v1/sessions", &wanted).await;
        sessions.push(opened["id"].as_str().unwrap().to_owned());
    }
    let page = ann.get("/v1/sessions").await;
    assert_eq!((page["data"].as_array().unwrap().len(), &page["unreadable"]), (2, &Value::Null));
    let connection = rusqlite::Connection::open(house.data.path().join("haft.db")).unwrap();
    let damaged = connection.execute(
        "UPDATE events SET body = replace(body, 'session.opened', 'session.0pened')
         WHERE body LIKE ?1",
        [format!("%{}%", sessions[0])],
    );
    assert_eq!(damaged, Ok(1));
    let page = ann.get("/v1/sessions").await;
    assert_eq!(page["data"][0]["id"], json!(sessions[1]), "{page}");
    assert_eq!(page["unreadable"], json!([sessions[0]]), "{page}");
}

// What others may see and the caller may not makes no room in what is found.
#[tokio::test]
async fn a_call_is_found_by_the_beginning_of_its_id_however_many_others_there_are() {
    let house = House::start().await;
    let ann = house.visitor("default", "ann", &[Scope::Read, Scope::Write]).await;
    let bob = house.visitor("default", "bob", &[Scope::Read, Scope::Write]).await;
    let mine = waiting(&ann, 1).await;
    waiting(&bob, 25).await;
    // All of them were made within the same hours.
    let path = format!("/haft/v1/calls?begins={}", &mine[0][.."call_01m".len()]);
    let found = ann.get(&path).await;
    assert_eq!(calls(&found), mine, "{found}");
    assert_eq!(found["has_more"], false);
    let found = bob.get(&path).await;
    assert_eq!((calls(&found).len(), &found["has_more"]), (20, &json!(true)), "it says so");
}

/// Approves a call that waits, and returns how many sessions were loaded until it was done.
async fn loads_of_an_approval(house: &House, ann: &Visitor, tool: &str, arguments: Value) -> u64 {
    let path = format!("/haft/v1/tools/{tool}/call");
    let made = ann.post(&path, &json!({"arguments": arguments})).await;
    let session: SessionId = made["session"].as_str().unwrap().parse().unwrap();
    let call: CallId = made["call"].as_str().unwrap().parse().unwrap();
    let store = house.haft.store();
    while house.haft.driver().n_at_work() > 0 {
        tokio::task::yield_now().await;
    }
    let before = store.measures().loads();
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    ann.post(&path, &json!({"type": "approve"})).await;
    while store.call(session, call).await.unwrap().unwrap().stage != CallStage::Settled {
        tokio::task::yield_now().await;
    }
    let class = store.call(session, call).await.unwrap().unwrap().class;
    assert_eq!(class, None, "it ran");
    store.measures().loads() - before
}

fn pays_with_a_secret() -> impl Tool {
    let schema = json!({"type": "object", "properties": {"card": {"type": "string"}}});
    let schema = Schema::from_value(&schema).unwrap();
    let mut definition = Definition::new("pay".parse().unwrap(), "Pays.", schema);
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.gate = Gate::Ask;
    definition.redaction.secret = vec!["/card".parse().unwrap()];
    FunctionTool::new(definition, |_, _| async {
        Ok(Returned::from(CallResult::Ok(Output::of_value(json!(true)))))
    })
}

// E20: whoever approves has read the session, and that is enough for all that follows.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_loads_its_session_once() {
    let with_secrets = |builder: HaftBuilder| {
        builder.tool(pays_with_a_secret()).sealing_key(SealingKey::new([7; 32]))
    };
    House::on_both(with_secrets, unattended, async |house| {
        let ann = house.admin().await;
        let plain = loads_of_an_approval(&house, &ann, "refund", json!({"euro": 5})).await;
        assert_eq!(plain, 1);
        let sealed = loads_of_an_approval(&house, &ann, "pay", json!({"card": "4111"})).await;
        assert_eq!(sealed, 1, "also with an argument that is sealed");
    })
    .await;
}

/// Has an agent ask for a call by what a client posts; returns the session and the call.
async fn asked_by(ann: &Visitor, house: &House, path: &str, body: &Value) -> (SessionId, CallId) {
    let (status, told) = ann.text("POST", path, &body.to_string()).await;
    assert_eq!(status, 200, "{path}: {told}");
    let wait = loop {
        let pending = ann.get("/haft/v1/pending").await;
        match pending["data"].as_array().unwrap().first() {
            Some(wait) => break wait.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    while house.haft.driver().n_at_work() > 0 {
        tokio::task::yield_now().await;
    }
    let id = |name: &str| wait[name].as_str().unwrap().to_owned();
    (id("session").parse().unwrap(), id("call").parse().unwrap())
}

/// Approves by what a client posts, and returns how many sessions were loaded until it was done.
async fn loads_of(
    house: &House,
    ann: &Visitor,
    ids: (SessionId, CallId),
    post: (&str, &Value),
) -> u64 {
    let (store, (session, call), (path, body)) = (house.haft.store(), ids, post);
    let before = store.measures().loads();
    let (status, told) = ann.text("POST", path, &body.to_string()).await;
    assert_eq!(status, 200, "{path}: {told}");
    while store.call(session, call).await.unwrap().unwrap().stage != CallStage::Settled {
        tokio::task::yield_now().await;
    }
    let class = store.call(session, call).await.unwrap().unwrap().class;
    assert_eq!(class, None, "it ran");
    while house.haft.driver().n_at_work() > 0 {
        tokio::task::yield_now().await;
    }
    store.measures().loads() - before
}

// E20: the same by the events of the SDKs and by the front ends.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_by_an_sdk_or_a_front_end_loads_its_session_once() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let ann = house.admin().await;
            let agent = ann.post("/v1/agents", &asking_agent()).await;
            let agent = agent["id"].as_str().unwrap();
            let wanted = json!({"agent": agent, "environment_id": "env_demo"});
            let opened = ann.post("/v1/sessions", &wanted).await;
            let path = format!("/v1/sessions/{}/events", opened["id"].as_str().unwrap());
            let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
            let ids = asked_by(&ann, &house, &path, &json!({"events": [said]})).await;
            let confirmed =
                json!({"type": "user.tool_confirmation", "tool_use_id": ids.1, "result": "allow"});
            let body = json!({"events": [confirmed]});
            assert_eq!(loads_of(&house, &ann, ids, (&path, &body)).await, 1, "by the SDK's events");

            let [(path, run), (chat_path, chat)] = posted(agent, "t", "go");
            let ids = asked_by(&ann, &house, &path, &run).await;
            let mut resumed = run;
            resumed["runId"] = json!("r2");
            resumed["resume"] = json!([{
                "interruptId": format!("{}:1", ids.1), "status": "resolved",
                "payload": {"approved": true},
            }]);
            assert_eq!(loads_of(&house, &ann, ids, (&path, &resumed)).await, 1, "by AG-UI");

            let ids = asked_by(&ann, &house, &chat_path, &chat).await;
            let approval = json!({"id": format!("{}:1", ids.1), "approved": true});
            let part = json!({
                "type": "dynamic-tool", "toolCallId": ids.1, "state": "approval-responded",
                "approval": approval,
            });
            let card = json!({"id": "2", "role": "assistant", "parts": [part]});
            let answered = json!({"id": chat["id"], "messages": [chat["messages"][0], card]});
            assert_eq!(
                loads_of(&house, &ann, ids, (&chat_path, &answered)).await,
                1,
                "by the chat"
            );
        },
    )
    .await;
}

fn drawn_by_a_client() -> impl Tool {
    let schema = Schema::from_value(&json!({"type": "object"})).unwrap();
    let mut definition = Definition::new("draw".parse().unwrap(), "Draws.", schema);
    definition.executor = Executor::Client;
    definition.gate = Gate::Auto;
    FunctionTool::new(definition, |_, _| async {
        Ok(Returned::from(CallResult::Ok(Output::of_value(json!("the server ran it")))))
    })
}

async fn opened(house: &House) -> SessionId {
    let config = SessionConfig {
        driver: Driver::Caller,
        suspend_ttl: Some(Millis::from_secs(3600)),
        ..SessionConfig::default()
    };
    let ann = Actor::user(ActorId::new("ann").unwrap());
    house.haft.open(Tenant::new("default").unwrap(), config, ann).await.unwrap()
}

async fn parked(house: &House, session: SessionId) -> CallId {
    match house.haft.call(session, "draw", Map::new()).await.unwrap() {
        Answer::Waiting(wait) => wait.call,
        other => panic!("it does not wait for a client: {other:?}"),
    }
}

/// Leaves one call without a client until it has been ended, and returns how many sessions were
/// loaded meanwhile: at least one look at everything that is parked is among it.
async fn loads_of_a_look(house: &House) -> u64 {
    let (store, session) = (house.haft.store(), opened(house).await);
    let before = store.measures().loads();
    let call = parked(house, session).await;
    while store.call(session, call).await.unwrap().unwrap().stage != CallStage::Settled {
        tokio::task::yield_now().await;
    }
    let decided = store.call(session, call).await.unwrap().unwrap().decided.unwrap();
    assert_eq!(decided.kind, DecidedKind::ClientGone);
    while house.haft.driver().n_at_work() > 0 {
        tokio::task::yield_now().await;
    }
    store.measures().loads() - before
}

// E13: a look for calls without a client costs what there is to end, however many are parked.
#[tokio::test(flavor = "multi_thread")]
async fn looking_for_absent_clients_costs_the_same_however_many_calls_are_parked() {
    let grace = || Config { client_grace: Some(Millis(100)), ..Config::default() };
    House::on_both(
        |builder| builder.tool(drawn_by_a_client()),
        grace,
        async |house| {
            let ann = house.admin().await;
            let mut attended = Vec::new();
            let mut attend = async |n_calls: usize| {
                let session = opened(&house).await;
                let path = format!("/haft/v1/sessions/{session}/events/stream?client_tools=draw");
                let stream = ann.stream(&path).await;
                let mut calls = Vec::new();
                for _ in 0..n_calls {
                    calls.push(parked(&house, session).await);
                }
                attended.push((session, stream, calls));
            };
            attend(10).await;
            let with_few = loads_of_a_look(&house).await;
            for _ in 0..10 {
                attend(50).await;
            }
            let with_many = loads_of_a_look(&house).await;
            assert_eq!(with_few, with_many);
            for (session, stream, calls) in attended.drain(..2) {
                let store = house.haft.store();
                for call in &calls {
                    let stage = store.call(session, *call).await.unwrap().unwrap().stage;
                    assert_eq!(stage, CallStage::Waiting, "a client is there for it");
                }
                drop(stream);
                for call in &calls {
                    while store.call(session, *call).await.unwrap().unwrap().stage
                        != CallStage::Settled
                    {
                        tokio::task::yield_now().await;
                    }
                }
            }
        },
    )
    .await;
}

// W11: one call can be asked about by its id, with what came of it, and stopped.
#[tokio::test]
async fn a_call_shows_its_outcome_and_can_be_cancelled() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, call) = ann.call("get_price").await;
    let done = ann.get(&format!("/haft/v1/sessions/{session}/calls/{call}")).await;
    assert_eq!(done["outcome"]["tool"], "get_price", "{done}");
    assert_eq!(done["stage"], "settled");

    let (session, call) = ann.call("refund").await;
    let path = format!("/haft/v1/sessions/{session}/calls/{call}");
    assert_eq!(ann.get(&path).await["outcome"], Value::Null, "it waits");
    ann.post(&format!("{path}/cancel"), &json!({"note": "not needed"})).await;
    let over = ann.get(&path).await;
    assert_eq!(
        (&over["stage"], &over["class"]),
        (&json!("settled"), &json!("cancelled")),
        "{over}"
    );
    assert!(over["outcome"].is_object(), "{over}");
    let again = ann.ask("POST", &format!("{path}/cancel"), &json!({})).await;
    assert_eq!(again.0, 409, "{}", again.1);
}
