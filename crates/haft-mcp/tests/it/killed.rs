//! Tasks whose server is killed between their creation and the first look at them.

use serde_json::json;

use crate::fixture::Server;
use crate::wire::Client;

fn killed_after(tool: &str, arguments: serde_json::Value) -> (Server, String, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let made = Client::with_tasks(&server.url).call(tool, arguments);
    assert_eq!(made["resultType"], "task", "{made}");
    let id = made["taskId"].as_str().unwrap().to_owned();
    (server.killed(), id, directory)
}

// Issue 8: the Tasks scenarios with the server killed before the first poll.
#[test]
fn a_running_task_survives_its_server() {
    let (server, id, _directory) =
        killed_after("slow_compute", json!({"seconds": 1, "label": "x"}));
    let done = Client::with_tasks(&server.url).task_in(&id, &["completed", "failed"]);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["content"][0]["text"], "slow_compute(x) done after 1s");
}

#[test]
fn tasks_that_fail_fail_after_their_server_died_too() {
    let (server, id, _directory) = killed_after("failing_job", json!({}));
    let done = Client::with_tasks(&server.url).task_in(&id, &["completed", "failed"]);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    let (server, id, _directory) = killed_after("protocol_error_job", json!({}));
    let done = Client::with_tasks(&server.url).task_in(&id, &["completed", "failed"]);
    assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[test]
fn a_question_survives_its_server_and_is_answered_in_parts() {
    let (server, id, _directory) = killed_after("multi_input", json!({}));
    let client = Client::with_tasks(&server.url);
    let answer = |name: &str| json!({"action": "accept", "content": {"name": name}});
    // One is asked after the other.
    let mut asks = client.task_in(&id, &["input_required"]);
    while asks["inputRequests"].as_object().unwrap().len() < 2 {
        asks = client.task_in(&id, &["input_required"]);
    }
    let one = json!({"taskId": id, "inputResponses": {"input-a": answer("one")}});
    client.request("tasks/update", one);
    // The answer is kept, not only the question.
    let server = server.killed();
    let client = Client::with_tasks(&server.url);
    let asks = client.task_in(&id, &["input_required"]);
    let left: Vec<&String> = asks["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["input-b"]);
    let two = json!({"taskId": id, "inputResponses": {"input-b": answer("two"), "other": {}}});
    client.request("tasks/update", two);
    let done = client.task_in(&id, &["completed", "failed"]);
    assert_eq!(done["result"]["content"][0]["text"], "multi_input: a = one, b = two");
}

#[test]
fn a_task_that_is_cancelled_after_its_server_died_ends_at_once() {
    let (server, id, _directory) = killed_after("slow_compute", json!({"seconds": 600}));
    let client = Client::with_tasks(&server.url);
    client.task_in(&id, &["working"]);
    client.request("tasks/cancel", json!({"taskId": id}));
    let done = client.task_in(&id, &["cancelled", "completed", "failed"]);
    // Whoever is first decides how it ended: the client, or the node that found it interrupted.
    let text = done["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(done["status"] == "cancelled" || text.starts_with("interrupted"), "{done}");
}

#[test]
fn a_request_that_needs_input_is_made_again_at_another_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let capabilities = json!({"elicitation": {"form": {}}});
    let tool = "test_input_required_result_elicitation";
    let asks = Client::new(&server.url, capabilities.clone()).call(tool, json!({}));
    assert_eq!(asks["resultType"], "input_required", "{asks}");
    let server = server.killed();
    let answer = json!({"user_name": {"action": "accept", "content": {"name": "Ann"}}});
    let again = json!({
        "name": tool,
        "arguments": {},
        "inputResponses": answer,
        "requestState": asks["requestState"],
    });
    let done = Client::new(&server.url, capabilities).request("tools/call", again);
    assert_eq!(done["content"][0]["text"], "Hello, Ann!", "{done}");
}
