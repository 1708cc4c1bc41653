//! What those who follow a session are told when it is deleted.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::house::{House, Visitor, asking_agent};
use crate::threads::PATIENCE;

async fn opened(ann: &Visitor) -> String {
    let agent = ann.post("/v1/agents", &asking_agent()).await;
    let wanted = json!({"agent": agent["id"], "environment_id": "env_demo"});
    ann.post("/v1/sessions", &wanted).await["id"].as_str().unwrap().to_owned()
}

// A stream does not outlive its session.
#[tokio::test(flavor = "multi_thread")]
async fn every_stream_of_a_session_ends_when_it_is_deleted_and_says_so() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = opened(&ann).await;
    let other = opened(&ann).await;
    let paths = [
        "/v1/sessions/ID/events/stream",
        "/haft/v1/sessions/ID/stream",
        "/haft/v1/sessions/ID/events/stream",
    ];
    let mut streams = Vec::new();
    for path in paths {
        streams.push((path, ann.stream(&path.replace("ID", &session)).await));
    }
    let gone = ann.ask("DELETE", &format!("/v1/sessions/{session}"), &Value::Null).await;
    assert_eq!((gone.0, &gone.1["type"]), (200, &json!("session_deleted")));
    for (path, mut stream) in streams {
        let mut told = String::new();
        let whole = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut told)).await;
        whole.unwrap_or_else(|_| panic!("{path} does not end: {told}")).unwrap();
        let events: Vec<&str> =
            told.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(events.last(), Some(&"session.deleted"), "{path}: {told}");
        assert!(events.len() > 1, "{path}: the end of the session is told before: {told}");
    }
    for path in paths {
        let (status, _) = ann.ask("GET", &path.replace("ID", &session), &Value::Null).await;
        assert_eq!(status, 404, "{path}: there is no log of it any more");
    }
    let (status, _) = ann.ask("GET", &format!("/v1/sessions/{other}"), &Value::Null).await;
    assert_eq!(status, 200, "the other one is there");
}
