//! The times at which sessions go on by themselves: seen, queued, taken back.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

const LATER: u64 = 3_600_000;

#[tokio::test]
async fn a_wake_is_queued_listed_and_taken_back() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = ann.session().await;
    let wish = json!({"after_ms": LATER, "reason": "look again", "priority": "high"});
    let queued = ann.post(&format!("/haft/v1/wakes/{session}"), &wish).await;
    let listed = ann.get("/haft/v1/wakes").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let found = &listed["data"][0];
    assert_eq!((&found["session"], &found["state"]), (&json!(session), &json!("queued")));
    assert_eq!(found["wake"]["id"], queued["wake"]);
    assert_eq!(found["wake"]["reason"], "look again");
    let id = queued["wake"].as_str().unwrap();
    let path = format!("/haft/v1/wakes/{session}/{id}");
    assert_eq!(ann.ask("DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(ann.get(&format!("/haft/v1/wakes?session={session}")).await["data"], json!([]));
    let again = ann.refused("DELETE", &path, &Value::Null, 400).await;
    assert!(again.contains("wake"), "{again}");
}

#[tokio::test]
async fn wakes_are_read_page_by_page_of_sessions() {
    let house = House::start().await;
    let ann = house.admin().await;
    for n in 0..3 {
        let session = ann.session().await;
        let wish = json!({"after_ms": LATER, "reason": format!("{n}")});
        ann.post(&format!("/haft/v1/wakes/{session}"), &wish).await;
    }
    let (mut reasons, mut next) = (Vec::new(), String::new());
    loop {
        let page = ann.get(&format!("/haft/v1/wakes?limit=1{next}")).await;
        let found = page["data"].as_array().unwrap().clone();
        reasons
            .extend(found.iter().map(|found| found["wake"]["reason"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    reasons.sort();
    assert_eq!(reasons, ["0", "1", "2"]);
}

#[tokio::test]
async fn what_no_wake_can_be_is_refused_with_what_was_expected() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = ann.session().await;
    let path = format!("/haft/v1/wakes/{session}");
    let why = async |body: Value| ann.refused("POST", &path, &body, 400).await;
    assert!(why(json!({"reason": "x"})).await.contains("after_ms"));
    assert!(why(json!({"after_ms": -1, "reason": "x"})).await.contains("after_ms"));
    let unknown = why(json!({"after_ms": 1, "reason": "x", "when": "now"})).await;
    assert!(unknown.contains("when") && unknown.contains("expected"), "{unknown}");
    let limit = ann.refused("GET", "/haft/v1/wakes?limit=0", &Value::Null, 400).await;
    assert_eq!(limit, "`limit`: expected 1 to 500, found 0");
    ann.refused("GET", "/haft/v1/wakes?after=nonsense", &Value::Null, 400).await;
}

#[tokio::test]
async fn nobody_sees_or_moves_the_wakes_of_others() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = ann.session().await;
    let wish = json!({"after_ms": LATER, "reason": "mine"});
    ann.post(&format!("/haft/v1/wakes/{session}"), &wish).await;
    let others = [
        house.visitor("other", "eve", &[Scope::Admin]).await,
        house.visitor("default", "bob", &[Scope::Read, Scope::Write]).await,
    ];
    for other in others {
        assert_eq!(other.get("/haft/v1/wakes").await["data"], json!([]));
        other.refused("GET", &format!("/haft/v1/wakes?session={session}"), &Value::Null, 404).await;
        other.refused("POST", &format!("/haft/v1/wakes/{session}"), &wish, 404).await;
    }
}
