//! The managed tools in the hands of an agent of `haft serve`.

use serde_json::{Value, json};

use crate::mcp::until;
use crate::outlived::BashModel;
use crate::serving::Serving;

fn agent(server: &Serving, policy: &str) -> String {
    let config = json!({ "permission_policy": { "type": policy } });
    let tools = json!([{ "type": "haft_toolset", "default_config": config }]);
    let agent = json!({ "name": "helper", "model": "anthropic/claude-fake", "tools": tools });
    server.post("/v1/agents", &agent)["id"].as_str().unwrap().to_owned()
}

fn session(server: &Serving, agent: &str) -> String {
    let wanted = json!({ "agent": agent, "environment_id": "env_demo" });
    server.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned()
}

/// Approves what a session asks, if it asks anything.
fn approve(server: &Serving, session: &str) {
    let waits = server.get("/haft/v1/pending")["data"].as_array().unwrap().clone();
    for wait in waits.iter().filter(|wait| wait["session"] == session) {
        let call = wait["call"].as_str().unwrap();
        let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
        server.post(&path, &json!({ "type": "approve" }));
    }
}

/// Has the session's agent make a call, and returns what it was answered, as text. Promoting asks
/// whatever the agent's policy says.
fn called(server: &Serving, session: &str, tool: &str, input: &Value) -> String {
    let events = format!("/v1/sessions/{session}/events");
    let results = || {
        let all = server.get(&format!("{events}?limit=1000"));
        let all = all["data"].as_array().unwrap().clone();
        let is_result = |event: &Value| event["type"].as_str().unwrap().ends_with("tool_result");
        all.into_iter().filter(is_result).map(|event| event.to_string()).collect::<Vec<_>>()
    };
    let before = results().len();
    let told = json!({ "tool": tool, "input": input }).to_string();
    let message = json!({ "type": "user.message", "content": [{ "type": "text", "text": told }] });
    server.post(&events, &json!({ "events": [message] }));
    let answer = until(|| {
        approve(server, session);
        results().get(before).cloned()
    });
    // The model ends its turn before it is told anything else.
    until(|| (server.get(&format!("/v1/sessions/{session}"))["status"] == "idle").then_some(()));
    answer
}

// M2, M3, S2-82: what an agent's sessions share is read by each of them, changed by promoting a
// draft, and by no ordinary tool.
#[test]
fn s2_82_sessions_of_an_agent_share_files_that_only_promoting_changes() {
    let (model, data) = (BashModel::start(), tempfile::tempdir().unwrap());
    let server = model.serve(data.path());
    let agent = agent(&server, "always_allow");
    let first = session(&server, &agent);

    let direct = json!({ "path": "/workspace/agent/guide.md", "content": "mine" });
    let refused = called(&server, &first, "write", &direct);
    assert!(refused.contains("\"is_error\":true"), "{refused}");
    let by_shell = json!({ "command": "echo mine > /workspace/agent/guide.md" });
    let refused = called(&server, &first, "shell_run", &by_shell);
    assert!(refused.contains("Read-only file system"), "{refused}");

    let draft = json!({ "path": "/workspace/guide.md", "content": "Ask before you pay." });
    called(&server, &first, "write", &draft);
    let promote = json!({ "sourcePath": "/workspace/guide.md" });
    let promoted = called(&server, &first, "resources_promote_to_substrate", &promote);
    assert!(!promoted.contains("\"is_error\":true"), "{promoted}");

    let second = session(&server, &agent);
    let look = json!({ "path": "/workspace/agent/guide.md" });
    let seen = called(&server, &second, "read", &look);
    assert!(seen.contains("Ask before you pay."), "{seen}");

    let other = session(&server, &self::agent(&server, "always_allow"));
    let seen = called(&server, &other, "read", &look);
    assert!(!seen.contains("Ask before you pay."), "another agent's: {seen}");
}
