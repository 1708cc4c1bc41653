//! `/v1/sessions/{id}/resources`: what a session finds in its workspace.

use axum::Json;
use axum::extract::State;
use haft_core::SessionId;
use haft_store::Expected;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::require_current;
use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::memory_tools::{Access, AttachedStore};
use crate::objects::Sort;
use crate::owned;
use crate::session::Session;
use crate::uploads::{self, MOUNTED_AT};

/// How many files a session may have.
const RESOURCES_MAX: usize = 100;
const INSTRUCTIONS_CHARS_MAX: usize = 4096;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParam {
    #[serde(rename = "type")]
    _kind: String,
    file_id: String,
    mount_path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreParam {
    #[serde(rename = "type")]
    _kind: String,
    memory_store_id: String,
    access: Option<Access>,
    instructions: Option<String>,
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
        let mut resource = match kind.as_str() {
            "file" => file(app, caller, read(given)?).await?,
            "memory_store" => memory_store(app, caller, read(given)?).await?,
            _ => return Err(Error::unsupported(&format!("a resource of type {kind:?}"))),
        };
        for (member, what) in [("mount_path", "mounted at"), ("name", "called")] {
            let Some(taken) = resource[member].as_str() else { continue };
            let has_it = |other: &Value| other[member].as_str() == Some(taken);
            if attached.iter().chain(already).any(has_it) {
                return Err(Error::invalid(format!("two resources are {what} `{taken}`")));
            }
        }
        let at = app.now().to_string();
        resource["id"] = app.fresh_id("sesrsc")?.into();
        resource["type"] = kind.into();
        resource["created_at"] = at.as_str().into();
        resource["updated_at"] = at.into();
        attached.push(resource);
    }
    match attached.len() + already.len() <= RESOURCES_MAX {
        true => Ok(attached),
        false => Err(Error::invalid(format!("a session has at most {RESOURCES_MAX} resources"))),
    }
}

async fn file(app: &App, caller: &Caller, given: FileParam) -> Result<Value, Error> {
    let FileParam { file_id, mount_path, .. } = given;
    let file = owned::get(app, caller, Sort::File, &file_id).await?;
    let mount_path = mount_path.unwrap_or_else(|| format!("{MOUNTED_AT}/{file_id}"));
    uploads::checked_path(&mount_path)?;
    let artifact = file.text("artifact");
    Ok(json!({ "file_id": file_id, "mount_path": mount_path, "artifact": artifact }))
}

/// A store is named and described as it was when it was attached.
async fn memory_store(app: &App, caller: &Caller, given: StoreParam) -> Result<Value, Error> {
    let StoreParam { memory_store_id, access, instructions, .. } = given;
    let store = app.objects().get(&caller.tenant, Sort::MemoryStore, &memory_store_id).await?;
    require_current(&store)?;
    let n_chars = instructions.as_ref().map_or(0, |text| text.chars().count());
    if n_chars > INSTRUCTIONS_CHARS_MAX {
        let message = format!("instructions: expected at most {INSTRUCTIONS_CHARS_MAX} characters");
        return Err(Error::invalid(message));
    }
    let text = |name: &str| store.text(name).unwrap_or_default().to_owned();
    Ok(json!(AttachedStore {
        name: text("name"),
        description: text("description"),
        memory_store_id,
        instructions,
        access: access.unwrap_or(Access::ReadWrite),
    }))
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
    if given.get("type").and_then(Value::as_str) == Some("memory_store") {
        // What a session can do is settled when it opens.
        return Err(Error::unsupported("attaching a memory store to a session that is open"));
    }
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
