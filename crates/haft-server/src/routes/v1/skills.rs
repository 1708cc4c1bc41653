//! `/v1/skills`: procedures for agents to read, in versions.

use axum::Json;
use axum::extract::{Multipart, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use haft_core::{ArtifactId, ArtifactRef, Timestamp};
use haft_runtime::fresh_bits;
use haft_store::{Expected, NewArtifact, Place, Which};
use schemars::generate::SchemaGenerator;
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::files::{unreadable, whole};
use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Form, Params, Path};
use crate::keys::Scope;
use crate::objects::{Members, Object, Sort};
use crate::skills::{KeptFile, Sent, SentFile};
use crate::zip;

const SORT: Sort = Sort::Skill;
/// What all files of a skill may have together.
const BYTES_MAX: usize = 30 << 20;
/// The largest body that brings a skill.
pub(super) const BODY_MAX: usize = BYTES_MAX + (256 << 10);
const DISPLAY_NAME_CHARS_MAX: usize = 255;

/// A skill, as a form brings it.
struct Upload {
    files: Vec<SentFile>,
    display_name: Option<String>,
}

impl Upload {
    async fn read(mut form: Multipart) -> Result<Self, Error> {
        let mut upload = Self { files: Vec::new(), display_name: None };
        let mut n_bytes = 0;
        while let Some(field) = form.next_field().await.map_err(|error| unreadable(&error))? {
            match field.name().unwrap_or_default() {
                "files" | "files[]" => {
                    let path = field.file_name().unwrap_or_default().to_owned();
                    let body = whole(field).await?;
                    n_bytes += body.len();
                    upload.files.push(SentFile { path, body });
                }
                "display_name" => {
                    let text = String::from_utf8(whole(field).await?);
                    let text = text.map_err(|_| Error::invalid("display_name: expected UTF-8"))?;
                    upload.display_name = Some(text).filter(|text| !text.is_empty());
                }
                name => return Err(Error::unsupported(&format!("the field `{name}`"))),
            }
            if n_bytes > BYTES_MAX {
                let message = format!("a skill has at most {BYTES_MAX} bytes");
                return Err(Error::new(Kind::TooLarge, message));
            }
        }
        Ok(upload)
    }
}

/// What a form with a skill looks like.
pub(super) fn form(_: &mut SchemaGenerator) -> Schema {
    let file = json!({ "type": "string", "format": "binary" });
    json_schema!({
        "type": "object", "required": ["files"],
        "properties": {
            "files": { "type": "array", "items": file }, "display_name": { "type": "string" },
        },
    })
}

fn versions_of(skill: &str) -> String {
    format!("{}/{skill}/versions", SORT.space())
}

fn shown(skill: &Object) -> Value {
    json!({
        "id": skill.id, "type": "skill", "display_name": skill.members.get("display_name"),
        "latest_version_id": skill.members.get("latest"), "source": { "type": "custom" },
        "created_at": skill.members.get("created_at"), "updated_at": skill.at.to_string(),
    })
}

fn version_shown(version: &Object) -> Value {
    let member = |name: &str| version.members.get(name).cloned().unwrap_or_default();
    json!({
        "id": version.id, "type": "skill_version", "skill_id": member("skill_id"),
        "name": member("name"), "description": member("description"),
        "created_at": member("created_at"),
    })
}

/// Keeps the files of a version; returns what is kept of it.
async fn kept(
    app: &App,
    caller: &Caller,
    skill: &str,
    sent: Sent,
    at: Timestamp,
) -> Result<Members, Error> {
    let Sent { name, description, files } = sent;
    let mut kept = Vec::with_capacity(files.len());
    for SentFile { path, body } in files {
        let id = ArtifactId::from_bits(fresh_bits(at).map_err(Error::internal)?);
        let (media_type, bytes) = ("application/octet-stream".to_owned(), body.len() as u64);
        let title = Some(path.clone());
        let reference = ArtifactRef { id, media_type, bytes, title };
        let new = NewArtifact { reference, tenant: caller.tenant.clone(), session: None, at };
        app.store().put_artifact(&new, body).await?;
        kept.push(KeptFile { path, artifact: id });
    }
    Ok(Members::from_iter([
        ("skill_id".to_owned(), skill.into()),
        ("name".to_owned(), name.into()),
        ("description".to_owned(), description.into()),
        ("files".to_owned(), json!(kept)),
        ("created_at".to_owned(), at.to_string().into()),
    ]))
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Form(form): Form,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let Upload { files, display_name } = Upload::read(form).await?;
    let sent = Sent::read(files)?;
    let display_name = display_name.unwrap_or_else(|| sent.name.clone());
    let is_label = display_name.chars().count() <= DISPLAY_NAME_CHARS_MAX
        && !display_name.contains(char::is_control);
    if !is_label {
        let message = "display_name: expected one line of at most 255 characters";
        return Err(Error::invalid(message));
    }
    let (id, version, at) = (app.fresh_id(SORT.prefix())?, app.fresh_id("skillver")?, app.now());
    let name = sent.name.clone();
    let first = kept(&app, &caller, &id, sent, at).await?;
    let members = Members::from_iter([
        ("name".to_owned(), name.into()),
        ("display_name".to_owned(), display_name.into()),
        ("latest".to_owned(), version.as_str().into()),
        ("created_at".to_owned(), at.to_string().into()),
    ]);
    let puts = vec![
        (SORT.place(&caller.tenant, &id)?, Expected::Absent, &members),
        (Place::new(caller.tenant.clone(), &versions_of(&id), &version)?, Expected::Absent, &first),
    ];
    app.objects().put_all(puts, &caller.actor, at).await?;
    Ok(Json(shown(&Object { id, number: 1, members, at })))
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

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 1000)?;
    let after = params.text("page");
    let source = params.text("source");
    params.finish()?;
    match source.as_deref() {
        None | Some("custom") => {}
        // Nobody's are here but those that clients bring.
        Some("anthropic") => return Ok(Json(page(Vec::new(), None))),
        Some(source) => {
            let message = format!("source: expected `custom` or `anthropic`, found {source:?}");
            return Err(Error::invalid(message));
        }
    }
    let (found, next) = app.objects().list(&caller.tenant, SORT, after, limit, |_| true).await?;
    Ok(Json(page(found.iter().map(shown).collect(), next)))
}

