//! `/v1/vaults`: where credentials are kept together.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use haft_store::Expected;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agents::{archived, merged, require_current};
use super::{page, with_archived};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, read};
use crate::keys::Scope;
use crate::objects::{Members, Object, Sort};
use crate::plan::checked_metadata;

const SORT: Sort = Sort::Vault;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declared {
    display_name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl Declared {
    fn settled(&self) -> Result<Members, Error> {
        if !(1..=255).contains(&self.display_name.chars().count()) {
            return Err(Error::invalid("display_name: expected 1 to 255 characters"));
        }
        checked_metadata(&self.metadata)?;
        Ok(Members::from_iter([
            ("display_name".to_owned(), self.display_name.as_str().into()),
            ("metadata".to_owned(), json!(self.metadata)),
        ]))
    }
}

fn shown(vault: &Object) -> Value {
    let mut shown = vault.members.clone();
    shown.insert("id".to_owned(), vault.id.as_str().into());
    shown.insert("type".to_owned(), "vault".into());
    shown.insert("updated_at".to_owned(), vault.at.to_string().into());
    Value::Object(shown)
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(declared): Body<Declared>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (id, at) = (app.fresh_id(SORT.prefix())?, app.now());
    let mut members = declared.settled()?;
    members.insert("created_at".to_owned(), at.to_string().into());
    members.insert("archived_at".to_owned(), Value::Null);
    let (place, expected) = (SORT.place(&caller.tenant, &id)?, Expected::Absent);
    let number = app.objects().put(place, expected, &members, &caller.actor, at).await?;
    Ok(Json(shown(&Object { id, number, members, at })))
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    Ok(Json(shown(&app.objects().get(&caller.tenant, SORT, &id).await?)))
}

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(changes): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let vault = app.objects().get(&caller.tenant, SORT, &id).await?;
    require_current(&vault)?;
    let mut declared = vault.members.clone();
    let stamps = ["created_at", "archived_at"];
    let stamps = stamps.map(|name| (name.to_owned(), declared.remove(name).unwrap_or_default()));
    for (name, value) in changes {
        let value = match (name.as_str(), value) {
            ("metadata", given) => merged(declared.remove("metadata"), given),
            // What is null is left as it is.
            (_, Value::Null) => continue,
            (_, value) => value,
        };
        declared.insert(name, value);
    }
    let declared: Declared = read(Value::Object(declared))?;
    let mut members = declared.settled()?;
    members.extend(stamps);
    let at = app.now();
    let (place, expected) = (SORT.place(&caller.tenant, &id)?, Expected::Version(vault.number));
    let number = app.objects().put(place, expected, &members, &caller.actor, at).await?;
    Ok(Json(shown(&Object { id, number, members, at })))
}

pub(crate) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let vault = app.objects().get(&caller.tenant, SORT, &id).await?;
    Ok(Json(shown(&archived(&app, &caller, SORT, vault).await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let vault = app.objects().get(&caller.tenant, SORT, &id).await?;
    let place = SORT.place(&caller.tenant, &id)?;
    app.objects().delete(place, &vault, &caller.actor, app.now()).await?;
    Ok(Json(json!({ "id": id, "type": "vault_deleted" })))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.text("page");
    let all = with_archived(&mut params)?;
    params.finish()?;
    let wanted = |vault: &Object| all || !vault.is_archived();
    let (found, next) = app.objects().list(&caller.tenant, SORT, after, limit, wanted).await?;
    Ok(Json(page(found.iter().map(shown).collect(), next)))
}
