//! Workers over HTTP: a worker's tool is a tool of the node, and its jobs are fenced.

use std::sync::Arc;
use std::time::Duration;

use haft_core::session::Returned;
use haft_runtime::{Haft, Invocation, Middleware, ToolFuture};
use haft_server::{Config, Scope, Workers};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::house::{House, Visitor, unattended};

/// A worker, as a program in any language would be one.
struct Hand {
    visitor: Visitor,
    name: &'static str,
    instance: &'static str,
}

impl Hand {
    async fn of(house: &House, name: &'static str, instance: &'static str) -> Self {
        let visitor = house.visitor("default", "worker", &[Scope::Work]).await;
        Self { visitor, name, instance }
    }

    fn me(&self) -> Value {
        json!({"worker": self.name, "instance": self.instance})
    }

    fn with(&self, more: Value) -> Value {
        let mut body = self.me();
        body.as_object_mut().unwrap().extend(members(more));
        body
    }

    async fn register(&self, tools: &[Value]) -> Value {
        self.visitor.post("/haft/v1/workers/register", &self.with(json!({"tools": tools}))).await
    }

    async fn jobs(&self, wait_ms: u64) -> Vec<Value> {
        let body = self.with(json!({"free": 4, "wait_ms": wait_ms}));
        let found = self.visitor.post("/haft/v1/workers/poll", &body).await;
        found["jobs"].as_array().unwrap().clone()
    }

