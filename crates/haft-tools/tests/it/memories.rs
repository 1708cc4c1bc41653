//! What sessions and agents keep for later.

use crate::agency::Agency;
use crate::place::Place;
use serde_json::{Value, json};

// S2-T23, S2-T24, S2-T26, S2-T27, S2-T28, S2-53, S2-54, S2-56: every write is a version.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t23_s2_t24_s2_t26_s2_t27_s2_t28_s2_53_s2_54_s2_56_every_write_is_a_version() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let listed = agency.call(one, "memory_list", json!({})).await.unwrap();
    assert_eq!(listed["count"], 6);
    let write = |content: &str, mode: &str| json!({ "target": "session_state", "content": content, "mode": mode });
    let first = agency.call(one, "memory_write", write("alpha", "replace")).await.unwrap();
    assert_eq!(
        (&first["versionId"], &first["previousVersionId"]),
        (&json!("session_state@1"), &Value::Null)
    );
    let second = agency.call(one, "memory_write", write("beta", "append")).await.unwrap();
    assert_eq!(second["content"], "alpha\nbeta");
    assert_eq!(second["previousVersionId"], "session_state@1");
    let read = agency.call(one, "memory_read", json!({ "target": "session_state" })).await.unwrap();
    assert_eq!(
        (&read["content"], &read["versionId"]),
        (&json!("alpha\nbeta"), &second["versionId"])
    );
    assert_eq!(read["contentHash"], second["contentHash"]);
    let versions = agency
        .call(one, "memory_list_versions", json!({ "target": "session_state" }))
        .await
        .unwrap();
    assert_eq!(versions["count"], 2);
    assert_eq!(versions["versions"][0]["versionId"], "session_state@2");
    assert_eq!(versions["versions"][1]["preview"], "alpha");
    let old = json!({ "target": "session_state", "versionId": "session_state@1" });
    assert_eq!(agency.call(one, "memory_read_version", old).await.unwrap()["content"], "alpha");
    for unknown in ["session_state@9", "working_buffer@1", "nonsense"] {
        let wanted = json!({ "target": "session_state", "versionId": unknown });
        let refused = agency.call(one, "memory_read_version", wanted).await.unwrap_err();
        assert!(refused.contains("memory_list_versions"), "{refused}");
    }
    assert!(agency.call(one, "memory_write", write("  ", "replace")).await.is_err());
    let nowhere = json!({ "target": "everything", "content": "x" });
    assert!(agency.call(one, "memory_write", nowhere).await.is_err());
    for target in ["checkpoint", "shell_state", "workspace_memory", "workspace_memory_notes"] {
        let read = agency.call(one, "memory_read", json!({ "target": target })).await;
        assert!(read.is_ok(), "{target}: {read:?}");
    }
}

// S2-54, D27: who writes onto a version that is no longer the latest writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn s2_54_d27_a_stale_write_changes_nothing_and_only_one_of_many_wins() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let write = |content: &str| json!({ "target": "working_buffer", "content": content, "expectedVersionId": "working_buffer@1" });
    agency
        .call(one, "memory_write", json!({ "target": "working_buffer", "content": "first" }))
        .await
        .unwrap();
    let (a, b, c) = tokio::join!(
        agency.call(one, "memory_write", write("a")),
        agency.call(one, "memory_write", write("b")),
        agency.call(one, "memory_write", write("c")),
    );
    let won: Vec<_> = [&a, &b, &c].into_iter().filter(|done| done.is_ok()).collect();
    assert_eq!(won.len(), 1, "{a:?} {b:?} {c:?}");
    let refused = [a, b, c].into_iter().find_map(Result::err).unwrap();
    assert!(refused.contains("working_buffer@2"), "{refused}");
    let versions = agency
        .call(one, "memory_list_versions", json!({ "target": "working_buffer" }))
        .await
        .unwrap();
    assert_eq!(versions["count"], 2);
}

// D14, S2-54: what a session noted is there in the next process, whatever happened meanwhile.
#[test]
fn d14_s2_54_what_was_noted_outlives_the_process() {
    let place = Place::new();
    let store = std::sync::Arc::clone(place.store());
    let builder = || place.builder(haft_tools::Classifier::Known);
    let id = store.live(builder(), |node| async move {
        let id = node.session().await;
        let note = json!({ "target": "session_state", "content": "remember me" });
        let note = haft_runtime::testing::object(note);
        node.haft().call(id, "memory_write", note).await.unwrap();
        id
    });
    store.advance(haft_core::Millis::from_secs(60));
    store.live(builder(), |node| async move {
        let read = haft_runtime::testing::object(json!({ "target": "session_state" }));
        for _ in 0..3 {
            let answer = node.haft().call(id, "memory_read", read.clone()).await.unwrap();
            let haft_runtime::Answer::Done(outcome) = answer else { panic!("{answer:?}") };
            assert_eq!(crate::place::result(&outcome).unwrap()["content"], "remember me");
        }
    });
}

