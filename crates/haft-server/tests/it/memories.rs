//! Memories whose versions are redacted.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::{House, Visitor};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A store with a memory: the path of the store's versions, that of the memory, and the id of its
/// first version.
async fn memory(visitor: &Visitor, content: &str) -> (String, String, String) {
    let store = text(&visitor.post("/v1/memory_stores", &json!({"name": "x"})).await["id"]);
    let path = format!("/v1/memory_stores/{store}");
    let wanted = json!({"path": "/CANARY-path", "content": content});
    let made = visitor.post(&format!("{path}/memories"), &wanted).await;
    let memory = format!("{path}/memories/{}", text(&made["id"]));
    (format!("{path}/memory_versions"), memory, text(&made["memory_version_id"]))
}

#[tokio::test]
async fn a_redacted_version_is_gone_from_the_files_and_tells_who_redacted_it() {
    let house = House::start().await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Read, Scope::Write]).await;
    let (versions, memory, first) = memory(&ann, "CANARY-content").await;
    let redact = format!("{versions}/{first}/redact");
    let why = ann.refused("POST", &redact, &Value::Null, 400).await;
    assert!(why.contains("change or delete the memory first"), "{why}");
    let seen = ann.get(&format!("{versions}/{first}")).await;
    assert_eq!(seen["content"], "CANARY-content");
    ann.post(&memory, &json!({"path": "/other", "content": "two"})).await;
    assert!(house.holds("CANARY-content"));

    let redacted = bob.post(&redact, &Value::Null).await;
    let mut expected = seen;
    for member in ["content", "content_sha256", "content_size_bytes", "path"] {
        expected[member] = Value::Null;
    }
    expected["redacted_at"] = redacted["redacted_at"].clone();
    expected["redacted_by"] = json!({"type": "user_actor", "user_id": "bob"});
    assert_eq!(redacted, expected);
    assert!(redacted["redacted_at"].is_string());
    assert!(!house.holds("CANARY"), "neither content nor path");

    assert_eq!(ann.post(&redact, &Value::Null).await, redacted, "the same again");
    assert_eq!(ann.get(&format!("{versions}/{first}")).await, redacted);
    let listed = ann.get(&format!("{versions}?view=full&operation=created")).await;
    assert_eq!(listed["data"], json!([redacted]));
    assert_eq!(ann.get(&memory).await["content"], "two");
}

#[tokio::test]
async fn a_memory_that_is_gone_may_be_redacted_to_the_last_version() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (versions, memory, _) = memory(&ann, "CANARY-content").await;
    ann.post(&memory, &json!({"content": "CANARY-more"})).await;
    assert_eq!(ann.ask("DELETE", &memory, &Value::Null).await.0, 200);
    let listed = ann.get(&versions).await;
    for version in listed["data"].as_array().unwrap() {
        let redact = format!("{versions}/{}/redact", text(&version["id"]));
        ann.post(&redact, &Value::Null).await;
    }
    assert!(!house.holds("CANARY"));
    let listed = ann.get(&versions).await;
    let shown = listed["data"].as_array().unwrap().iter().map(|version| {
        (text(&version["operation"]), version["redacted_at"].is_string(), version["path"].is_null())
    });
    let shown: Vec<_> = shown.collect();
    let expected = ["deleted", "modified", "created"];
    assert_eq!(shown, expected.map(|operation| (operation.to_owned(), true, true)));
    ann.refused("GET", &memory, &Value::Null, 404).await;
}

#[tokio::test]
async fn only_those_who_may_write_in_the_tenant_redact() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (versions, memory, first) = memory(&ann, "one").await;
    ann.post(&memory, &json!({"content": "two"})).await;
    let redact = format!("{versions}/{first}/redact");
    let reader = house.visitor("default", "rea", &[Scope::Read]).await;
    reader.refused("POST", &redact, &Value::Null, 403).await;
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    eve.refused("POST", &redact, &Value::Null, 404).await;
    for unknown in ["memver_none_1", "nonsense", &format!("{first}9")] {
        let path = format!("{versions}/{unknown}/redact");
        ann.refused("POST", &path, &Value::Null, 404).await;
    }
    assert_eq!(ann.get(&format!("{versions}/{first}")).await["content"], "one");
}