    /// Waits for one job.
    async fn job(&self) -> Value {
        let mut jobs = self.jobs(30_000).await;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    async fn done(&self, job: &Value, outcome: Value) -> (u16, Value) {
        let body = json!({"lease": job["lease"], "outcome": outcome});
        self.visitor.ask("POST", "/haft/v1/workers/done", &body).await
    }

    async fn beat(&self, job: &Value, more: Value) -> Value {
        let mut body = self.with(json!({"leases": [job["lease"]]}));
        body.as_object_mut().unwrap().extend(members(more));
        self.visitor.post("/haft/v1/workers/beat", &body).await
    }
}

fn members(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// The definition of a tool that pays.
fn pay(more: Value) -> Value {
    let mut definition = json!({
        "name": "pay", "description": "Pays somebody.",
        "input_schema": {
            "type": "object", "properties": {"euro": {"type": "integer"}}, "required": ["euro"],
        },
        "gate": "auto", "facets": {"mutates": "irreversible"},
    });
    definition.as_object_mut().unwrap().extend(members(more));
    definition
}

/// Begins a call in the background, and returns what it comes to.
fn call(visitor: Visitor, tool: &'static str) -> tokio::task::JoinHandle<Value> {
    tokio::spawn(async move {
        let path = format!("/haft/v1/tools/{tool}/call");
        visitor.post(&path, &json!({"arguments": {"euro": 5}})).await
    })
}

fn place(made: &Value) -> String {
    let (session, call) = (made["session"].as_str().unwrap(), made["call"].as_str().unwrap());
    format!("/haft/v1/sessions/{session}/calls/{call}")
}

fn place_of(job: &Value) -> String {
    place(job)
}

/// The kinds of the events of a job's session.
async fn events(ann: &Visitor, job: &Value) -> Vec<String> {
    let path = format!("/haft/v1/sessions/{}/events?limit=1000", job["session"].as_str().unwrap());
    let found = ann.get(&path).await;
    let data = found["data"].as_array().unwrap();
    data.iter().map(|it| it["event"]["type"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until a call is in a stage.
async fn until(ann: &Visitor, path: &str, stage: &str) -> Value {
    loop {
        let found = ann.get(path).await;
        if found["stage"] == stage {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_worker_runs_a_call_that_waited_for_it() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let ann = house.admin().await;
            let hand = Hand::of(&house, "desk", "1").await;
            let told = hand.register(&[pay(json!({}))]).await;
            assert_eq!(told["tools"]["pay"]["current"], true, "{told}");
            let made = call(house.admin().await, "pay");
            // It is queued, with a reason, and has not started.
            let waiting = loop {
                let sessions = ann.get("/haft/v1/sessions").await;
                let session = sessions["data"][0]["id"].as_str().map(str::to_owned);
                tokio::time::sleep(Duration::from_millis(5)).await;
                let Some(session) = session else { continue };
                let shown = ann.get(&format!("/haft/v1/sessions/{session}")).await;
                let queued = shown["queued"].as_array().filter(|it| !it.is_empty()).cloned();
                if let Some(queued) = queued {
                    break queued[0].clone();
                }
            };
            assert_eq!(waiting["pool"], "worker/pay", "{waiting}");
            let because = waiting["because"].as_str().unwrap();
            assert!(because.contains("desk"), "{because}");
            let job = hand.job().await;
            assert_eq!((&job["kind"], &job["arguments"]), (&json!("run"), &json!({"euro": 5})));
            assert_eq!((&job["attempt"], &job["key"]), (&json!(1), &job["call"]), "{job}");
            assert_eq!((&job["tenant"], &job["actor"]["id"]), (&json!("default"), &json!("ann")));
            let (status, said) = hand.done(&job, json!({"type": "ok", "value": {"paid": 5}})).await;
            assert_eq!((status, &said["recorded"]), (200, &json!(true)), "{said}");
            // What was acknowledged is in the log.
            let kinds = events(&ann, &job).await;
            let at = |kind: &str| kinds.iter().position(|found| found == kind);
            assert!(at("call.queued") < at("call.started"), "{kinds:?}");
            assert!(
                at("call.started").is_some() && at("call.started") < at("call.finished"),
                "{kinds:?}"
            );
            let made = made.await.unwrap();
            assert_eq!(made["outcome"]["result"]["ok"]["value"], json!({"paid": 5}), "{made}");
            // Sent again, it is acknowledged again.
            assert_eq!(hand.done(&job, json!({"type": "ok"})).await.0, 200);
        },
    )
    .await;
}

#[tokio::test]
async fn nothing_reaches_a_worker_before_the_approval() {
    let house = House::start().await;
    let ann = house.admin().await;
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({"gate": "ask", "hooks": ["preview"]}))]).await;
    let made = call(house.admin().await, "pay");
    let shown = hand.job().await;
    assert_eq!(shown["kind"], "preview", "{shown}");
    let preview = json!({"type": "preview", "state": 1, "diff": "5 euro leave"});
    assert_eq!(hand.done(&shown, preview.clone()).await.0, 200);
    let made = made.await.unwrap();
    assert_eq!(made["state"], "waiting", "{made}");
    assert!(hand.jobs(50).await.is_empty(), "it waits for a person");
    let pending = ann.get("/haft/v1/pending").await;
    assert_eq!(pending["data"][0]["preview"]["diff"], "5 euro leave", "{pending}");
    ann.post(&format!("{}/resolve", place(&made)), &json!({"type": "approve"})).await;
    // What was shown is looked at again; the world has moved, so the approver is asked again.
    let again = hand.job().await;
    assert_eq!(again["kind"], "preview");
    let moved = json!({"type": "preview", "state": 2, "diff": "5 euro leave"});
    assert_eq!(hand.done(&again, moved.clone()).await.0, 200);
    until(&ann, &place(&made), "waiting").await;
    ann.post(&format!("{}/resolve", place(&made)), &json!({"type": "approve"})).await;
    let third = hand.job().await;
    assert_eq!(hand.done(&third, moved).await.0, 200);
    let run = hand.job().await;
    assert_eq!(run["kind"], "run");
    assert_eq!(hand.done(&run, json!({"type": "ok", "value": 1})).await.0, 200);
    until(&ann, &place(&made), "settled").await;
}

#[tokio::test]
async fn a_worker_that_died_leaves_the_call_in_doubt_and_its_late_word_settles_it() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house| {
            let ann = house.admin().await;
            let first = Hand::of(&house, "desk", "1").await;
            first.register(&[pay(json!({}))]).await;
            let made = call(house.admin().await, "pay");
            let job = first.job().await;
            // The same worker starts again: the process before it is dead.
            let second = Hand::of(&house, "desk", "2").await;
            second.register(&[pay(json!({}))]).await;
            let made = made.await.unwrap();
            assert_eq!(made["state"], "in_doubt", "{made}");
            assert!(made["because"].as_str().unwrap().contains("`desk` died"), "{made}");
            assert!(second.jobs(50).await.is_empty(), "it is not run again by itself");
            let body = first.with(json!({"free": 1}));
            let polled = first.visitor.ask("POST", "/haft/v1/workers/poll", &body);
            let (status, why) = polled.await;
            assert_eq!(
                (status, &why["error"]["details"]["code"]),
                (409, &json!("replaced")),
                "{why}"
            );
            // It was not dead after all, and says what it did.
            let (status, said) = first.done(&job, json!({"type": "ok", "value": "paid"})).await;
            assert_eq!((status, &said["late"]), (200, &json!(true)), "{said}");
            let found = until(&ann, &place(&made), "settled").await;
            assert_eq!(found["outcome"]["result"]["ok"]["value"], "paid", "{found}");
            let (status, said) = first.done(&job, json!({"type": "ok", "value": "paid"})).await;
            assert_eq!(
                (status, &said["error"]["details"]["code"]),
                (409, &json!("stale")),
                "{said}"
            );
        },
    )
    .await;
}

