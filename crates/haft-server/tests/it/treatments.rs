//! What is done by default with a tool of each sort, over HTTP.

use haft_core::CallResult;
use serde_json::{Value, json};

use crate::house::House;

/// Calls a tool and returns the outcome and the whole journal of the call's session.
async fn ran(house: &House, tool: &str) -> (Value, Vec<Value>) {
    let ann = house.admin().await;
    let path = format!("/haft/v1/tools/{tool}/call");
    let made = ann.post(&path, &json!({"arguments": {"euro": 5}})).await;
    let session = made["session"].as_str().unwrap();
    let journal = ann.get(&format!("/haft/v1/audit?session={session}")).await;
    (made, journal["data"].as_array().unwrap().clone())
}

fn of_type<'a>(journal: &'a [Value], kind: &str) -> Vec<&'a Value> {
    journal.iter().map(|entry| &entry["event"]).filter(|event| event["type"] == kind).collect()
}

// S0-19
#[tokio::test]
async fn s0_19_what_cannot_be_undone_by_itself_runs_at_once_where_it_has_an_undo() {
    let house = House::start().await;
    let (made, journal) = ran(&house, "delete_note").await;
    assert_eq!(made["state"], "done");
    let proposed = of_type(&journal, "call.proposed");
    assert_eq!(proposed[0]["contract"]["mode"], "destructive");
    assert_eq!(proposed[0]["contract"]["reversal"], "undo");
    assert!(of_type(&journal, "call.suspended").is_empty(), "nobody was asked");
    assert_eq!(house.notes(), 0);
    let ann = house.admin().await;
    let text = |name: &str| made[name].as_str().unwrap();
    let path = format!("/haft/v1/sessions/{}/calls/{}/undo", text("session"), text("call"));
    let undone = ann.post(&path, &json!({})).await;
    assert_eq!(undone["state"], "done", "{undone}");
    assert_eq!(house.notes(), 1);
    assert_eq!(ann.get(&path).await["state"], "done", "asking again tells what became of it");
}

// S0-21
#[tokio::test]
async fn s0_21_what_only_looks_at_an_outside_service_runs_at_once_and_is_on_record() {
    let house = House::start().await;
    let (made, journal) = ran(&house, "get_weather").await;
    assert_eq!(made["state"], "done");
    assert_eq!(of_type(&journal, "call.proposed")[0]["contract"]["mode"], "external");
    assert!(of_type(&journal, "call.suspended").is_empty(), "nobody was asked");
    let finished = of_type(&journal, "call.finished");
    assert_eq!(finished[0]["outcome"]["tool"], "get_weather");
    let result: CallResult =
        serde_json::from_value(finished[0]["outcome"]["result"].clone()).unwrap();
    assert!(matches!(result, CallResult::Ok(_)));
}