// S2-T29, S2-55, D16: shared notes need a person, and a passed outcome unless that person waives it.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t29_s2_55_d16_shared_notes_need_a_person_and_a_passed_outcome() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let note = |content: &str| json!({ "content": content });
    let first = agency.agreed(one, "memory_promote_note", note("use cargo")).await.unwrap();
    assert_eq!(
        (&first["versionId"], &first["outcomeEvaluation"]),
        (&json!("workspace_memory_notes@1"), &Value::Null)
    );
    // Without a word about the mode nothing is lost.
    let second = agency.agreed(one, "memory_promote_note", note("use nextest")).await.unwrap();
    assert_eq!(second["content"], "use cargo\nuse nextest");
    let file = std::fs::read_to_string(agency.shared("MEMORY.md")).unwrap();
    assert!(file.contains("use cargo\nuse nextest"), "{file}");
    let other = agency.session("ada").await;
    let read =
        agency.call(other, "memory_read", json!({ "target": "workspace_memory" })).await.unwrap();
    assert!(read["content"].as_str().unwrap().contains("use nextest"));
    let stranger = agency.session("bob").await;
    let read = agency
        .call(stranger, "memory_read", json!({ "target": "workspace_memory_notes" }))
        .await
        .unwrap();
    assert_eq!(read["content"], "");
    // With an outcome that has not passed nobody is even asked.
    agency.aim(one, "ship it", &["the release is out"]).await;
    let call = agency
        .node
        .haft()
        .call(one, "memory_promote_note", haft_runtime::testing::object(note("done")))
        .await;
    let refused = call.unwrap_err().to_string();
    assert!(refused.contains("outcome"), "{refused}");
    // Waiving it is put before a person, who sees that it is.
    let waived = json!({ "content": "done anyway", "requireOutcomePass": false });
    let done = agency.agreed(one, "memory_promote_note", waived).await.unwrap();
    assert_eq!(done["outcomeEvaluation"]["promotionReady"], false);
    // Asked for without an outcome, the gate is closed too.
    let strict = json!({ "content": "x", "requireOutcomePass": true });
    let call = agency
        .node
        .haft()
        .call(other, "memory_promote_note", haft_runtime::testing::object(strict))
        .await;
    assert!(call.is_err());
    let stale = json!({ "content": "x", "expectedVersionId": "workspace_memory_notes@1" });
    assert!(agency.agreed(other, "memory_promote_note", stale).await.is_err());
}

// A session of another agent, or of another tenant, is as unknown as one that never was.
#[tokio::test(flavor = "multi_thread")]
async fn another_agents_session_is_unknown_to_every_tool() {
    let agency = Agency::new();
    let (one, kin, stranger) =
        (agency.session("ada").await, agency.session("ada").await, agency.session("bob").await);
    let never = "sesn_00000000000000000000000000";
    let tools = [
        ("memory_read", json!({ "target": "session_state" })),
        ("outcome_read", json!({})),
        ("outcome_define", json!({ "title": "x" })),
        ("outcome_evaluate", json!({})),
        ("session_get_snapshot", json!({})),
        ("session_get_events", json!({})),
        ("session_list_traces", json!({})),
        ("session_get_trace", json!({ "wakeId": "run_1" })),
        ("session_list_children", json!({})),
        ("session_describe_context", json!({})),
        ("agent_describe_setup", json!({})),
        ("agent_compare_setup", json!({})),
        ("memory_list_versions", json!({ "target": "session_state" })),
    ];
    agency.call(kin, "memory_list", json!({})).await.unwrap();
    for (tool, mut arguments) in tools {
        let mut refused = Vec::new();
        for other in [stranger.to_string(), never.to_owned(), "nonsense".to_owned()] {
            arguments["sessionId"] = json!(other);
            let error = agency.call(one, tool, arguments.clone()).await.unwrap_err();
            refused.push(error.replace(&other, "?"));
        }
        assert!(refused.iter().all(|error| *error == refused[0]), "{tool}: {refused:?}");
        arguments["sessionId"] = json!(kin);
        let known = agency.call(one, tool, arguments).await;
        assert!(known.is_ok(), "{tool}: {known:?}");
    }
    let write = json!({ "target": "session_state", "content": "x", "sessionId": kin });
    assert!(agency.call(one, "memory_write", write).await.unwrap_err().contains("its own"));
}
