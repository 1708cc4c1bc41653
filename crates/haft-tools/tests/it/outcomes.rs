//! What a session is to achieve, and what shows that it is achieved.

use crate::agency::Agency;
use haft_core::SessionId;
use serde_json::{Value, json};

async fn evaluated(agency: &Agency, session: SessionId) -> Value {
    agency.call(session, "outcome_evaluate", json!({})).await.unwrap()
}

async fn status(agency: &Agency, session: SessionId) -> String {
    let found = evaluated(agency, session).await;
    found["evaluation"]["status"].as_str().unwrap().to_owned()
}

// S2-T18, S2-T22, S2-44, D16: in the agent's own name, and not over a person's.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t18_s2_t22_s2_44_d16_an_outcome_is_set_in_the_agents_own_name() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let none = agency.call(one, "outcome_read", json!({})).await.unwrap();
    assert_eq!(none["activeOutcome"], Value::Null);
    let aim = json!({ "title": " ship ", "successCriteria": ["a ", "a", ""] });
    let set = agency.call(one, "outcome_define", aim).await.unwrap();
    assert_eq!(set["activeOutcome"]["title"], "ship");
    assert_eq!(set["activeOutcome"]["successCriteria"], json!(["a"]));
    assert_eq!(set["activeOutcome"]["definedBy"]["kind"], "agent");
    let around = json!({ "aroundEventId": set["eventId"], "beforeLimit": 0, "afterLimit": 0 });
    let events = agency.call(one, "session_get_events", around).await.unwrap();
    assert_eq!(events["events"][0]["type"], "agent.define_outcome");
    agency.aim(one, "a person's", &["a"]).await;
    let refused =
        agency.call(one, "outcome_define", json!({ "title": "laxer" })).await.unwrap_err();
    assert!(refused.contains("only a person"), "{refused}");
    assert!(agency.call(one, "outcome_define", json!({ "title": "   " })).await.is_err());
}

// S2-T19, S2-T20, S2-45, S2-47, D15: only a result shows that a criterion is met.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t19_s2_t20_s2_45_s2_47_d15_only_a_result_shows_that_a_criterion_is_met() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    assert_eq!(status(&agency, one).await, "missing_outcome");
    agency.place.put("report.txt", "summary: all 12 checks are green\n");
    agency.aim(one, "make it work", &["all 12 checks are green"]).await;
    // Saying so, and having a tool repeat it, shows nothing.
    let claim = json!({ "target": "session_state", "content": "all 12 checks are green" });
    agency.call(one, "memory_write", claim).await.unwrap();
    agency.call(one, "memory_read", json!({ "target": "session_state" })).await.unwrap();
    agency.call(one, "outcome_read", json!({})).await.unwrap();
    let repeated = json!({ "path": "/workspace/claim.txt", "content": "all 12 checks are green" });
    agency.call(one, "write", repeated).await.unwrap();
    agency.call(one, "read", json!({ "path": "/workspace/claim.txt" })).await.unwrap();
    let search = json!({ "path": "/workspace", "query": "all 12 checks are green" });
    agency.call(one, "grep", search).await.unwrap();
    agency.shell(one, "echo all 12 checks are green").await;
    let claimed = evaluated(&agency, one).await;
    assert_eq!(claimed["grade"]["status"], "done_candidate");
    assert_eq!(claimed["evaluation"]["status"], "uncertain", "{claimed:#}");
    assert_eq!(claimed["evaluation"]["promotionReady"], false);
    // Looking at what someone else wrote does.
    agency.call(one, "read", json!({ "path": "/workspace/report.txt" })).await.unwrap();
    let shown = evaluated(&agency, one).await;
    assert_eq!(shown["evaluation"]["status"], "pass", "{shown:#}");
    assert_eq!(shown["evaluation"]["promotionReady"], true);
    // And a failure after that takes it back.
    agency.call(one, "read", json!({ "path": "/workspace/none.txt" })).await.unwrap_err();
    assert_eq!(status(&agency, one).await, "fail");
}

// A call that waits for someone does not stand in its own way; another one does.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_passed_is_shared_once_someone_agrees() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.place.put("b.txt", "the release is out for everyone\n");
    agency.aim(one, "ship", &["the release is out for everyone"]).await;
    agency.call(one, "read", json!({ "path": "/workspace/b.txt" })).await.unwrap();
    let note = |content: &str| json!({ "content": content, "requireOutcomePass": true });
    let shared = agency.agreed(one, "memory_promote_note", note("it is out")).await.unwrap();
    assert_eq!(shared["outcomeEvaluation"]["promotionReady"], true, "{shared:#}");
    agency.propose(one, "shell_exec", json!({ "command": "true" })).await;
    let beside = agency.agreed(one, "memory_promote_note", note("really")).await.unwrap_err();
    assert!(beside.contains("`blocked`"), "{beside}");
}