#[tokio::test]
async fn what_a_dead_worker_had_is_recovered_as_its_tool_declares() {
    let house = House::start().await;
    let ann = house.admin().await;
    let keyed = json!({"facets": {"mutates": "irreversible", "idempotency": "keyed"}});
    let mut keyed = pay(keyed);
    keyed["name"] = json!("keyed_pay");
    let mut verified = pay(json!({"hooks": ["verify"]}));
    verified["name"] = json!("verified_pay");
    let tools = [keyed, verified];
    let first = Hand::of(&house, "desk", "1").await;
    first.register(&tools).await;
    let keyed = call(house.admin().await, "keyed_pay");
    let one = first.job().await;
    let verified = call(house.admin().await, "verified_pay");
    let other = first.job().await;
    let second = Hand::of(&house, "desk", "2").await;
    second.register(&tools).await;
    let again = second.job().await;
    assert_eq!((&again["attempt"], &again["key"]), (&json!(2), &one["key"]), "the same key");
    assert_eq!(second.done(&again, json!({"type": "ok", "value": 1})).await.0, 200);
    assert_eq!(keyed.await.unwrap()["state"], "done");
    // Verifying waits for the time of a lease, in which a worker that still runs it can say so.
    let verify = second.job().await;
    assert_eq!((&verify["kind"], &verify["call"]), (&json!("verify"), &other["call"]), "{verify}");
    assert_eq!(second.done(&verify, json!({"type": "applied", "value": "found"})).await.0, 200);
    let found = verified.await.unwrap();
    assert_eq!(found["outcome"]["result"]["ok"]["value"], "found", "{found}");
    assert_eq!(ann.get("/haft/v1/pending").await["data"], json!([]));
}

#[tokio::test]
async fn a_stop_reaches_the_worker_in_the_answer_to_its_beat() {
    let house = House::start().await;
    let ann = house.admin().await;
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({"interrupt": "cancel"}))]).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    let told =
        hand.beat(&job, json!({"progress": {job["lease"].as_str().unwrap(): {"done": 1}}})).await;
    assert_eq!(told, json!({"cancel": [], "lost": []}));
    let waiting = hand.beat(&job, json!({"wait_ms": 5000}));
    let cancel = async { ann.post(&format!("{}/cancel", place_of(&job)), &json!({})).await };
    let (told, _) = tokio::join!(waiting, cancel);
    assert_eq!(told["cancel"], json!([job["lease"]]), "{told}");
    let stopped =
        json!({"type": "error", "class": "cancelled", "message": "stopped", "effect": "none"});
    assert_eq!(hand.done(&job, stopped).await.0, 200);
    let made = made.await.unwrap();
    assert_eq!(made["outcome"]["result"]["err"]["class"], "cancelled", "{made}");
}

