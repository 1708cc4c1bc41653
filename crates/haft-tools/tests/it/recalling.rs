//! Finding what earlier sessions said, did and kept.

use crate::agency::Agency;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn sources(found: &Value) -> BTreeSet<&str> {
    let hits = found["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["source"].as_str().unwrap()).collect()
}

fn sessions(found: &Value) -> BTreeSet<String> {
    let hits = found["hits"].as_array().unwrap().iter();
    hits.filter_map(|hit| hit["sessionId"].as_str().map(str::to_owned)).collect()
}

// S2-T25, S2-57, S2-58, S2-63: one hit for each store, each with where it stands and what to read.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t25_s2_57_s2_58_s2_63_memory_is_found_store_by_store() {
    let agency = Agency::new();
    let (old, now) = (agency.session("ada").await, agency.session("ada").await);
    agency.aim(old, "tame the zebrafish", &["zebrafish tamed"]).await;
    for target in ["session_state", "working_buffer"] {
        let note = json!({ "target": target, "content": "about the zebrafish" });
        agency.call(old, "memory_write", note).await.unwrap();
    }
    let waived = json!({ "content": "zebrafish bite", "requireOutcomePass": false });
    agency.agreed(old, "memory_promote_note", waived).await.unwrap();
    agency.shell(old, "echo zebrafish").await;
    let wanted = json!({ "query": "zebrafish", "limit": 20 });
    let found = agency.call(now, "memory_search", wanted).await.unwrap();
    let expected = [
        "session_evaluation",
        "session_outcome",
        "session_state",
        "shell_state",
        "working_buffer",
        "workspace_memory",
        "workspace_memory_notes",
    ];
    assert_eq!(sources(&found), expected.into(), "{found:#}");
    for hit in found["hits"].as_array().unwrap() {
        let (tool, args) = (hit["expansion"]["tool"].as_str().unwrap(), &hit["expansion"]["args"]);
        let read = agency.call(now, tool, args.clone()).await;
        assert!(read.is_ok(), "{tool} {args}: {read:?}");
        assert!(hit["snippet"].as_str().unwrap().contains("zebrafish"));
        if hit["source"] == "session_state" {
            assert_eq!(hit["outcomeStatus"], "not_ready");
            assert_eq!(hit["promotionReady"], false);
        }
    }
    assert!(agency.call(now, "memory_search", json!({ "query": "  " })).await.is_err());
}

// S2-T31, S2-40, S2-61, D18: lineage and the current session are heeded by every part of it.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t31_s2_40_s2_61_d18_lineage_and_the_current_session_are_heeded() {
    let agency = Agency::new();
    let parent = agency.session("ada").await;
    let child = agency.child("ada", parent).await;
    let sibling = agency.child("ada", parent).await;
    let apart = agency.session("ada").await;
    let stranger = agency.session("bob").await;
    for one in [parent, apart, stranger] {
        let note = json!({ "target": "session_state", "content": "the quokka is here" });
        agency.call(one, "memory_write", note).await.unwrap();
    }
    agency.aim(child, "find the quokka", &[]).await;
    agency.aim(sibling, "feed the quokka", &[]).await;
    let text = |one: haft_core::SessionId| one.to_string();
    for tool in ["retrieval_search", "memory_search"] {
        let search = |lineage: &str| json!({ "query": "quokka", "limit": 50, "lineage": lineage });
        let below = agency.call(parent, tool, search("children")).await.unwrap();
        assert_eq!(sessions(&below), [text(child), text(sibling)].into(), "{tool}");
        assert!(
            below["hits"].as_array().unwrap().iter().all(|hit| hit["sessionRelation"] == "child")
        );
        let above = agency.call(parent, tool, search("parent")).await.unwrap();
        assert_eq!(above["count"], 0, "{tool}");
    }
    let everywhere = json!({ "query": "quokka", "limit": 50 });
    let found = agency.call(parent, "retrieval_search", everywhere.clone()).await.unwrap();
    assert_eq!(sessions(&found), [text(child), text(sibling), text(apart)].into());
    let mut with_own = everywhere;
    with_own["includeCurrent"] = json!(true);
    let found = agency.call(parent, "retrieval_search", with_own).await.unwrap();
    assert!(sessions(&found).contains(&text(parent)));
    assert!(!sessions(&found).contains(&text(stranger)));
    let backends: Vec<_> = found["backendSummary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["backend"].as_str().unwrap())
        .collect();
    assert_eq!(backends, ["memory", "session_context", "session_trace"]);
    assert!(!found["expansionPlan"].as_array().unwrap().is_empty());
    let vector = json!({ "query": "quokka", "backends": ["vector"] });
    let none = agency.call(parent, "retrieval_search", vector).await.unwrap();
    assert_eq!(
        (&none["count"], &none["backendSummary"][0]["available"]),
        (&json!(0), &json!(false))
    );
}

