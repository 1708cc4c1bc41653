//! A session's trace in document 000's spans.

use axum::Json;
use axum::extract::State;
use haft_wire::trace::Trace;
use serde_json::{Value, json};

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// How many spans are shown at most; the newest are.
const SHOWN_MAX: usize = 5_000;

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let (mut trace, mut seen) = (Trace::new(found.id), 0);
    loop {
        let page = app.store().entries(found.id, seen, PAGE).await?;
        for entry in &page {
            trace.take(entry.at, &entry.event()?);
            seen = entry.seq;
        }
        if page.len() < PAGE as usize {
            break;
        }
    }
    let spans = trace.spans();
    let shown = &spans[spans.len().saturating_sub(SHOWN_MAX)..];
    Ok(Json(json!({ "data": shown, "n_spans": spans.len() })))
}
