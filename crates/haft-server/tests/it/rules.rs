//! What is decided about a tool before any call is made, and why.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

fn of<'a>(rules: &'a Value, called: &str) -> &'a Value {
    let rules = rules["data"].as_array().unwrap();
    rules.iter().find(|rule| rule["called"] == called).unwrap()
}

#[tokio::test]
async fn the_rules_of_a_node_say_what_each_tool_needs_and_why() {
    let house = House::start().await;
    let rules = house.admin().await.get("/haft/v1/rules").await;
    assert_eq!(of(&rules, "refund")["decision"], "ask");
    assert_eq!(
        of(&rules, "refund")["findings"][0],
        json!({"source": "tool", "verdict": "ask", "reason": "declared to ask"})
    );
    assert_eq!(of(&rules, "get_price")["decision"], "allow");
    assert_eq!(of(&rules, "get_price")["findings"][0]["source"], "classifier");
    assert_eq!((&rules["agent"], &rules["level"]), (&Value::Null, &json!("cautious")));
}

#[tokio::test]
async fn the_rules_of_an_agent_are_those_of_its_current_version() {
    let house = House::start().await;
    let ann = house.admin().await;
    let policy = |kind: &str| {
        json!([{
            "type": "agent_toolset_20260401",
            "default_config": {"permission_policy": {"type": kind}},
        }])
    };
    let agent = json!({"name": "A", "model": "scripted/demo", "tools": policy("always_ask")});
    let agent = ann.post("/v1/agents", &agent).await;
    let (id, version) = (agent["id"].as_str().unwrap(), &agent["version"]);
    let path = format!("/haft/v1/rules?agent={id}");
    let asked = ann.get(&path).await;
    let findings = of(&asked, "bash")["findings"].as_array().unwrap();
    assert_eq!(of(&asked, "bash")["decision"], "ask");
    assert!(findings.iter().any(|finding| finding["source"] == "agent"));
    let names = asked["data"].as_array().unwrap().iter().map(|rule| &rule["called"]);
    assert!(!names.clone().any(|name| name == "refund"), "not a tool of this agent");
    let changed = json!({"version": version, "tools": policy("always_allow")});
    ann.post(&format!("/v1/agents/{id}"), &changed).await;
    assert_eq!(of(&ann.get(&path).await, "bash")["decision"], "allow");
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    eve.refused("GET", &path, &Value::Null, 404).await;
}

const NOT_TO_OSLO: &str = r#"
[[rule]]
name = "not there"
tools = ["get_price"]
when = [{ field = "/city", test = { equals = "Oslo" } }]
verdict = "deny"
reason = "no prices from Oslo"
"#;

// What would happen to a call is told without making it, also under rules that do not stand yet.
#[tokio::test]
async fn a_call_is_weighed_before_anyone_makes_it() {
    let house = House::start().await;
    let ann = house.visitor("default", "ann", &[Scope::Read]).await;
    let check = |body: Value| {
        let ann = &ann;
        async move { ann.post("/haft/v1/rules/check", &body).await }
    };
    let asked = check(json!({ "tool": "refund" })).await;
    assert_eq!(asked["decision"], "ask");
    let price = |city: &str| json!({ "tool": "get_price", "arguments": { "city": city }, "policy": NOT_TO_OSLO });
    assert_eq!(check(price("Bergen")).await["decision"], "allow");
    let denied = check(price("Oslo")).await;
    assert_eq!(denied["decision"], "deny");
    assert_eq!(denied["findings"][1]["source"], json!({ "rule": "not there" }));
    let bad = json!({ "tool": "refund", "policy": "[[rule]]\nname = 3\n" });
    let refused = ann.refused("POST", "/haft/v1/rules/check", &bad, 400).await;
    assert!(refused.to_string().contains("policy: line 2, column 8: "), "{refused}");
    ann.refused("POST", "/haft/v1/rules/check", &json!({ "tool": "nothing" }), 404).await;
}