// S2-T30, S2-T14, S2-39, S2-59: events and wakes, and a setup that differs is compared first.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t30_s2_t14_s2_39_s2_59_events_and_wakes_are_found() {
    let agency = Agency::new();
    let (old, now) = (agency.session("ada").await, agency.session("ada").await);
    agency.place.put("axolotl.txt", "the axolotl smiles\n");
    agency.call(old, "read", json!({ "path": "/workspace/axolotl.txt" })).await.unwrap();
    let wanted = json!({ "query": "axolotl smiles", "types": ["agent.tool_use"] });
    let events = agency.call(now, "session_search_context", wanted).await.unwrap();
    let hit = &events["hits"][0];
    assert_eq!(
        (&hit["title"], &hit["expansion"]["tool"]),
        (&json!("agent.tool_use"), &json!("session_get_events"))
    );
    let around =
        agency.call(now, "session_get_events", hit["expansion"]["args"].clone()).await.unwrap();
    assert!(around.to_string().contains("axolotl smiles"));
    let wanted = json!({ "query": "axolotl smiles", "types": ["user.message"] });
    assert_eq!(agency.call(now, "session_search_context", wanted).await.unwrap()["count"], 0);
    let wakes =
        agency.call(now, "session_search_traces", json!({ "query": "axolotl" })).await.unwrap();
    let hit = &wakes["hits"][0];
    assert_eq!(hit["wakeId"], "run_1");
    let trace =
        agency.call(now, "session_get_trace", hit["expansion"]["args"].clone()).await.unwrap();
    assert!(trace.to_string().contains("axolotl smiles"));
    // Nothing of its own unless asked for.
    agency.call(now, "read", json!({ "path": "/workspace/axolotl.txt" })).await.unwrap();
    let found =
        agency.call(now, "session_search_traces", json!({ "query": "axolotl" })).await.unwrap();
    assert_eq!(sessions(&found), [old.to_string()].into());
}

// S2-T32, S2-64, S2-57: what the agent's sessions learned, each thing once, the newest last.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t32_s2_64_s2_57_what_was_learned_is_listed_once_and_found() {
    let agency = Agency::new();
    let (one, other) = (agency.session("ada").await, agency.session("ada").await);
    agency.learns(one, "pin the toolchain", 3_000_001).await;
    agency.learns(one, "wombats dig", 3_000_002).await;
    agency.learns(other, "wombats dig", 3_000_003).await;
    let stranger = agency.session("bob").await;
    agency.learns(stranger, "not for ada", 3_000_004).await;
    let listed = agency.call(other, "learning_list", json!({})).await.unwrap();
    let learned = listed["learnings"].as_array().unwrap().iter();
    let titles: Vec<&Value> = learned.map(|one| &one["learning"]["title"]).collect();
    assert_eq!(titles, ["pin the toolchain", "wombats dig"]);
    let found = agency.call(other, "memory_search", json!({ "query": "wombats" })).await.unwrap();
    assert!(sources(&found).contains("learning"), "{found:#}");
}
