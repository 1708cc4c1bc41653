//! `/v1/files`: bytes that a client brings, kept by their content.

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{Multipart, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use haft_core::{ArtifactId, ArtifactRef};
use haft_runtime::fresh_bits;
use haft_store::{Expected, NewArtifact, StoredArtifact};
use serde_json::{Value, json};

use super::page;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Form, Params, Path};
use crate::keys::Scope;
use crate::objects::{Members, Object, Sort};
use crate::owned;

const SORT: Sort = Sort::File;
/// The largest file.
const FILE_BYTES_MAX: usize = 32 << 20;
/// What stands around a file in a request.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// The largest body that brings a file.
pub(super) const BODY_MAX: usize = FILE_BYTES_MAX + FRAME_BYTES_MAX;
const NAME_CHARS_MAX: usize = 255;

struct Upload {
    name: String,
    media_type: String,
    body: Vec<u8>,
}

impl Upload {
    /// Reads the one file of a request.
    async fn read(mut form: Multipart) -> Result<Self, Error> {
        let mut found = None;
        while let Some(field) = form.next_field().await.map_err(|error| unreadable(&error))? {
            match field.name() {
                Some("file") if found.is_none() => {
                    let name = named(field.file_name().unwrap_or_default());
                    let media_type = field.content_type().unwrap_or("application/octet-stream");
                    let media_type = media_type.to_owned();
                    let body = whole(field).await?;
                    found = Some(Self { name, media_type, body });
                }
                Some("file") => return Err(Error::invalid("expected one `file`, found several")),
                Some(name) => return Err(Error::unsupported(&format!("the field `{name}`"))),
                None => return Err(Error::invalid("expected fields that have names")),
            }
        }
        found.ok_or_else(|| Error::invalid("expected a field `file`"))
    }
}

/// Reads a field to its end, unless it is too large.
pub(super) async fn whole(mut field: Field<'_>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    loop {
        let piece = field.chunk().await.map_err(|error| unreadable(&error))?;
        let Some(piece) = piece else { return Ok(body) };
        body.extend_from_slice(&piece);
        if body.len() > FILE_BYTES_MAX {
            return Err(too_large());
        }
    }
}

fn too_large() -> Error {
    Error::new(Kind::TooLarge, format!("a file has at most {FILE_BYTES_MAX} bytes"))
}

pub(super) fn unreadable(error: &MultipartError) -> Error {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ => Error::invalid(format!("the form cannot be read: {}", error.body_text())),
    }
}

/// The last part of a path, without what would disturb whoever shows it.
fn named(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = last.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX);
    let name: String = plain.collect();
    match name.as_str() {
        "" | "." | ".." => "unnamed".to_owned(),
        _ => name,
    }
}

fn shown(file: &Object) -> Value {
    let mut shown = file.members.clone();
    shown.remove("artifact");
    shown.insert("id".to_owned(), file.id.as_str().into());
    shown.insert("type".to_owned(), "file".into());
    shown.insert("downloadable".to_owned(), true.into());
    Value::Object(shown)
}

pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Form(form): Form,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let Upload { name, media_type, body } = Upload::read(form).await?;
    let (id, at, bytes) = (app.fresh_id("file")?, app.now(), body.len() as u64);
    let artifact = ArtifactId::from_bits(fresh_bits(at).map_err(Error::internal)?);
    let title = Some(name.clone());
    let reference = ArtifactRef { id: artifact, media_type: media_type.clone(), bytes, title };
    let new = NewArtifact { reference, tenant: caller.tenant.clone(), session: None, at };
    app.store().put_artifact(&new, body).await?;
    let members = Members::from_iter([
        ("filename".to_owned(), name.into()),
        ("mime_type".to_owned(), media_type.into()),
        ("size_bytes".to_owned(), bytes.into()),
        ("created_at".to_owned(), at.to_string().into()),
        ("artifact".to_owned(), artifact.to_string().into()),
    ]);
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
    Ok(Json(shown(&owned::get(&app, &caller, SORT, &id).await?)))
}

/// The bytes, never as a page of this server.
pub(crate) async fn content(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let file = owned::get(&app, &caller, SORT, &id).await?;
    let media_type = file.text("mime_type").unwrap_or("application/octet-stream").to_owned();
    let artifact = artifact_of(&file)?;
    let found = app.store().artifact(&caller.tenant, artifact).await?;
    let StoredArtifact { body, .. } = found.ok_or_else(|| Error::internal("its bytes are gone"))?;
    let headers = [
        (CONTENT_TYPE, media_type.as_str()),
        (CONTENT_DISPOSITION, "attachment"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, Bytes::from(body)).into_response())
}

fn artifact_of(file: &Object) -> Result<ArtifactId, Error> {
    let id = file.text("artifact").unwrap_or_default();
    id.parse().map_err(|_| Error::internal("a file without its bytes"))
}

/// Takes a file out of sight. Sessions that it was attached to keep their copy.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    owned::require(&app, &caller, SORT, &id).await?;
    app.objects().remove(&caller.tenant, SORT, &id, &caller.actor, app.now()).await?;
    Ok(Json(json!({ "id": id, "type": "file_deleted" })))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let ids = params.list("ids");
    if ids.len() > 100 {
        return Err(Error::invalid("ids: expected at most 100"));
    }
    let limit = params.limit(20, 1000)?;
    let after = params.text("page");
    params.finish()?;
    if ids.is_empty() {
        let whose = (&caller.tenant, caller.owns_only());
        let (found, next) = app.objects().list_owned(whose, SORT, after, limit, |_| true).await?;
        return Ok(Json(page(found.iter().map(shown).collect(), next)));
    }
    let mut data = Vec::new();
    for id in ids {
        let found = owned::find(&app, &caller, SORT, &id).await?;
        data.extend(found.as_ref().map(shown));
    }
    Ok(Json(page(data, None)))
}