#[tokio::test]
async fn a_job_that_a_worker_gives_back_or_never_got_goes_to_the_next() {
    let house = House::start().await;
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({}))]).await;
    let other = Hand::of(&house, "other", "1").await;
    other.register(&[pay(json!({}))]).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    assert_eq!(hand.done(&job, json!({"type": "released"})).await.0, 200);
    let again = other.job().await;
    assert_eq!((&again["call"], &again["attempt"]), (&job["call"], &json!(1)), "{again}");
    assert_eq!(hand.done(&job, json!({"type": "ok"})).await.0, 409, "it is another's now");
    assert_eq!(other.done(&again, json!({"type": "ok", "value": 2})).await.0, 200);
    assert_eq!(made.await.unwrap()["outcome"]["result"]["ok"]["value"], 2);
}

#[tokio::test]
async fn a_worker_that_stops_has_its_open_request_answered() {
    let house = House::start().await;
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({}))]).await;
    let stop = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let body = hand.with(json!({"free": 0}));
        hand.visitor.post("/haft/v1/workers/poll", &body).await
    };
    let began = std::time::Instant::now();
    let (jobs, stopped) = tokio::join!(hand.jobs(30_000), stop);
    assert!(jobs.is_empty() && stopped["jobs"] == json!([]), "{jobs:?} {stopped}");
    assert!(began.elapsed() < Duration::from_secs(25), "it did not wait to the end");
}

#[tokio::test]
async fn only_a_key_of_its_own_makes_a_worker_and_tenants_share_nothing() {
    let house = House::start().await;
    let body = json!({"worker": "desk", "instance": "1", "tools": [pay(json!({}))]});
    let path = "/haft/v1/workers/register";
    let scopes = [Scope::Read, Scope::Write, Scope::Approve];
    let bob = house.visitor("default", "bob", &scopes).await;
    assert!(bob.refused("POST", path, &body, 403).await.contains("work"));
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({}))]).await;
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    assert!(eve.refused("POST", path, &body, 409).await.contains("another tool"));
    eve.refused("POST", "/haft/v1/tools/pay/call", &json!({"arguments": {"euro": 1}}), 404).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    let theirs = json!({"lease": job["lease"], "outcome": {"type": "ok"}});
    assert!(eve.refused("POST", "/haft/v1/workers/done", &theirs, 400).await.contains("never"));
    let forged = job["lease"].as_str().unwrap().replace(".1.", ".2.");
    let forged = json!({"lease": forged, "outcome": {"type": "ok"}});
    let why = hand.visitor.refused("POST", "/haft/v1/workers/done", &forged, 400).await;
    assert!(why.contains("never gave it"), "{why}");
    assert_eq!(hand.done(&job, json!({"type": "ok"})).await.0, 200);
    made.await.unwrap();
    // What is built in is nobody's to replace, and what is wrong is refused by name.
    let mut taken = pay(json!({}));
    taken["name"] = json!("refund");
    let body = hand.with(json!({"tools": [taken]}));
    assert!(hand.visitor.refused("POST", path, &body, 409).await.contains("`refund`"));
    let body = hand.with(json!({"tools": [pay(json!({"executor": "client"}))]}));
    assert!(hand.visitor.refused("POST", path, &body, 400).await.contains("executor"));
}

#[tokio::test]
async fn a_definition_that_changes_counts_from_then_on_and_one_that_vanishes_is_gone() {
    let house = House::start().await;
    let ann = house.admin().await;
    let old = Hand::of(&house, "old", "1").await;
    let told = old.register(&[pay(json!({}))]).await;
    let new = Hand::of(&house, "new", "1").await;
    let changed = pay(json!({"exec_timeout": 20_000}));
    assert_eq!(new.register(std::slice::from_ref(&changed)).await["tools"]["pay"]["current"], true);
    // The older process registers again, as after a lost connection: it stays the older one.
    let again = old.with(json!({"tools": [pay(json!({}))], "since": told["since"]}));
    let again = old.visitor.post("/haft/v1/workers/register", &again).await;
    assert_eq!(again["tools"]["pay"]["current"], false, "{again}");
    let made = call(house.admin().await, "pay");
    assert!(old.jobs(50).await.is_empty(), "its code is not what was agreed to");
    let job = new.job().await;
    assert_eq!(job["timeout_ms"], 20_000);
    assert_eq!(new.done(&job, json!({"type": "ok"})).await.0, 200);
    made.await.unwrap();
    old.register(&[]).await;
    new.register(&[]).await;
    let missing = json!({"arguments": {"euro": 1}});
    ann.refused("POST", "/haft/v1/tools/pay/call", &missing, 404).await;
}

