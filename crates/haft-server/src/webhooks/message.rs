//! What a delivery says: what happened to what, and never what was said or done: whoever may
//! know that asks for it with a key.

use haft_core::session::Event;
use haft_core::{CallResult, SessionId};
use haft_store::{ClaimedDelivery, Store};
use serde_json::{Value, json};

/// The same for every attempt, so that a receiver knows what it has seen.
pub(crate) fn id(session: SessionId, seq: u64) -> String {
    let printed = session.to_string();
    let bare = printed.trim_start_matches(SessionId::PREFIX).trim_start_matches('_');
    format!("msg_{bare}_{seq}")
}

/// Reads what happened, and writes it as the body.
pub(super) async fn of(store: &Store, delivery: &ClaimedDelivery) -> Result<String, String> {
    let ClaimedDelivery { session, seq, kind, at, .. } = delivery;
    let failed = |error: &dyn std::fmt::Display| format!("the log cannot be read: {error}");
    let entries = store.entries(*session, seq - 1, 1).await.map_err(|error| failed(&error))?;
    let entry = entries.first().ok_or_else(|| failed(&"it has no such entry"))?;
    let event = entry.event().map_err(|error| failed(&error))?;
    let mut data = json!({ "session_id": session });
    if let Some(call) = event.call() {
        let stored = store.call(*session, call).await.map_err(|error| failed(&error))?;
        data["call_id"] = json!(call);
        data["tool"] = json!(stored.map(|stored| stored.tool));
    }
    add(&mut data, &event);
    let message = json!({ "type": kind.as_str(), "timestamp": at.to_string(), "data": data });
    Ok(message.to_string())
}

fn add(data: &mut Value, event: &Event) {
    match event {
        Event::CallSuspended { round, expires_at, reason, .. } => {
            data["round"] = json!(round);
            data["reason"] = json!(reason);
            data["expires_at"] = json!(expires_at.to_string());
        }
        Event::CallResolved { round, by, decision, .. } => {
            data["round"] = json!(round);
            data["decision"] = json!(decision.kind());
            data["by"] = json!(by);
        }
        Event::CallFinished { outcome } => {
            data["outcome"] = match &outcome.result {
                CallResult::Ok(_) => json!("ok"),
                CallResult::Err(failure) => json!(failure.class),
            };
        }
        Event::TurnEnded { ending, .. } => data["ending"] = json!(ending),
        _ => {}
    }
}
