//! `/v1/sessions/{id}/resources`: what a session finds in its workspace.

use axum::Json;
use axum::extract::{Path, State};
use haft_core::SessionId;
use haft_store::Expected;
use serde::Deserialize;
use serde_json::{Value, json};

use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, read};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::session::Session;
use crate::uploads::{self, MOUNTED_AT};

/// How many files a session may have.
const RESOURCES_MAX: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParam {
    #[serde(rename = "type")]
    _kind: String,
    file_id: String,
    mount_path: Option<String>,
}

/// Checks what is to be attached beside what is, and returns it as it is kept.
pub(super) async fn attached(
    app: &App,
    caller: &Caller,
    given: Vec<Value>,
    already: &[Value],
) -> Result<Vec<Value>, Error> {
    let mut attached: Vec<Value> = Vec::new();
    for given in given {
        let kind = given.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "file" {
            return Err(Error::unsupported(&format!("a resource of type {kind:?}")));
        }
        let FileParam { file_id, mount_path, .. } = read(given)?;
        let file = app.objects().get(&caller.tenant, Sort::File, &file_id).await?;
        let mount_path = mount_path.unwrap_or_else(|| format!("{MOUNTED_AT}/{file_id}"));
        uploads::checked_path(&mount_path)?;
        let has_it = |other: &Value| other["mount_path"].as_str() == Some(&mount_path);
        if attached.iter().chain(already).any(has_it) {
            return Err(Error::invalid(format!("two resources are mounted at `{mount_path}`")));
        }
        let at = app.now().to_string();
        attached.push(json!({
            "id": app.fresh_id("sesrsc")?, "type": "file", "file_id": file_id,
            "mount_path": mount_path, "created_at": at, "updated_at": at,
            "artifact": file.text("artifact"),
        }));
    }
    match attached.len() + already.len() <= RESOURCES_MAX {
        true => Ok(attached),
        false => Err(Error::invalid(format!("a session has at most {RESOURCES_MAX} resources"))),
    }
}

/// Writes a resource as the API shows it.
pub(crate) fn shown(resource: &Value) -> Value {
    let mut shown = resource.clone();
    if let Some(members) = shown.as_object_mut() {
        members.remove("artifact");
    }
    shown
}

fn find<'a>(resources: &'a [Value], id: &str) -> Result<&'a Value, Error> {
    let found = resources.iter().find(|resource| resource["id"].as_str() == Some(id));
    found.ok_or_else(|| Error::not_found("resource of this session", id))
}

async fn put(
    app: &App,
    caller: &Caller,
    session: &Session,
    resources: Vec<Value>,
) -> Result<(), Error> {
    let mut members = session.beside.members.clone();
    members.insert("resources".to_owned(), resources.into());
    let place = Sort::Session.place(&caller.tenant, &session.id.to_string())?;
    let expected = Expected::Version(session.beside.number);
    app.objects().put(place, expected, &members, &caller.actor, app.now()).await?;
    placed(app, session.id).await
}

/// Shows the session's tools what is attached now.
async fn placed(app: &App, session: SessionId) -> Result<(), Error> {
    match app.uploads() {
        Some(directory) => {
            let directory = directory.join(session.to_string());
            uploads::place(app.store(), session, &directory).await.map_err(Error::internal)
        }
        None => Ok(()),
    }
}

pub(crate) async fn add(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(given): Body<Value>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let session = Session::owned(&app, &caller, &id).await?;
    session.require_current()?;
    let mut resources = session.attached();
    let added = attached(&app, &caller, vec![given], &resources).await?;
    let first = added.first().map(shown).unwrap_or_default();
    resources.extend(added);
    put(&app, &caller, &session, resources).await?;
    Ok(Json(first))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)? as usize;
    let after = params.text("page");
    params.finish()?;
    let session = Session::seen(&app, &caller, &id).await?;
    let resources = session.attached();
    let is_after = |resource: &&Value| {
        after.as_deref().is_none_or(|after| resource["id"].as_str() > Some(after))
    };
    let mut resources = resources.iter().filter(is_after);
    let data: Vec<Value> = resources.by_ref().take(limit).map(shown).collect();
    let more = resources.next().is_some();
    let last = data.last().filter(|_| more).and_then(|last| last["id"].as_str());
    let next = last.map(str::to_owned);
    Ok(Json(page(data, next)))
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path((id, resource)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let session = Session::seen(&app, &caller, &id).await?;
    Ok(Json(shown(find(&session.attached(), &resource)?)))
}

/// Only a repository has anything to change.
pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path((id, resource)): Path<(String, String)>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    let session = Session::owned(&app, &caller, &id).await?;
    find(&session.attached(), &resource)?;
    Err(Error::unsupported("a change of a resource of type \"file\""))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((id, resource)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let session = Session::owned(&app, &caller, &id).await?;
    session.require_current()?;
    let mut resources = session.attached();
    find(&resources, &resource)?;
    resources.retain(|kept| kept["id"].as_str() != Some(&resource));
    put(&app, &caller, &session, resources).await?;
    Ok(Json(json!({ "id": resource, "type": "session_resource_deleted" })))
}
