//! Which environment a session works in whose client names none.

use serde_json::{Value, json};

use crate::house::{House, Visitor, asking_agent};
use crate::once::posted;

async fn environment(ann: &Visitor, name: &str, metadata: Value) -> String {
    let declared = json!({"name": name, "metadata": metadata});
    ann.post("/v1/environments", &declared).await["id"].as_str().unwrap().to_owned()
}

/// Begins a thread in each way, and returns where the sessions work.
async fn threads(ann: &Visitor, agent: &str, thread: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, body) in posted(agent, thread, "go") {
        let (status, told) = ann.text("POST", &path, &body.to_string()).await;
        assert_eq!(status, 200, "{path}: {told}");
        found.push(newest(ann).await);
    }
    let session = ann.post("/haft/v1/sessions", &json!({"agent": agent})).await;
    let session = ann.get(&format!("/v1/sessions/{}", session["session"].as_str().unwrap())).await;
    found.push(session["environment_id"].as_str().unwrap().to_owned());
    found
}

/// Where the session works whose thread was begun last.
async fn newest(ann: &Visitor) -> String {
    let listed = ann.get("/v1/sessions?limit=100").await;
    let sessions = listed["data"].as_array().unwrap().iter();
    let newest = sessions.max_by_key(|session| session["created_at"].as_str().unwrap());
    newest.unwrap()["environment_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_without_an_environment_works_in_the_default_however_many_there_are() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = ann.post("/v1/agents", &asking_agent()).await["id"].as_str().unwrap().to_owned();
    assert_eq!(threads(&ann, &agent, "one").await, ["env_demo"; 3]);
    let other = environment(&ann, "Other", json!({})).await;
    assert_eq!(threads(&ann, &agent, "two").await, ["env_demo"; 3], "the oldest, as before");
    let mine = environment(&ann, "Mine", json!({"haft.default": "true"})).await;
    assert_eq!(threads(&ann, &agent, "three").await, [&*mine; 3], "the one that is marked");
    let body = posted(&agent, "four", "go")[0].1.to_string();
    let path = format!("/ag-ui/{agent}?environment={other}");
    assert_eq!(ann.text("POST", &path, &body).await.0, 200);
    assert_eq!(newest(&ann).await, other, "the one that is named");
    let too = environment(&ann, "Mine too", json!({"haft.default": "true"})).await;
    for (path, body) in posted(&agent, "five", "go") {
        let refused = ann.refused("POST", &path, &body, 400).await;
        assert!(refused.contains(&mine) && refused.contains(&too), "{refused}");
        assert!(refused.contains("\"Mine too\"") && !refused.contains(&other), "{refused}");
    }
}
