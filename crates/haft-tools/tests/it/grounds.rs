//! What a session stands on, what its calls would be asked about, and the files that say so.

use crate::agency::Agency;
use serde_json::{Value, json};

// S2-T1, S2-T2, S2-T3, S2-T4, S2-T17, S2-28, S2-29, S2-30, S2-31.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t1_s2_t2_s2_t3_s2_t4_s2_t17_s2_28_s2_29_s2_30_s2_31_the_ground_is_described_and_compared()
 {
    let agency = Agency::new();
    let (one, other) = (agency.session("ada").await, agency.session("ada").await);
    let environment = agency.call(one, "environment_describe", json!({})).await.unwrap();
    assert_eq!(
        (&environment["id"], &environment["sandbox"]["networkAccess"]),
        (&json!("local-default"), &json!("disabled"))
    );
    let setup = agency.call(one, "agent_describe_setup", json!({})).await.unwrap();
    assert_eq!(setup["agentSetup"]["fingerprint"], environment["agentSetupFingerprint"]);
    assert_eq!(setup["agentSetup"]["model"], "scripted");
    let asks = setup["agentSetup"]["permissions"]["alwaysAskTools"].as_array().unwrap();
    assert!(asks.contains(&json!("shell_run")));
    let unknown = json!({ "sessionId": other });
    let none = agency.call(one, "agent_describe_setup", unknown.clone()).await.unwrap();
    assert_eq!((&none["available"], none["reason"].is_string()), (&json!(false), true));
    agency.call(other, "environment_describe", json!({})).await.unwrap();
    let same = agency.call(one, "agent_compare_setup", unknown.clone()).await.unwrap();
    assert_eq!((&same["sameSetup"], &same["changedSections"]), (&json!(true), &json!([])));
    // A bootstrap file that changes is another system prompt.
    std::fs::write(agency.shared("AGENTS.md"), "be careful").unwrap();
    let drifted = agency.call(one, "agent_compare_setup", unknown).await.unwrap();
    assert_eq!(
        (&drifted["sameSetup"], &drifted["changedSections"]),
        (&json!(false), &json!(["system_prompt"]))
    );
    let vaults = agency.call(one, "vault_list", json!({})).await.unwrap();
    assert_eq!(
        (&vaults["count"], &vaults["vaults"][0]["vaultName"]),
        (&json!(1), &json!("deploy"))
    );
    for (tool, arguments) in [
        ("read", json!({ "path": "/vaults/deploy/key" })),
        ("glob", json!({ "path": "/vaults", "pattern": "**" })),
        ("grep", json!({ "path": "/vaults/deploy", "query": "key" })),
    ] {
        assert!(agency.call(one, tool, arguments).await.is_err(), "{tool}");
    }
    let mounted = agency.call(one, "resources_list", json!({})).await.unwrap();
    let kinds: Vec<&Value> =
        mounted["resources"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["session_workspace", "agent_workspace_substrate"]);
}

// S2-T5, S2-T6, S2-17, S2-18, S2-20, S2-21, S2-22, S2-23: what a call would meet.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t5_s2_t6_s2_17_s2_18_s2_20_s2_21_s2_22_s2_23_a_call_is_checked_before_it_is_made() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let check = async |tool: &str, arguments: Value| {
        let wanted = json!({ "toolName": tool, "toolArgs": arguments });
        agency.call(one, "permissions_check", wanted).await.unwrap()
    };
    let free = check("read", json!({ "path": "a.txt" })).await;
    assert_eq!(
        (&free["exists"], &free["requiresConfirmation"], &free["readOnly"]),
        (&json!(true), &json!(false), &json!(true))
    );
    assert_eq!(free["nextStep"], Value::Null);
    let look = check("shell_run", json!({ "command": "cat a.txt" })).await;
    assert_eq!(
        (&look["requiresConfirmation"], &look["permissionPolicy"]),
        (&json!(true), &json!("always_ask"))
    );
    assert_eq!(
        (&look["nextStep"]["tool"], &look["readOnlyAlternative"]["tool"]),
        (&json!("read"), &json!("read"))
    );
    assert!(look["shellMutationPosture"].is_object());
    assert_eq!(look["shellReadFirstAlternatives"].as_array().unwrap().len(), 3);
    assert_eq!(check("shell_run", json!({ "command": "pwd" })).await["nextStep"]["tool"], "bash");
    assert_eq!(
        check("shell_exec", json!({ "command": "make" })).await["nextStep"]["tool"],
        "shell_open"
    );
    assert_eq!(
        check("shell_run", json!({ "command": "cat a > b" })).await["nextStep"]["tool"],
        "shell_describe"
    );
    // D3: the other way to write it is weighed as what it is.
    let hidden =
        check("sandbox_execute", json!({ "name": "run_shell", "input": { "command": "make" } }))
            .await;
    assert_eq!(
        (&hidden["toolName"], &hidden["requiresConfirmation"]),
        (&json!("shell_run"), &json!(true))
    );
    let shared = check("memory_promote_note", json!({ "content": "x" })).await;
    assert_eq!((&shared["requiresOutcomePass"], &shared["allowed"]), (&json!(true), &json!(true)));
    agency.aim(one, "ship", &["out"]).await;
    let shared = check("memory_promote_note", json!({ "content": "x" })).await;
    assert_eq!(
        (&shared["allowed"], &shared["outcomeEvaluation"]["status"]),
        (&json!(false), &json!("not_ready"))
    );
    assert!(shared["nextStep"]["tool"].as_str().unwrap().starts_with("outcome_"));
    let none = check("no_such_tool", json!({})).await;
    assert_eq!((&none["exists"], &none["allowed"]), (&json!(false), &json!(false)));
    let posture = agency.call(one, "permissions_describe", json!({})).await.unwrap();
    let names = |list: &Value| list.as_array().unwrap().len();
    assert_eq!((names(&posture["alwaysAskTools"]), names(&posture["outcomeGatedTools"])), (5, 3));
}

