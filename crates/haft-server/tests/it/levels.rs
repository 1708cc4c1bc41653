//! How much is asked in an agent's sessions: what its tools declare, what its author says about
//! them, and the level.

use serde_json::{Value, json};

use crate::house::{House, Visitor};

const REFUNDS: &str = r#"{
    "turns": [
        {"say": "One moment.", "calls": [{"tool": "refund", "arguments": {"euro": 5}}]},
        {"say": "Done."}
    ]
}"#;

const CONFIRMS: &str = r#"{
    "turns": [
        {"say": "One moment.", "calls": [{"tool": "ship", "arguments": {}}]},
        {"say": "Done."}
    ]
}"#;

const MANAGED: &str = r#"{
    "turns": [
        {"say": "Looking.", "calls": [
            {"tool": "glob", "arguments": {"path": "/workspace", "pattern": "*.nothing-is-called-so"}},
            {"tool": "sandbox_describe", "arguments": {}}
        ]},
        {"say": "Now a command.", "calls": [{"tool": "shell_run", "arguments": {"command": "true"}}]},
        {"say": "Done."}
    ]
}"#;

/// Opens a session of an agent, speaks to it, and returns what is asked in it once it rests.
async fn asked(ann: &Visitor, agent: &Value, mut opening: Value) -> Vec<String> {
    opening["agent"] = ann.post("/v1/agents", agent).await["id"].clone();
    opening["message"] = json!("go");
    let session = ann.post("/haft/v1/sessions", &opening).await["session"].clone();
    let events = format!("/v1/sessions/{}/events?limit=1000", session.as_str().unwrap());
    for _ in 0..3000 {
        if ann.get(&events).await.to_string().contains("session.status_idle") {
            let waits = ann.get("/haft/v1/pending").await;
            let waits = waits["data"].as_array().unwrap().iter();
            let asked = waits.filter(|it| it["session"] == session && it["kind"] == "approval");
            return asked.map(|wait| wait["tool"].as_str().unwrap().to_owned()).collect();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the session does not come to rest");
}

fn refunding(policy: Option<&str>) -> Value {
    let mut tool = json!({"type": "haft_tool", "name": "refund"});
    if let Some(policy) = policy {
        tool["permission_policy"] = json!({ "type": policy });
    }
    json!({"name": "Desk", "model": "scripted/refunds", "tools": [tool]})
}

// M1, M2: a tool that the server has is named by an agent, and asks because it declares so.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_registered_tool_declares_is_asked_unless_the_agents_author_allows_it() {
    let house = House::with(|builder| builder, &[("refunds", REFUNDS)]).await;
    let ann = house.admin().await;
    assert_eq!(asked(&ann, &refunding(None), json!({})).await, ["refund"]);
    assert_eq!(asked(&ann, &refunding(Some("as_declared")), json!({})).await, ["refund"]);
    assert_eq!(asked(&ann, &refunding(Some("always_ask")), json!({})).await, ["refund"]);
    let none: [&str; 0] = [];
    assert_eq!(asked(&ann, &refunding(Some("always_allow")), json!({})).await, none);
}

// M1: the level is an agent's and a session's, and the session's word counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_level_of_an_agent_and_of_a_session_says_how_much_is_asked() {
    let house = House::with(|builder| builder, &[("refunds", REFUNDS)]).await;
    let ann = house.admin().await;
    let mut free = refunding(None);
    free["permission_level"] = json!("autonomous");
    let none: [&str; 0] = [];
    assert_eq!(asked(&ann, &free, json!({})).await, none);
    let stricter = json!({ "permission_level": "cautious" });
    assert_eq!(asked(&ann, &free, stricter).await, ["refund"]);
    let paranoid = json!({ "permission_level": "paranoid" });
    assert_eq!(asked(&ann, &refunding(Some("always_allow")), paranoid).await, ["refund"]);

    let made = ann.post("/v1/agents", &refunding(None)).await;
    assert_eq!(made["permission_level"], "cautious");
    let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
    let changed = ann.post(&path, &json!({"permission_level": "standard"})).await;
    assert_eq!(changed["permission_level"], "standard");
    let opening = json!({"agent": made["id"]});
    let session = ann.post("/haft/v1/sessions", &opening).await["session"].clone();
    let shown = ann.get(&format!("/v1/sessions/{}", session.as_str().unwrap())).await;
    assert_eq!(shown["permission_level"], "standard");

    let mut wrong = refunding(None);
    wrong["permission_level"] = json!("brave");
    let told = ann.refused("POST", "/v1/agents", &wrong, 400).await;
    assert!(told.contains("`autonomous`, `cautious`, `standard` or `paranoid`"), "{told}");
    let wrong = json!({"agent": made["id"], "permission_level": "brave"});
    let told = ann.refused("POST", "/haft/v1/sessions", &wrong, 400).await;
    assert!(told.contains("permission_level"), "{told}");
}

