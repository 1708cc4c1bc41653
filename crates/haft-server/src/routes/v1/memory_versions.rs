//! `/v1/memory_stores/{id}/memory_versions`: who changed what, also of memories that are gone.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::memories::{limit, memories, store_of, view};
use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path, read};
use crate::keys::Scope;
use crate::memory::{Operation, View, version_of};

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path((store, id)): Path<(String, String)>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let view = view(&mut params, View::Full)?;
    params.finish()?;
    store_of(&app, &caller, &store).await?;
    let missing = || Error::not_found("memory version", &id);
    let (memory, number) = version_of(&id).ok_or_else(missing)?;
    let found = memories(&app, &caller, &store).past(&memory, number).await?;
    Ok(Json(found.ok_or_else(missing)?.shown(&store, view)))
}

/// Also in a store that is archived: what must go, must go.
pub(crate) async fn redact(
    State(app): State<App>,
    caller: Caller,
    Path((store, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    store_of(&app, &caller, &store).await?;
    let missing = || Error::not_found("memory version", &id);
    let (memory, number) = version_of(&id).ok_or_else(missing)?;
    let by = (&caller.actor, app.now());
    let redacted = memories(&app, &caller, &store).redact(&memory, number, by).await?;
    Ok(Json(redacted.ok_or_else(missing)?.shown(&store, View::Full)))
}

/// The newest first.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(store): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let view = view(&mut params, View::Basic)?;
    let limit = limit(&mut params, view)?;
    let after = params.text("page");
    let of = params.text("memory_id");
    let operation = params.text("operation").map(|word| read::<Operation>(word.into()));
    let operation = operation.transpose()?;
    params.finish()?;
    store_of(&app, &caller, &store).await?;
    let memories = memories(&app, &caller, &store);
    let mut versions = Vec::new();
    for id in memories.ids().await? {
        if of.as_ref().is_none_or(|of| *of == id) {
            let numbers = memories.numbers(&id).await?;
            versions.extend(numbers.into_iter().map(|(number, at)| (at, id.clone(), number)));
        }
    }
    versions.sort();
    let mut data: Vec<Value> = Vec::new();
    let mut is_reached = after.is_none();
    for (_, id, number) in versions.iter().rev() {
        let Some(version) = memories.past(id, *number).await? else { continue };
        let shown = version.shown(&store, view);
        if !is_reached {
            is_reached = shown["id"].as_str() == after.as_deref();
            continue;
        }
        if operation.is_some_and(|wanted| version.operation() != wanted) {
            continue;
        }
        if data.len() == limit {
            let next = data.last().and_then(|last| last["id"].as_str()).map(str::to_owned);
            return Ok(Json(page(data, next)));
        }
        data.push(shown);
    }
    Ok(Json(page(data, None)))
}