#[tokio::test]
async fn large_results_and_uploads_become_artifacts_and_secrets_stay_out_of_the_log() {
    let house = House::start().await;
    let ann = house.admin().await;
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({}))]).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    let path =
        format!("/haft/v1/workers/keep?lease={}&title=report", job["lease"].as_str().unwrap());
    let headers = "content-type: text/plain\r\n";
    let (status, _, kept) = hand.visitor.with(headers, "POST", &path, &json!("page 1")).await;
    assert_eq!((status, &kept["media_type"]), (200, &json!("text/plain")), "{kept}");
    let large = "x".repeat(200_000);
    let outcome = json!({"type": "ok", "value": large, "artifacts": [kept]});
    assert_eq!(hand.done(&job, outcome).await.0, 200);
    let made = made.await.unwrap();
    let artifacts = made["outcome"]["result"]["ok"]["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 2, "{artifacts:?}");
    let id = kept["id"].as_str().unwrap();
    let (status, text) = ann.text("GET", &format!("/haft/v1/artifacts/{id}"), "").await;
    assert_eq!((status, text.contains("page 1")), (200, true), "{text}");
    assert!(!house.holds(job["lease"].as_str().unwrap()), "a lease is in no log");
}

#[tokio::test]
async fn an_agent_has_a_worker_s_tool_by_its_name_and_its_gate_holds() {
    let script = r#"{"turns": [{"say": "I pay.", "calls": [{"tool": "pay", "arguments": {"euro": 5}}]}, {"say": "Paid."}]}"#;
    let house = House::with(|builder| builder, &[("pays", script)]).await;
    let ann = house.admin().await;
    let agent = json!({
        "name": "Pays", "model": "scripted/pays", "tools": [{"type": "haft_tool", "name": "pay"}],
    });
    let why = ann.refused("POST", "/v1/agents", &agent, 400).await;
    assert!(why.contains("no tool `pay`"), "{why}");
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&[pay(json!({"gate": "ask"}))]).await;
    let agent = ann.post("/v1/agents", &agent).await;
    assert_eq!(agent["tools"][0], json!({"type": "haft_tool", "name": "pay"}), "{agent}");
    let made = ann.post("/haft/v1/sessions", &json!({"agent": agent["id"]})).await;
    let session = made["session"].as_str().unwrap();
    let said = json!({"text": "pay"});
    ann.post(&format!("/haft/v1/sessions/{session}/messages"), &said).await;
    let wait = loop {
        let inbox = ann.get("/haft/v1/pending").await;
        if let Some(wait) = inbox["data"].as_array().unwrap().first() {
            break wait.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&wait["tool"], &wait["kind"]), (&json!("pay"), &json!("approval")), "{wait}");
    let path = format!("/haft/v1/sessions/{session}/calls/{}", wait["call"].as_str().unwrap());
    ann.post(&format!("{path}/resolve"), &json!({"type": "approve"})).await;
    let job = hand.job().await;
    assert_eq!(hand.done(&job, json!({"type": "ok", "value": 5})).await.0, 200);
    until(&ann, &path, "settled").await;
}