// M1: a gated tool that a client runs is approved before anyone runs it.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_asks_is_asked_about_in_a_served_agent() {
    let house = House::with(|builder| builder, &[("confirms", CONFIRMS)]).await;
    let ann = house.admin().await;
    let agent = |gate: &str| {
        let definition = json!({
            "name": "ship", "description": "Ships it. Use when it is ready.",
            "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
            "executor": "client", "gate": gate,
        });
        let tools = json!([{"type": "haft_tool", "definition": definition}]);
        json!({"name": "Ships", "model": "scripted/confirms", "tools": tools})
    };
    assert_eq!(asked(&ann, &agent("ask"), json!({})).await, ["ship"]);
    let none: [&str; 0] = [];
    assert_eq!(asked(&ann, &agent("auto"), json!({})).await, none);
}

// L4: what only code can do is refused by name where there is no code.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_without_code_has_no_undo_and_no_hooks() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = |member: &str, value: Value| {
        let mut definition = json!({
            "name": "ship", "description": "Ships it. Use when it is ready.",
            "input_schema": {"type": "object", "properties": {}}, "executor": "client",
        });
        definition[member] = value;
        json!({"name": "A", "model": "scripted/demo",
               "tools": [{"type": "haft_tool", "definition": definition}]})
    };
    let undo = json!({"tool": "unship", "arguments": {}, "window": 1000});
    for (member, value) in [("undo", undo), ("hooks", json!(["preview"]))] {
        let told = ann.refused("POST", "/v1/agents", &agent(member, value), 400).await;
        assert!(told.contains(&format!("`{member}` needs code")), "{told}");
    }
}

// M2: an agent made over HTTP has the managed tools, and each is as it declares.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_the_managed_tools_and_each_is_as_it_declares() {
    let house = House::managed(&[("managed", MANAGED)]).await;
    let ann = house.admin().await;
    let toolset = |rest: Value| {
        let mut tool = json!({"type": "haft_toolset"});
        tool.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"name": "M", "model": "scripted/managed", "tools": [tool]})
    };
    assert_eq!(asked(&ann, &toolset(json!({})), json!({})).await, ["shell_run"]);
    let allowed = json!({"default_config": {"permission_policy": {"type": "always_allow"}},
        "configs": [{"name": "glob", "permission_policy": {"type": "always_ask"}}]});
    assert_eq!(asked(&ann, &toolset(allowed), json!({})).await, ["glob"]);

    let made = ann.post("/v1/agents", &toolset(json!({}))).await;
    let policy = &made["tools"][0]["default_config"]["permission_policy"];
    assert_eq!(policy, &json!({"type": "as_declared"}));
    let path = format!("/haft/v1/rules?agent={}", made["id"].as_str().unwrap());
    let rules = ann.get(&path).await;
    let names: Vec<&str> = rules["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["called"].as_str().unwrap())
        .collect();
    for definition in haft_tools::catalogue() {
        assert!(names.contains(&definition.name.as_str()), "{} is offered", definition.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_managed_tools_do_not_have_is_refused_by_name() {
    let house = House::managed(&[]).await;
    let ann = house.admin().await;
    let agent = |tools: Value| json!({"name": "M", "model": "scripted/demo", "tools": tools});
    let refused = [
        (json!([{"type": "haft_toolset", "configs": [{"name": "fly"}]}]), "no tool \"fly\""),
        (
            json!([{"type": "haft_toolset", "configs": [{"name": "read"}, {"name": "read"}]}]),
            "twice",
        ),
        (json!([{"type": "haft_toolset"}, {"type": "agent_toolset_20260401"}]), "not both"),
        (json!([{"type": "haft_toolset"}, {"type": "haft_tool", "name": "read"}]), "two tools"),
        (json!([{"type": "haft_tool", "name": "fly"}]), "no tool `fly`"),
        (json!([{"type": "haft_tool"}]), "either the `name`"),
    ];
    for (tools, why) in refused {
        let told = ann.refused("POST", "/v1/agents", &agent(tools), 400).await;
        assert!(told.contains(why), "{told}");
    }
}
