//! The files that every session of an agent shares.

use crate::agency::{Agency, no_hash};
use serde_json::{Value, json};

// S2-T57, S2-T58, S2-82, S2-83, S2-A33: a draft is made, found again, and never overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t57_s2_t58_s2_82_s2_83_s2_a33_a_shared_file_is_staged() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let direct = json!({ "path": "/workspace/agent/substrate.md", "content": "mine" });
    assert!(agency.call(one, "write", direct).await.is_err());
    let stage = json!({ "sourcePath": "substrate.md" });
    let staged = agency.call(one, "resources_stage_from_substrate", stage.clone()).await.unwrap();
    assert_eq!(
        (&staged["targetPath"], &staged["reusedExisting"]),
        (&json!("/workspace/substrate.md"), &json!(false))
    );
    let edit =
        json!({ "path": "substrate.md", "oldText": "shared", "newText": "shared and better" });
    agency.call(one, "edit", edit).await.unwrap();
    let again = agency.call(one, "resources_stage_from_substrate", stage).await.unwrap();
    assert_eq!(
        (&again["reusedExisting"], &again["divergedFromSource"]),
        (&json!(true), &json!(true))
    );
    let over = json!({ "sourcePath": "substrate.md", "targetPath": "a.txt" });
    assert!(
        agency
            .call(one, "resources_stage_from_substrate", over)
            .await
            .unwrap_err()
            .contains("overwrite")
    );
    let drafts = agency.call(one, "resources_list_staged_drafts", json!({})).await.unwrap();
    assert_eq!((&drafts["count"], &drafts["drafts"][0]["status"]), (&json!(1), &json!("ready")));
    assert!(agency.place.content(".haft-runtime/staged-substrate.json").contains("substrate.md"));
    let missing = json!({ "sourcePath": "none.md" });
    assert!(agency.call(one, "resources_stage_from_substrate", missing).await.is_err());
}