#[tokio::test]
async fn a_worker_that_falls_silent_may_still_run_so_what_is_not_seen_is_not_run_again() {
    let house = House::start().await;
    let ann = house.admin().await;
    let silent = Hand::of(&house, "silent", "1").await;
    silent.register(&[pay(json!({"hooks": ["verify"], "exec_timeout": 60_000}))]).await;
    let made = call(house.admin().await, "pay");
    let job = silent.job().await;
    // No beat follows: the lease lapses, and another worker is asked what became of the call.
    let other = Hand::of(&house, "other", "1").await;
    other.register(&[pay(json!({"hooks": ["verify"], "exec_timeout": 60_000}))]).await;
    let verify = other.job().await;
    assert_eq!((&verify["kind"], &verify["call"]), (&json!("verify"), &job["call"]), "{verify}");
    assert_eq!(other.done(&verify, json!({"type": "absent"})).await.0, 200);
    let made = made.await.unwrap();
    assert_eq!(made["state"], "in_doubt", "{made}");
    assert!(made["because"].as_str().unwrap().contains("may still be running"), "{made}");
    assert!(other.jobs(50).await.is_empty(), "it is not run again");
    let beaten = silent.beat(&job, json!({})).await;
    assert_eq!(beaten["lost"], json!([job["lease"]]), "{beaten}");
    assert_eq!(silent.done(&job, json!({"type": "ok", "value": 1})).await.0, 200);
    until(&ann, &place(&made), "settled").await;
}

#[tokio::test]
async fn a_node_that_takes_a_call_over_first_hears_whether_it_still_runs() {
    let house = House::start().await;
    let tools = [pay(json!({"hooks": ["verify"], "exec_timeout": 120_000}))];
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&tools).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    // The next node is there for longer than a lease before this one dies.
    let builder = Haft::builder();
    let workers = Workers::new(builder.registry(), house.haft.store().clone());
    for _ in 0..6 {
        hand.beat(&job, json!({})).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    made.abort();
    let next = house.succeeded_by(builder, workers).await;
    let ann = next.admin().await;
    let hand = Hand::of(&next, "desk", "1").await;
    hand.register(&tools).await;
    let other = Hand::of(&next, "other", "1").await;
    other.register(&tools).await;
    while !events(&ann, &job).await.contains(&"call.interrupted".to_owned()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // As long as its worker names it, nobody is asked what became of it.
    let beats = async {
        for _ in 0..7 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(hand.beat(&job, json!({})).await["lost"], json!([job["lease"]]));
        }
    };
    let (jobs, ()) = tokio::join!(other.jobs(14_000), beats);
    assert!(jobs.is_empty(), "{jobs:?}");
    let (status, said) = hand.done(&job, json!({"type": "ok", "value": "paid"})).await;
    assert_eq!((status, &said["late"]), (200, &json!(true)), "{said}");
    until(&ann, &place_of(&job), "settled").await;
    let kinds = events(&ann, &job).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "call.started").count(), 1, "{kinds:?}");
}

/// Holds every result back before it is recorded, until there is a permit for it.
struct HeldBack(Arc<Semaphore>);

impl Middleware for HeldBack {
    fn after<'a>(&'a self, _: Invocation<'a>, returned: Returned) -> ToolFuture<'a, Returned> {
        Box::pin(async move {
            self.0.acquire().await.unwrap().forget();
            returned
        })
    }
}

#[tokio::test]
async fn what_is_not_recorded_is_not_acknowledged_however_often_it_is_said() {
    let permits = Arc::new(Semaphore::new(0));
    let held_back = HeldBack(Arc::clone(&permits));
    let house = House::with(|builder| builder.middleware(held_back), &[]).await;
    let ann = house.admin().await;
    let hand = Hand::of(&house, "desk", "1").await;
    let mut quick = pay(json!({"exec_timeout": 1500}));
    quick["name"] = json!("quick_pay");
    hand.register(&[pay(json!({})), quick]).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    let paid = json!({"type": "ok", "value": "paid"});
    let again = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (status, said) = hand.done(&job, paid.clone()).await;
        assert_eq!(status, 503, "{said}");
        assert!(!events(&ann, &job).await.contains(&"call.finished".to_owned()));
        permits.add_permits(1);
    };
    let ((status, said), ()) = tokio::join!(hand.done(&job, paid.clone()), again);
    assert_eq!((status, &said["recorded"]), (200, &json!(true)), "{said}");
    assert!(events(&ann, &job).await.contains(&"call.finished".to_owned()));
    let (status, said) = hand.done(&job, paid.clone()).await;
    assert_eq!((status, &said["recorded"]), (200, &json!(true)), "{said}");
    made.await.unwrap();
    // One whose time is up before it is recorded is in doubt, and said again it settles the call.
    let made = call(house.admin().await, "quick_pay");
    let job = hand.job().await;
    let (status, said) = hand.done(&job, paid.clone()).await;
    assert_eq!(status, 503, "{said}");
    let made = made.await.unwrap();
    assert_eq!(made["state"], "in_doubt", "{made}");
    let (status, said) = hand.done(&job, paid).await;
    assert_eq!((status, &said["late"]), (200, &json!(true)), "{said}");
    until(&ann, &place(&made), "settled").await;
}

