//! `/v1/memory_stores/{id}/memories`: texts at paths, read and changed by whoever saw them last.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::require_current;
use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::memory::{Memories, Memory, View, require_content};
use crate::objects::{Object, Sort};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Memory")]
pub(crate) struct Declared {
    path: String,
    content: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MemoryChanges")]
pub(crate) struct Changes {
    path: Option<String>,
    content: Option<String>,
    precondition: Option<Precondition>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Precondition {
    ContentSha256 { content_sha256: String },
}

/// Reads whether content is wanted.
pub(super) fn view(params: &mut Params, usual: View) -> Result<View, Error> {
    match params.text("view").as_deref() {
        None => Ok(usual),
        Some("basic") => Ok(View::Basic),
        Some("full") => Ok(View::Full),
        Some(view) => {
            Err(Error::invalid(format!("view: expected `basic` or `full`, found {view:?}")))
        }
    }
}

/// How many items a page may have: fewer where content is shown.
pub(super) fn limit(params: &mut Params, view: View) -> Result<usize, Error> {
    let limit = params.limit(20, 100)?;
    Ok(match view {
        View::Basic => limit,
        View::Full => limit.min(20),
    } as usize)
}

/// Finds the memory store of a path.
pub(super) async fn store_of(app: &App, caller: &Caller, id: &str) -> Result<Object, Error> {
    app.objects().get(&caller.tenant, Sort::MemoryStore, id).await
}

pub(super) fn memories<'a>(app: &'a App, caller: &'a Caller, store: &'a str) -> Memories<'a> {
    Memories { store: app.store(), tenant: &caller.tenant, of: store }
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(store): Path<String>,
    mut params: Params,
    Body(declared): Body<Declared>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    let view = view(&mut params, View::Basic)?;
    params.finish()?;
    require_current(&store_of(&app, &caller, &store).await?)?;
    let memories = memories(&app, &caller, &store);
    memories.require_room().await?;
    let (id, content) = (app.fresh_id("mem")?, declared.content.unwrap_or_default());
    let by = (&caller.actor, app.now());
    let memory = memories.create(&id, &declared.path, content, by).await?;
    Ok(Json(memory.shown(&store, view)))
}

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
    Ok(Json(memories(&app, &caller, &store).get(&id).await?.shown(&store, view)))
}

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path((store, id)): Path<(String, String)>,
    mut params: Params,
    Body(changes): Body<Changes>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    let view = view(&mut params, View::Basic)?;
    params.finish()?;
    require_current(&store_of(&app, &caller, &store).await?)?;
    let memories = memories(&app, &caller, &store);
    let memory = memories.get(&id).await?;
    let Changes { path, content, precondition } = changes;
    if let Some(Precondition::ContentSha256 { content_sha256 }) = &precondition {
        require_content(&memory, Some(content_sha256))?;
    }
    let by = (&caller.actor, app.now());
    let memory = memories.change(memory, path, content, by).await?;
    Ok(Json(memory.shown(&store, view)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((store, id)): Path<(String, String)>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    let seen = params.text("expected_content_sha256");
    params.finish()?;
    store_of(&app, &caller, &store).await?;
    let memories = memories(&app, &caller, &store);
    let memory = memories.get(&id).await?;
    require_content(&memory, seen.as_deref())?;
    memories.delete(&memory, (&caller.actor, app.now())).await?;
    Ok(Json(json!({ "id": id, "type": "memory_deleted" })))
}

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
    let prefix = params.text("path_prefix").unwrap_or_else(|| "/".to_owned());
    let depth = params.one::<usize>("depth")?.unwrap_or(0);
    params.finish()?;
    if !prefix.starts_with('/') || !prefix.ends_with('/') {
        return Err(Error::invalid("path_prefix: expected a path that begins and ends with `/`"));
    }
    store_of(&app, &caller, &store).await?;
    let memories = memories(&app, &caller, &store);
    let mut items: BTreeMap<String, Option<Memory>> = BTreeMap::new();
    for memory in memories.all().await? {
        let Some(rest) = memory.path().strip_prefix(&prefix) else { continue };
        match rolled_up(rest, depth) {
            Some(directory) => items.insert(format!("{prefix}{directory}"), None),
            None => items.insert(memory.path().to_owned(), Some(memory)),
        };
    }
    let is_after = |path: &String| after.as_ref().is_none_or(|after| path > after);
    let mut items = items.into_iter().filter(|(path, _)| is_after(path));
    let shown: Vec<_> = items.by_ref().take(limit).collect();
    let more = items.next().is_some();
    let next = shown.last().filter(|_| more).map(|(path, _)| path.clone());
    let item = |(path, memory): (String, Option<Memory>)| match memory {
        Some(memory) => memory.shown(&store, view),
        None => json!({ "type": "memory_prefix", "path": path }),
    };
    Ok(Json(page(shown.into_iter().map(item).collect(), next)))
}

/// The directory that stands for a memory that lies deeper than is listed.
fn rolled_up(rest: &str, depth: usize) -> Option<String> {
    let segments: Vec<&str> = rest.split('/').collect();
    (depth > 0 && segments.len() > depth).then(|| {
        let shown: String = segments[..depth].iter().map(|segment| format!("{segment}/")).collect();
        shown
    })
}