/// Takes a skill away. Sessions that have it keep its files.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    app.objects().remove(&caller.tenant, SORT, &id, &caller.actor, app.now()).await?;
    Ok(Json(json!({ "id": id, "type": "skill_deleted" })))
}

/// Finds a version of a skill, or the latest.
pub(super) async fn version(
    app: &App,
    caller: &Caller,
    skill: &str,
    version: Option<&str>,
) -> Result<Object, Error> {
    let found = app.objects().get(&caller.tenant, SORT, skill).await?;
    let latest = found.text("latest").unwrap_or_default();
    let wanted = version.filter(|version| *version != "latest").unwrap_or(latest);
    let space = versions_of(skill);
    let found = app.objects().find_in(&caller.tenant, &space, wanted, Which::Latest).await?;
    found.ok_or_else(|| Error::not_found("version of the skill", wanted))
}

pub(crate) async fn retrieve_version(
    State(app): State<App>,
    caller: Caller,
    Path((id, wanted)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    Ok(Json(version_shown(&version(&app, &caller, &id, Some(&wanted)).await?)))
}

/// The files of a version, as they were brought, in a directory with the skill's name.
pub(crate) async fn content(
    State(app): State<App>,
    caller: Caller,
    Path((id, wanted)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let version = version(&app, &caller, &id, Some(&wanted)).await?;
    let name = version.text("name").unwrap_or_default();
    let kept = version.members.get("files").cloned().unwrap_or_default();
    let kept: Vec<KeptFile> = serde_json::from_value(kept).map_err(Error::internal)?;
    let mut files = Vec::with_capacity(kept.len());
    for KeptFile { path, artifact } in kept {
        let found = app.store().artifact(&caller.tenant, artifact).await?;
        let found = found.ok_or_else(|| Error::internal("a skill's bytes are gone"))?;
        files.push((format!("{name}/{path}"), found.body));
    }
    let archive = zip::archive(&files).map_err(Error::internal)?;
    let headers = [
        (CONTENT_TYPE, "application/zip"),
        (CONTENT_DISPOSITION, "attachment"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, archive).into_response())
}

pub(crate) async fn create_version(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Form(form): Form,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let skill = app.objects().get(&caller.tenant, SORT, &id).await?;
    let Upload { files, display_name } = Upload::read(form).await?;
    if display_name.is_some() {
        return Err(Error::unsupported("a `display_name` of a version"));
    }
    let sent = Sent::read(files)?;
    let name = skill.text("name").unwrap_or_default();
    if sent.name != name {
        let message = format!("files: the skill is called `{name}`, not `{}`", sent.name);
        return Err(Error::invalid(message));
    }
    let (version, at) = (app.fresh_id("skillver")?, app.now());
    let made = kept(&app, &caller, &id, sent, at).await?;
    let mut members = skill.members.clone();
    members.insert("latest".to_owned(), version.as_str().into());
    let place = Place::new(caller.tenant.clone(), &versions_of(&id), &version)?;
    let puts = vec![
        (SORT.place(&caller.tenant, &id)?, Expected::Version(skill.number), &members),
        (place, Expected::Absent, &made),
    ];
    app.objects().put_all(puts, &caller.actor, at).await?;
    Ok(Json(version_shown(&Object { id: version, number: 1, members: made, at })))
}

pub(crate) async fn list_versions(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 1000)?;
    let after = params.text("page");
    params.finish()?;
    app.objects().get(&caller.tenant, SORT, &id).await?;
    let space = versions_of(&id);
    let listed = app.objects().list_in(&caller.tenant, &space, after, limit, |_| true);
    let (found, next) = listed.await?;
    Ok(Json(page(found.iter().map(version_shown).collect(), next)))
}

/// Takes a version away; what `latest` means is then the newest that is left.
pub(crate) async fn delete_version(
    State(app): State<App>,
    caller: Caller,
    Path((id, wanted)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let skill = app.objects().get(&caller.tenant, SORT, &id).await?;
    let gone = version(&app, &caller, &id, Some(&wanted)).await?;
    let space = versions_of(&id);
    let others = |other: &Object| other.id != gone.id;
    let (left, _) = app.objects().list_in(&caller.tenant, &space, None, 1, others).await?;
    let Some(newest) = left.first() else {
        return Err(Error::invalid("a skill has at least one version; delete the skill"));
    };
    let at = app.now();
    if skill.text("latest") == Some(&gone.id) {
        let mut members = skill.members.clone();
        members.insert("latest".to_owned(), newest.id.as_str().into());
        let (place, expected) = (SORT.place(&caller.tenant, &id)?, Expected::Version(skill.number));
        app.objects().put(place, expected, &members, &caller.actor, at).await?;
    }
    let place = Place::new(caller.tenant.clone(), &space, &gone.id)?;
    app.objects().delete(place, &gone, &caller.actor, at).await?;
    Ok(Json(json!({ "id": gone.id, "type": "skill_version_deleted" })))
}