#[tokio::test]
async fn a_registration_is_not_undone_by_a_look_at_the_store() {
    let mut workers = None;
    let configured = |haft: &Haft| {
        let made = Workers::new(haft.registry().clone(), haft.store().clone());
        workers = Some(made.clone());
        Config { workers: Some(made), ..unattended() }
    };
    let house = House::configured(|builder| builder, &[], configured).await;
    let workers = workers.unwrap();
    let looking = tokio::spawn(async move {
        loop {
            workers.restore().await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let hand = Hand::of(&house, "desk", "1").await;
    let mut tools = Vec::new();
    for n in 0..20 {
        let name = format!("pay_{n}");
        tools.push(pay(json!({"name": name})));
        hand.register(&tools).await;
        for _ in 0..5 {
            assert!(house.haft.registry().get(&name).is_some(), "{name}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    looking.abort();
}

#[tokio::test]
async fn the_time_of_a_call_stands_still_while_no_worker_has_it() {
    let house = House::start().await;
    let tools = [pay(json!({"exec_timeout": 2000}))];
    let hand = Hand::of(&house, "desk", "1").await;
    hand.register(&tools).await;
    let other = Hand::of(&house, "other", "1").await;
    other.register(&tools).await;
    let made = call(house.admin().await, "pay");
    let job = hand.job().await;
    assert_eq!(hand.done(&job, json!({"type": "released"})).await.0, 200);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let again = other.job().await;
    assert_eq!((&again["call"], &again["attempt"]), (&job["call"], &json!(1)), "{again}");
    assert_eq!(other.done(&again, json!({"type": "ok", "value": 2})).await.0, 200);
    assert_eq!(made.await.unwrap()["outcome"]["result"]["ok"]["value"], 2);
}

#[tokio::test]
async fn too_many_tools_and_an_external_mode_that_may_act_are_refused_by_name() {
    let house = House::start().await;
    let hand = Hand::of(&house, "desk", "1").await;
    let path = "/haft/v1/workers/register";
    let many: Vec<Value> = (0..501).map(|n| pay(json!({"name": format!("pay_{n}")}))).collect();
    let body = hand.with(json!({"tools": many}));
    let why = hand.visitor.refused("POST", path, &body, 400).await;
    assert!(why.contains("at most 500, found 501"), "{why}");
    let body = hand.with(json!({"tools": [pay(json!({"mode": "external", "facets": {}}))]}));
    let why = hand.visitor.refused("POST", path, &body, 400).await;
    assert!(why.contains("`pay`") && why.contains("side_effect"), "{why}");
    let looks = json!({"mode": "external", "facets": {"mutates": "none"}});
    hand.register(&[pay(looks)]).await;
}

#[tokio::test]
async fn a_tool_that_its_first_worker_left_to_another_goes_with_that_one() {
    let house = House::start().await;
    let tools = [pay(json!({}))];
    let first = Hand::of(&house, "first", "1").await;
    let second = Hand::of(&house, "second", "1").await;
    let third = Hand::of(&house, "third", "1").await;
    for hand in [&first, &second, &third] {
        hand.register(&tools).await;
    }
    // The newest goes first: what it had is another's then.
    for hand in [&third, &first] {
        hand.register(&[]).await;
        assert!(house.haft.registry().get("pay").is_some(), "{} was not the last", hand.name);
    }
    second.register(&[]).await;
    assert!(house.haft.registry().get("pay").is_none(), "nobody has it");
}