// D15: in every script, and without criteria by the title.
#[tokio::test(flavor = "multi_thread")]
async fn d15_criteria_of_every_script_and_none_at_all_have_a_path() {
    let agency = Agency::new();
    agency.place.put("status.txt", "狀態:全部測試通過\nвсе тесты прошли успешно\n");
    for criterion in ["全部測試通過", "все тесты прошли успешно"] {
        let one = agency.session("ada").await;
        agency.aim(one, "ship", &[criterion]).await;
        agency.call(one, "read", json!({ "path": "/workspace/a.txt" })).await.unwrap();
        assert_eq!(status(&agency, one).await, "not_ready", "{criterion}");
        agency.call(one, "read", json!({ "path": "/workspace/status.txt" })).await.unwrap();
        assert_eq!(status(&agency, one).await, "pass", "{criterion}");
    }
    let one = agency.session("ada").await;
    agency.aim(one, "все тесты прошли", &[]).await;
    agency.call(one, "read", json!({ "path": "/workspace/status.txt" })).await.unwrap();
    assert_eq!(status(&agency, one).await, "pass");
}

// S2-T21, S2-49, S2-50, S2-19: how it moved, and that going round in circles is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t21_s2_49_s2_50_s2_19_the_history_is_derived_and_stalling_is_noticed() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.aim(one, "ship", &["the release is out for everyone"]).await;
    let first = evaluated(&agency, one).await;
    assert_eq!(first["evaluation"]["trend"], "first_iteration");
    for _ in 0..3 {
        agency.call(one, "read", json!({ "path": "/workspace/a.txt" })).await.unwrap();
    }
    let stuck = evaluated(&agency, one).await;
    assert_eq!(stuck["evaluation"]["trend"], "stable");
    assert_eq!(stuck["evaluation"]["nextSuggestedTool"]["tool"], "outcome_history");
    let check = json!({ "toolName": "memory_promote_note" });
    let checked = agency.call(one, "permissions_check", check).await.unwrap();
    assert_eq!(checked["nextStep"]["tool"], "outcome_history");
    agency.place.put("b.txt", "the release is out for everyone\n");
    agency.call(one, "read", json!({ "path": "/workspace/b.txt" })).await.unwrap();
    assert_eq!(evaluated(&agency, one).await["evaluation"]["trend"], "improving");
    agency.call(one, "read", json!({ "path": "/workspace/none" })).await.unwrap_err();
    assert_eq!(evaluated(&agency, one).await["evaluation"]["trend"], "regressing");
    let history = agency.call(one, "outcome_history", json!({ "limit": 2 })).await.unwrap();
    assert_eq!((&history["count"], &history["latestIteration"]), (&json!(5), &json!(5)));
    assert_eq!(history["evaluations"].as_array().unwrap().len(), 2);
    assert_eq!(history["evaluations"][0]["evaluation"]["status"], "pass");
    let again = agency.call(one, "outcome_history", json!({ "limit": 2 })).await.unwrap();
    assert_eq!(again, history);
}

// S2-48, S2-33: while a command runs nothing is ready.
#[tokio::test(flavor = "multi_thread")]
async fn s2_48_s2_33_a_busy_shell_is_not_ready() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.place.put("b.txt", "the release is out for everyone\n");
    agency.aim(one, "ship", &["the release is out for everyone"]).await;
    agency.call(one, "read", json!({ "path": "/workspace/b.txt" })).await.unwrap();
    let long = json!({ "command": "until [ -e go ]; do sleep 0.05; done", "timeoutMs": 200 });
    agency.agreed(one, "shell_exec", long).await.unwrap();
    let busy = evaluated(&agency, one).await;
    assert_eq!(busy["evaluation"]["status"], "not_ready");
    assert_eq!(busy["evaluation"]["nextSuggestedTool"]["tool"], "shell_wait");
    let snapshot = agency.call(one, "session_get_snapshot", json!({})).await.unwrap();
    assert_eq!(snapshot["outcomeStatus"], "not_ready");
    assert_eq!(snapshot["nextOutcomeStep"]["tool"], "shell_wait");
    agency.place.put("go", "");
    agency.call(one, "shell_wait", json!({ "timeoutMs": 60000 })).await.unwrap();
    assert_eq!(status(&agency, one).await, "pass");
}

// S2-46, S2-26: what waits for someone and only looks has a way that needs nobody.
#[tokio::test(flavor = "multi_thread")]
async fn s2_46_s2_26_a_blocked_look_has_a_way_without_asking() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.aim(one, "ship", &["a"]).await;
    let call = agency.propose(one, "shell_run", json!({ "command": "pwd" })).await;
    let waiting = agency.node.haft().wait(one, call).await.unwrap();
    assert!(matches!(waiting, haft_runtime::Answer::Waiting(_)));
    let graded = agency.call(one, "outcome_grade", json!({})).await.unwrap();
    assert_eq!(graded["grade"]["status"], "blocked");
    assert_eq!(graded["grade"]["nextSuggestedTool"]["tool"], "bash");
    // Whoever looks from elsewhere does not know where its commands would run.
    let other = agency.session("ada").await;
    let graded = agency.call(other, "outcome_grade", json!({ "sessionId": one })).await.unwrap();
    assert_eq!(graded["grade"]["nextSuggestedTool"]["tool"], "permissions_check");
    let posture = agency.call(one, "permissions_describe", json!({})).await.unwrap();
    assert_eq!(posture["pendingToolConfirmationRequest"]["toolName"], "shell_run");
    assert_eq!(posture["readOnlyAlternative"]["tool"], "bash");
}
