//! Document 000's stream and spans of a session that a model drives.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::house::{House, Visitor, asking_agent};

const TYPES: [&str; 10] = [
    "content",
    "tool_call",
    "tool_result",
    "error",
    "budget_exhausted",
    "agent",
    "orchestration",
    "loader-hint",
    "keepalive",
    "done",
];

/// A session of a model that asks for one call, which waits.
async fn asked(ann: &Visitor) -> (String, Value) {
    let agent = ann.post("/v1/agents", &asking_agent()).await;
    let opened = json!({"agent": agent["id"]});
    let session = ann.post("/haft/v1/sessions", &opened).await;
    let session = session["session"].as_str().unwrap().to_owned();
    ann.post(&format!("/haft/v1/sessions/{session}/messages"), &json!({"text": "go"})).await;
    loop {
        let waits = ann.get(&format!("/haft/v1/pending?session={session}")).await;
        if let Some(wait) = waits["data"].as_array().unwrap().first() {
            return (session, wait.clone());
        }
        tokio::task::yield_now().await;
    }
}

async fn frames(ann: &Visitor, session: &str) -> (Vec<Value>, String) {
    let (status, body) = ann.text("GET", &format!("/steerable/{session}/stream"), "").await;
    assert_eq!(status, 200, "{body}");
    let mut data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let last = data.pop().unwrap().to_owned();
    (data.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect(), last)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

// S0-33, S0-34, S0-3, S0-6: only the document's types; a call and a result are exactly its two
// shapes, whatever else is known of them; the stream says that it is over.
#[tokio::test]
async fn s0_33_s0_34_s0_3_s0_6_a_session_is_a_stream_of_the_documents_types() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, wait) = asked(&ann).await;
    let (waiting, last) = frames(&ann, &session).await;
    assert_eq!(last, "[DONE]");
    assert_eq!(waiting.last().unwrap(), &json!({"type": "done"}), "at rest, so over: {waiting:?}");
    let is_wait = |frame: &Value| frame["type"] == "agent" && frame["event"] == "waiting";
    assert!(waiting.iter().any(is_wait), "{waiting:?}");
    let call = wait["call"].as_str().unwrap();
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    ann.post(&path, &json!({"type": "approve"})).await;

    let (frames, last) = frames(&ann, &session).await;
    assert_eq!(last, "[DONE]");
    for frame in &frames {
        assert!(TYPES.contains(&frame["type"].as_str().unwrap()), "{frame}");
    }
    let of = |kind: &str| frames.iter().filter(|frame| frame["type"] == kind).collect::<Vec<_>>();
    let calls = of("tool_call");
    assert_eq!(calls.len(), 1, "{frames:?}");
    assert_eq!(keys(&calls[0]["payload"]), BTreeSet::from(["arguments", "id", "name"]));
    assert_eq!(calls[0]["payload"], json!({"id": call, "name": "bash", "arguments": {"euro": 5}}));
    let results = of("tool_result");
    assert_eq!((results.len(), &results[0]["toolCallId"]), (1, &json!(call)));
    assert_eq!(results[0]["payload"]["success"], true);
    let said: String = of("content").iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert_eq!(said, "Let me look.Done.");
    let late = ann.text("GET", "/steerable/ses_00000000000000000000000000/stream", "").await;
    assert_eq!(late.0, 404);
}

// S0-35, S0-6: every dispatch has its span, with what is known of the call in `attrs`.
#[tokio::test]
async fn s0_35_s0_6_every_dispatch_is_a_span_and_its_particulars_are_attributes() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, wait) = asked(&ann).await;
    let spans =
        async || ann.get(&format!("/haft/v1/sessions/{session}/spans")).await["data"].clone();
    let of = |spans: &Value, kind: &str| {
        let spans = spans.as_array().unwrap().iter().filter(|span| span["kind"] == kind);
        spans.cloned().collect::<Vec<_>>()
    };
    let before = spans().await;
    assert_eq!(of(&before, "tool"), Vec::<Value>::new(), "nothing was dispatched");
    assert_eq!(of(&before, "policy")[0]["status"], "running");
    let call = wait["call"].as_str().unwrap();
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    let edited = json!({"type": "approve", "arguments": {"euro": 7}});
    ann.post(&path, &edited).await;
    frames(&ann, &session).await;
    let after = spans().await;
    let tools = of(&after, "tool");
    assert_eq!(tools.len(), 1, "{after}");
    let span = &tools[0];
    let known = ["attrs", "durationMs", "endMs", "kind", "name", "parentSpanId", "spanId"];
    let known: BTreeSet<&str> = known.into_iter().chain(["startMs", "status", "traceId"]).collect();
    assert_eq!(keys(span), known, "a closed object");
    assert_eq!((&span["status"], &span["traceId"]), (&json!("ok"), &json!(session)));
    let ms = |name: &str| span[name].as_i64().unwrap();
    assert_eq!(ms("endMs") - ms("startMs"), ms("durationMs"));
    let turns = of(&after, "custom");
    assert_eq!(span["parentSpanId"], turns[0]["spanId"]);
    assert_eq!(span["attrs"]["callId"], call);
    assert_eq!(span["attrs"]["attempt"], 1);
    assert_eq!(span["attrs"]["arguments"], json!({"euro": 7}), "as they ran");
    assert_eq!(of(&after, "policy")[0]["attrs"]["decision"], "approve");
    assert_eq!(of(&after, "llm").len(), 2);
}
