//! Standing permissions beyond a session: tried, given, listed, taken back, by whom they may be.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

const PATH: &str = "/haft/v1/grants";

fn exactly(euro: u32) -> Value {
    let when = json!([{"field": "/euro", "test": {"equals": euro}}]);
    json!({"tool": "refund", "holder": "tenant", "when": when, "uses": 1})
}

#[tokio::test]
async fn a_grant_shows_what_it_would_let_through_and_settles_what_waits() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, first) = ann.call("refund").await;
    let (_, second) = ann.call("refund").await;
    let tried = ann.post(&format!("{PATH}/preview"), &exactly(5)).await;
    let covered = |tried: &Value| {
        let rows = tried["data"].as_array().unwrap().clone();
        let covered = rows.into_iter().filter(|row| row["covered"] == true);
        covered.map(|row| row["call"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        covered(&tried),
        std::slice::from_ref(&first),
        "one use, for who came first: {tried}"
    );
    assert_eq!(tried["looked_at"], json!({"sessions": 2, "calls": 2, "is_all": true}));
    let other = ann.post(&format!("{PATH}/preview"), &exactly(6)).await;
    assert_eq!(other["data"][0]["why"], "`/euro` does not meet its condition", "{other}");
    assert_eq!(ann.get(PATH).await["data"], json!([]), "nothing was given");

    let given = ann.post(PATH, &exactly(5)).await;
    assert_eq!(given["settled"].as_array().unwrap().len(), 1, "{given}");
    let settled = given["settled"][0]["call"].as_str().unwrap().to_owned();
    assert!([&first, &second].contains(&&settled));
    let path = format!(
        "/haft/v1/sessions/{}/calls/{settled}",
        given["settled"][0]["session"].as_str().unwrap()
    );
    let known = ann.get(&path).await;
    assert_eq!(known["decided"]["decision"], "granted", "{known}");
    assert_eq!(known["decided"]["by"]["id"], "ann");
    let late = ann.refused("POST", &format!("{path}/resolve"), &json!({"type": "deny"}), 409).await;
    assert!(late.contains("stale"), "{late}");
    assert_eq!(ann.get("/haft/v1/pending").await["data"].as_array().unwrap().len(), 1);

    let listed = ann.get(PATH).await;
    assert_eq!(listed["data"][0]["grant"]["uses_left"], 0, "{listed}");
    let id = listed["data"][0]["grant"]["id"].as_str().unwrap();
    let (status, _) = ann.ask("DELETE", &format!("{PATH}/{id}"), &Value::Null).await;
    assert_eq!(status, 200);
    ann.refused("DELETE", &format!("{PATH}/{id}"), &Value::Null, 404).await;
    assert_eq!(ann.get(PATH).await["data"], json!([]));
    drop(session);
}

#[tokio::test]
async fn people_give_themselves_and_only_administrators_give_others() {
    let house = House::start().await;
    let ann = house.admin().await;
    let approver = [Scope::Read, Scope::Write, Scope::Approve];
    let bob = house.visitor("default", "bob", &approver).await;
    let carol = house.visitor("default", "carol", &[Scope::Read, Scope::Write]).await;
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    let own = bob.post(PATH, &json!({"tool": "refund"})).await;
    assert_eq!(own["holder"], json!({"user": "bob"}));
    for holder in [json!("tenant"), json!({"user": "carol"}), json!({"agent": "agent_demo"})] {
        let wanted = json!({"tool": "refund", "holder": holder});
        let why = bob.refused("POST", PATH, &wanted, 403).await;
        assert!(why.contains("admin"), "{why}");
        carol.refused("POST", PATH, &wanted, 403).await;
    }
    carol.refused("POST", PATH, &json!({"tool": "refund"}), 403).await;
    for (wanted, status) in [
        (json!({"tool": "no_such"}), 404),
        (json!({"tool": "refund", "holder": {"agent": "agent_none"}}), 404),
        (json!({"tool": "refund", "holder": "everyone"}), 400),
        (json!({"tool": "refund", "until": "tomorrow"}), 400),
        (json!({}), 400),
    ] {
        ann.refused("POST", PATH, &wanted, status).await;
    }
    let of_all = ann.post(PATH, &json!({"tool": "refund", "holder": "tenant"})).await;
    let n_seen =
        async |who: &crate::house::Visitor| who.get(PATH).await["data"].as_array().unwrap().len();
    assert_eq!((n_seen(&ann).await, n_seen(&bob).await), (2, 2));
    assert_eq!((n_seen(&carol).await, n_seen(&eve).await), (1, 0), "bob's is his own");
    let path = |given: &Value| format!("{PATH}/{}", given["grant"]["id"].as_str().unwrap());
    bob.refused("DELETE", &path(&of_all), &Value::Null, 403).await;
    carol.refused("DELETE", &path(&own), &Value::Null, 403).await;
    eve.refused("DELETE", &path(&of_all), &Value::Null, 404).await;
    assert_eq!(bob.ask("DELETE", &path(&own), &Value::Null).await.0, 200);
    assert_eq!(n_seen(&ann).await, 1);
}
