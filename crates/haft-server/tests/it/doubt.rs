//! Calls that may have taken effect although they gave no result, as people meet them over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_core::Millis;
use haft_core::tool::{Definition, Gate, Mutates, Schema, Undo, UndoSource};
use haft_runtime::{FunctionTool, Tool, ToolContext, ToolError};
use serde_json::json;

use crate::house::House;

/// Pays, and then hangs until its time is up.
fn refund(paid: &Arc<AtomicU32>) -> impl Tool {
    let schema = json!({"type": "object", "properties": {"euro": {"type": "integer"}}});
    let name = "pay_back".parse().unwrap();
    let schema = Schema::from_value(&schema).unwrap();
    let mut definition = Definition::new(name, "Pays money back.", schema);
    definition.gate = Gate::Auto;
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.exec_timeout = Millis(50);
    let euro = UndoSource::Argument("/euro".parse().unwrap());
    definition.undo = Some(Undo {
        tool: "restore_note".parse().unwrap(),
        arguments: BTreeMap::from([("euro".to_owned(), euro)]),
        window: Millis::from_secs(600),
    });
    let paid = Arc::clone(paid);
    FunctionTool::new(definition, move |_, context: ToolContext| {
        paid.fetch_add(1, Ordering::SeqCst);
        async move {
            context.stop().cancelled().await;
            Err(ToolError::cancelled())
        }
    })
}

// E2: paid, and out of time: the inbox has it, and it is undone once a person knows.
#[tokio::test]
async fn e2_a_refund_that_ran_out_of_time_is_in_the_inbox_and_undone_once_it_is_settled() {
    let paid = Arc::new(AtomicU32::new(0));
    let house = House::with(|builder| builder.tool(refund(&paid)), &[]).await;
    let ann = house.admin().await;
    let made = ann.post("/haft/v1/tools/pay_back/call", &json!({"arguments": {"euro": 5}})).await;
    assert_eq!(made["state"], "in_doubt", "{made}");
    let because = made["because"].as_str().unwrap();
    assert!(because.contains("its time was up"), "{because}");
    let inbox = ann.get("/haft/v1/pending").await;
    let wait = &inbox["data"][0];
    assert_eq!((&wait["call"], &wait["kind"]), (&made["call"], &json!("settlement")), "{inbox}");
    assert_eq!(wait["in_doubt_because"], because, "{inbox}");
    let (session, call) = (made["session"].as_str().unwrap(), made["call"].as_str().unwrap());
    let path = format!("/haft/v1/sessions/{session}/calls/{call}");
    let early = ann.refused("POST", &format!("{path}/undo"), &json!(null), 400).await;
    assert!(early.contains("not known whether the call took effect"), "{early}");
    let happened = json!({"type": "settle", "verdict": "happened"});
    ann.post(&format!("{path}/resolve"), &happened).await;
    let undone = ann.post(&format!("{path}/undo"), &json!(null)).await;
    assert_eq!(undone["state"], "done", "{undone}");
    assert_eq!((paid.load(Ordering::SeqCst), house.notes()), (1, 2));
}
