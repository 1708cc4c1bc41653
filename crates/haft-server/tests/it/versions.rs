//! What a named thing was before, and who changed it.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

#[tokio::test]
async fn every_version_of_a_thing_is_kept_with_who_wrote_it() {
    let house = House::start().await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Read, Scope::Write]).await;
    let made = ann.post("/v1/environments", &json!({"name": "first"})).await;
    let id = made["id"].as_str().unwrap();
    bob.post(&format!("/v1/environments/{id}"), &json!({"name": "second"})).await;
    ann.post(&format!("/v1/environments/{id}"), &json!({"name": "third"})).await;
    let path = format!("/haft/v1/versions/environments/{id}");
    let all = ann.get(&path).await;
    let seen: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (
                version["number"].as_u64().unwrap(),
                text(&version["by"]["id"]),
                text(&version["content"]["name"]),
            )
        })
        .collect();
    let version = |number, by: &str, name: &str| (number, by.to_owned(), name.to_owned());
    assert_eq!(
        seen,
        [version(3, "ann", "third"), version(2, "bob", "second"), version(1, "ann", "first")]
    );
    let page = ann.get(&format!("{path}?limit=2")).await;
    assert_eq!(page["next"], 2);
    let rest = ann.get(&format!("{path}?limit=2&before=2")).await;
    assert_eq!((&rest["data"][0]["number"], &rest["next"]), (&json!(1), &Value::Null));
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    eve.refused("GET", &path, &Value::Null, 404).await;
}

#[tokio::test]
async fn a_kind_that_is_none_is_refused_with_those_there_are() {
    let house = House::start().await;
    let ann = house.admin().await;
    let why = ann.refused("GET", "/haft/v1/versions/cats/x", &Value::Null, 400).await;
    assert!(why.contains("`environments`") && why.contains("\"cats\""), "{why}");
    ann.refused("GET", "/haft/v1/versions/agents/agent_none", &Value::Null, 404).await;
}