// S2-T59, S2-T60, S2-83, S2-84: compared, then promoted onto what was compared.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t59_s2_t60_s2_83_s2_84_a_draft_is_compared_and_promoted() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let stage = json!({ "sourcePath": "substrate.md" });
    agency.call(one, "resources_stage_from_substrate", stage).await.unwrap();
    agency.place.put("substrate.md", "shared and better\n");
    let compared = agency
        .call(one, "resources_compare_with_substrate", json!({ "sessionPath": "substrate.md" }))
        .await
        .unwrap();
    assert_eq!(
        (&compared["identical"], &compared["differingLineCount"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(
        (&compared["latestVersionId"], &compared["promotePrecondition"]["contentHashAvailable"]),
        (&Value::Null, &json!(true))
    );
    let stale = json!({ "sourcePath": "substrate.md", "expectedContentHash": no_hash() });
    assert!(
        agency
            .agreed(one, "resources_promote_to_substrate", stale)
            .await
            .unwrap_err()
            .contains("read it again")
    );
    let hash = compared["promotePrecondition"]["expectedContentHash"].clone();
    let promote = json!({ "sourcePath": "substrate.md", "expectedContentHash": hash });
    let done = agency.agreed(one, "resources_promote_to_substrate", promote).await.unwrap();
    assert_eq!(
        (&done["versionId"], &done["targetPath"]),
        (&json!("substrate.md@1"), &json!("substrate.md"))
    );
    assert_eq!(
        std::fs::read_to_string(agency.shared("substrate.md")).unwrap(),
        "shared and better\n"
    );
}

// S2-T61, S2-T62, S2-T63, S2-85, S2-86: every promotion is a version, and each can be put back.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t61_s2_t62_s2_t63_s2_85_s2_86_versions_are_listed_read_and_restored() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.place.put("substrate.md", "shared and better\n");
    let promote = json!({ "sourcePath": "substrate.md" });
    agency.agreed(one, "resources_promote_to_substrate", promote).await.unwrap();
    agency.place.put("substrate.md", "worse\n");
    let next = json!({ "sourcePath": "substrate.md", "expectedVersionId": "substrate.md@1" });
    agency.agreed(one, "resources_promote_to_substrate", next.clone()).await.unwrap();
    assert!(agency.agreed(one, "resources_promote_to_substrate", next).await.is_err());
    let versions = agency
        .call(one, "resources_list_versions", json!({ "targetPath": "substrate.md" }))
        .await
        .unwrap();
    assert_eq!(
        (&versions["count"], &versions["versions"][0]["versionId"]),
        (&json!(2), &json!("substrate.md@2"))
    );
    let read = agency
        .call(one, "resources_read_version", json!({ "versionId": "substrate.md@1" }))
        .await
        .unwrap();
    assert_eq!(read["content"], "shared and better\n");
    assert!(
        agency
            .call(one, "resources_read_version", json!({ "versionId": "substrate.md@9" }))
            .await
            .is_err()
    );
    let restore = json!({ "versionId": "substrate.md@1", "expectedVersionId": "substrate.md@2" });
    let restored = agency.agreed(one, "resources_restore_version", restore).await.unwrap();
    assert_eq!(
        (&restored["versionId"], &restored["previousVersionId"]),
        (&json!("substrate.md@3"), &json!("substrate.md@2"))
    );
    assert_eq!(
        std::fs::read_to_string(agency.shared("substrate.md")).unwrap(),
        "shared and better\n"
    );
    for path in ["../workspace/a.txt", "/workspace/a.txt", "", "."] {
        let out = json!({ "targetPath": path });
        assert!(agency.call(one, "resources_list_versions", out).await.is_err(), "{path}");
    }
}

// S2-87, D27: of many who promote onto the same version one wins, and the file is theirs.
#[tokio::test(flavor = "multi_thread")]
async fn s2_87_d27_of_many_promotions_onto_one_version_one_wins() {
    let agency = Agency::new();
    let mut sessions = Vec::new();
    for number in 0..4 {
        sessions.push(agency.session("ada").await);
        agency.place.put(&format!("draft-{number}.md"), &format!("by {number}\n"));
    }
    let promote = |number: usize, expected: &str| json!({ "sourcePath": format!("draft-{number}.md"), "targetPath": "plan.md", "expectedVersionId": expected });
    agency.place.put("draft.md", "first\n");
    let first = json!({ "sourcePath": "draft.md", "targetPath": "plan.md", "overwrite": false });
    agency.agreed(sessions[0], "resources_promote_to_substrate", first.clone()).await.unwrap();
    assert!(
        agency
            .agreed(sessions[0], "resources_promote_to_substrate", first)
            .await
            .unwrap_err()
            .contains("exists")
    );
    let tries = sessions.iter().enumerate().map(|(number, session)| {
        agency.agreed(*session, "resources_promote_to_substrate", promote(number, "plan.md@1"))
    });
    let results = futures_of(tries.collect()).await;
    let won: Vec<usize> = (0..4).filter(|number| results[*number].is_ok()).collect();
    assert_eq!(won.len(), 1, "{results:?}");
    let file = std::fs::read_to_string(agency.shared("plan.md")).unwrap();
    assert_eq!(file, format!("by {}\n", won[0]));
    // What other hands write becomes a version, and is not lost.
    std::fs::write(agency.shared("plan.md"), "by hand\n").unwrap();
    let next = json!({ "sourcePath": "draft.md", "targetPath": "plan.md", "expectedVersionId": "plan.md@2" });
    assert!(agency.agreed(sessions[0], "resources_promote_to_substrate", next).await.is_err());
    let versions = agency
        .call(sessions[0], "resources_list_versions", json!({ "targetPath": "plan.md" }))
        .await
        .unwrap();
    assert_eq!(versions["versions"][0]["preview"], "by hand\n");
}

/// Waits for several at once, in one task.
async fn futures_of<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut pinned {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        match pinned.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    pinned.into_iter().filter_map(|(_, done)| done).collect()
}
