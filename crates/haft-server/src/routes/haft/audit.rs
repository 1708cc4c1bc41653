//! The journal of a session as it is stored, with its chain of hashes checked.

use axum::Json;
use axum::extract::State;
use haft_core::journal::Entry;
use haft_store::VerifyError;
use serde_json::{Value, json};

use super::found::listed;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::Params;
use crate::keys::Scope;

/// A page of entries with their hashes, and whether the whole journal is what was written.
pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let session = params.text("session");
    let after = params.one::<u64>("after")?.unwrap_or(0);
    let limit = params.limit(200, 1000)?;
    params.finish()?;
    let expected = "`session`: expected the id of the session whose journal is wanted";
    let session = session.ok_or_else(|| Error::invalid(expected))?;
    let session = listed(&app, &caller, &session).await?;
    let chain = match app.store().verify(session).await {
        Ok(head) => json!({ "state": "whole", "entries": head.seq, "head": head.hash }),
        Err(VerifyError::Store(error)) => return Err(error.into()),
        Err(error) => json!({ "state": "broken", "message": error.to_string() }),
    };
    let entries = app.store().entries(session, after, limit).await?;
    let next = entries.last().filter(|_| entries.len() == limit as usize).map(|last| last.seq);
    let data: Vec<Value> = entries.iter().map(shown).collect();
    Ok(Json(json!({ "session": session, "chain": chain, "data": data, "next": next })))
}

/// An entry as it is, also one that nobody can read any more: that is what is looked for.
fn shown(entry: &Entry) -> Value {
    let event: Value = serde_json::from_str(&entry.body).unwrap_or_else(|_| json!(entry.body));
    json!({ "seq": entry.seq, "at": entry.at, "hash": entry.hash, "event": event })
}