// S2-T33, S2-T34, S2-T35, S2-65, S2-66: from a listing to the body.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t33_s2_t34_s2_t35_s2_65_s2_66_skills_are_listed_searched_and_read() {
    let agency = Agency::new();
    let skill = agency.place.outside().join("skills/ship");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: ship\ndescription: How to release\n---\nFirst, test.\n",
    )
    .unwrap();
    let one = agency.session("ada").await;
    let listed = agency.call(one, "skills_list", json!({})).await.unwrap();
    assert_eq!(
        (&listed["count"], &listed["skills"][0]["preview"]),
        (&json!(1), &json!("First, test."))
    );
    let hits = agency.call(one, "skills_search", json!({ "query": "release" })).await.unwrap();
    let next = &hits["hits"][0]["nextStep"];
    assert_eq!(next["tool"], "skills_read");
    let read = agency.call(one, "skills_read", next["args"].clone()).await.unwrap();
    assert!(read["content"].as_str().unwrap().contains("First, test."));
    let short =
        agency.call(one, "skills_read", json!({ "name": "ship", "maxChars": 3 })).await.unwrap();
    assert_eq!((&short["content"], &short["truncated"]), (&json!("---"), &json!(true)));
    assert!(agency.call(one, "skills_read", json!({ "name": "../ship" })).await.is_err());
}

// S2-A1 to S2-A27, S2-27, S2-51, S2-81, D17: the same answers as files, and nothing secret in them.
#[tokio::test(flavor = "multi_thread")]
async fn s2_a1_s2_a2_s2_a3_s2_a4_s2_a5_s2_a6_s2_a7_s2_a8_s2_a9_s2_a10_s2_a11_s2_a12_s2_a13_s2_27_s2_51_s2_81_d17_answers_are_files_too()
 {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    const SECRET: &str = "hunter2-very-secret";
    let set = json!({ "key": "API_TOKEN", "value": SECRET });
    agency.call(one, "shell_set_env", set).await.unwrap();
    agency.shell(one, "echo $API_TOKEN; env").await;
    agency.aim(one, "ship", &["out"]).await;
    let snapshot = agency.call(one, "session_get_snapshot", json!({})).await.unwrap();
    let posture = agency.call(one, "permissions_describe", json!({})).await.unwrap();
    for (name, path) in snapshot["artifactPaths"].as_object().unwrap() {
        if name == "staged-substrate.json" {
            continue;
        }
        let read = agency.call(one, "read", json!({ "path": path, "maxChars": 200000 })).await;
        let read = read.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(!read.to_string().contains(SECRET), "{path}");
    }
    let file = |name: &str| -> Value {
        serde_json::from_str(&agency.place.content(&format!(".haft-runtime/{name}"))).unwrap()
    };
    assert_eq!(file("permission-posture.json")["alwaysAskTools"], posture["alwaysAskTools"]);
    assert_eq!(file("session-status.json")["outcomeEvaluation"], file("outcome-evaluation.json"));
    assert_eq!(file("outcome.json")["title"], "ship");
    assert_eq!(file("vaults.json")[0]["vaultName"], "deploy");
    assert!(file("managed-tools.json")["count"].as_u64().unwrap() >= 60);
    assert_eq!(file("agent-setup.json")["environment"], file("environment.json"));
}

// S2-A14 to S2-A27: the rest of them.
#[tokio::test(flavor = "multi_thread")]
async fn s2_a14_s2_a15_s2_a16_s2_a17_s2_a18_s2_a19_s2_a20_s2_a21_s2_a22_s2_a23_s2_a24_s2_a25_s2_a26_s2_a27_what_happened_is_files_too()
 {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.aim(one, "ship", &["out"]).await;
    agency.call(one, "read", json!({ "path": "a.txt" })).await.unwrap();
    agency.call(one, "session_get_snapshot", json!({})).await.unwrap();
    let names = [
        "context-budget.json",
        "context-budget.md",
        "outcome.json",
        "outcome-grade.json",
        "outcome-grade.md",
        "outcome-repair.md",
        "outcome-evaluation.json",
        "outcome-evaluation.md",
        "outcome-evaluations.json",
        "outcome-evaluations.md",
        "event-feed.json",
        "event-feed.md",
        "wake-traces.json",
        "session-relations.json",
    ];
    for name in names {
        let content = agency.place.content(&format!(".haft-runtime/{name}"));
        assert!(!content.trim().is_empty(), "{name}");
    }
    let traces: Value =
        serde_json::from_str(&agency.place.content(".haft-runtime/wake-traces.json")).unwrap();
    assert_eq!(traces[0]["wakeId"], "run_2");
}
