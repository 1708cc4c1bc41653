//! `/v1/environments`: where agents work.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use haft_core::session::Network;
use haft_store::Expected;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agents::{archived, merged, require_current};
use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, read};
use crate::keys::Scope;
use crate::objects::{Members, Object, Sort};
use crate::plan::checked_metadata;

const SORT: Sort = Sort::Environment;
const MANAGERS: [&str; 6] = ["apt", "cargo", "gem", "go", "npm", "pip"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declared {
    name: String,
    config: Option<Cloud>,
    description: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cloud {
    #[serde(rename = "type")]
    kind: String,
    networking: Option<Networking>,
    packages: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Networking {
    #[serde(rename = "type")]
    kind: String,
    allow_mcp_servers: Option<bool>,
    allow_package_managers: Option<bool>,
    allowed_hosts: Option<Vec<String>>,
}

impl Declared {
    fn settled(&self) -> Result<Members, Error> {
        if !(1..=256).contains(&self.name.chars().count()) {
            return Err(Error::invalid("name: expected 1 to 256 characters"));
        }
        if self.scope.is_some() {
            return Err(Error::unsupported("`scope`"));
        }
        checked_metadata(&self.metadata)?;
        let networking = match &self.config {
            Some(config) => config.networking()?,
            None => limited(),
        };
        let none = || MANAGERS.map(|manager| (manager.to_owned(), json!([])));
        let packages = Map::from_iter(none());
        let kept = json!({
            "name": self.name,
            "config": { "type": "cloud", "networking": networking, "packages": packages },
            "description": self.description.clone().unwrap_or_default(),
            "metadata": self.metadata,
        });
        match kept {
            Value::Object(members) => Ok(members),
            _ => Err(Error::internal("an environment is an object")),
        }
    }
}

/// The network is off unless an environment says otherwise.
fn limited() -> Value {
    json!({
        "type": "limited", "allow_mcp_servers": false, "allow_package_managers": false,
        "allowed_hosts": [],
    })
}

impl Cloud {
    fn networking(&self) -> Result<Value, Error> {
        if self.kind != "cloud" {
            return Err(Error::unsupported(&format!("an environment of type {:?}", self.kind)));
        }
        let is_list_of_some =
            |value: &Value| value.as_array().is_none_or(|packages| !packages.is_empty());
        for (manager, packages) in self.packages.iter().flatten() {
            if manager != "type" && !packages.is_null() && is_list_of_some(packages) {
                return Err(Error::unsupported(&format!("`config.packages.{manager}`")));
            }
        }
        match &self.networking {
            None => Ok(limited()),
            Some(given) => given.settled(),
        }
    }
}

impl Networking {
    fn settled(&self) -> Result<Value, Error> {
        let unsupported = |what: &str| Err(Error::unsupported(&format!("`networking.{what}`")));
        match self.kind.as_str() {
            "unrestricted" => Ok(json!({ "type": "unrestricted" })),
            "limited" if self.allow_mcp_servers == Some(true) => unsupported("allow_mcp_servers"),
            "limited" if self.allow_package_managers == Some(true) => {
                unsupported("allow_package_managers")
            }
            "limited" if self.allowed_hosts.as_ref().is_some_and(|hosts| !hosts.is_empty()) => {
                unsupported("allowed_hosts")
            }
            "limited" => Ok(limited()),
            _ => {
                Err(Error::invalid("config.networking.type: expected `limited` or `unrestricted`"))
            }
        }
    }
}

/// What commands in an environment reach.
pub(super) fn network(environment: &Object) -> Network {
    let kind = environment.members.get("config");
    let kind = kind.and_then(|config| config.pointer("/networking/type"));
    match kind.and_then(Value::as_str) {
        Some("unrestricted") => Network::Host,
        _ => Network::Off,
    }
}

fn shown(environment: &Object) -> Value {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), environment.id.clone().into());
    shown.insert("type".to_owned(), "environment".into());
    shown.extend(environment.members.clone());
    shown.insert("updated_at".to_owned(), environment.at.to_string().into());
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
    let place = SORT.place(&caller.tenant, &id)?;
    let expected = Expected::Absent;
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
    let environment = app.objects().get(&caller.tenant, SORT, &id).await?;
    require_current(&environment)?;
    let mut declared = environment.members.clone();
    let stamps = ["created_at", "archived_at"];
    let stamps = stamps.map(|name| (name.to_owned(), declared.remove(name).unwrap_or_default()));
    for (name, value) in changes {
        let value = match (name.as_str(), value) {
            ("metadata", given) => merged(declared.remove("metadata"), given),
            (_, value) => value,
        };
        declared.insert(name, value);
    }
    let declared: Declared = read(Value::Object(declared))?;
    let mut members = declared.settled()?;
    members.extend(stamps);
    let at = app.now();
    let place = SORT.place(&caller.tenant, &id)?;
    let expected = Expected::Version(environment.number);
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
    let environment = app.objects().get(&caller.tenant, SORT, &id).await?;
    Ok(Json(shown(&archived(&app, &caller, SORT, environment).await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let environment = app.objects().get(&caller.tenant, SORT, &id).await?;
    let place = SORT.place(&caller.tenant, &id)?;
    app.objects().delete(place, &environment, &caller.actor, app.now()).await?;
    Ok(Json(json!({ "id": id, "type": "environment_deleted" })))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.text("page");
    let all = params.one::<bool>("include_archived")?.unwrap_or(false);
    params.finish()?;
    let wanted = |environment: &Object| all || !environment.is_archived();
    let (found, next) = app.objects().list(&caller.tenant, SORT, after, limit, wanted).await?;
    Ok(Json(page(found.iter().map(shown).collect(), next)))
}
