//! Named things that are made, read, changed, archived and taken away all alike: environments,
//! memory stores, vaults.

use axum::Json;
use axum::extract::State;
use haft_store::Expected;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agents::{archived, merged, require_current};
use super::{LISTED, page, with_archived};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::objects::{Members, Object, Sort};
use crate::openapi::{Changes, Paths, get, post};
use crate::owned;

/// What a client declares about a thing of one sort.
pub(super) trait Kept: DeserializeOwned + JsonSchema + Send + 'static {
    const SORT: Sort;
    /// What the API calls the type of such a thing.
    const KIND: &'static str;
    const NULL: Null;
    const SHARING: Sharing = Sharing::Tenant;

    /// Fills in what was left out, and refuses what is not done.
    fn settled(&self) -> Result<Members, Error>;

    /// Refuses what the operator has not allowed.
    fn require_allowed(&self, _app: &App) -> Result<(), Error> {
        Ok(())
    }

    /// Ends what is kept in one that is about to end, and once more when it has: something may have
    /// come in between.
    fn end(
        _app: &App,
        _caller: &Caller,
        _id: &str,
        _end: End,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Who may use, read, change and delete a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Whoever made it, and the tenant's admins.
    Owner,
    /// Everyone in the tenant.
    Tenant,
}

/// How a thing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Archived,
    Deleted,
}

/// What a change to `null` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    /// The member is left as it is.
    Leaves,
    /// The member is as if it had not been declared.
    Resets,
}

/// The paths of one sort of things: of their list, and of one of them, whose id has the same name
/// in every path below it.
pub(super) fn paths<K: Kept>(list_path: &str, path: &str) -> Paths {
    Paths::new()
        .route(list_path, get(list::<K>).query(LISTED).page().post(create::<K>))
        .route(path, get(retrieve::<K>).post(update::<K>).delete(delete::<K>))
        .route(&format!("{path}/archive"), post(archive::<K>))
}

fn shown<K: Kept>(kept: &Object) -> Value {
    let mut shown = kept.members.clone();
    shown.insert("id".to_owned(), kept.id.as_str().into());
    shown.insert("type".to_owned(), K::KIND.into());
    shown.insert("updated_at".to_owned(), kept.at.to_string().into());
    Value::Object(shown)
}

async fn create<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(declared): Body<K>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (id, at) = (app.fresh_id(K::SORT.prefix())?, app.now());
    declared.require_allowed(&app)?;
    let mut members = declared.settled()?;
    members.insert("created_at".to_owned(), at.to_string().into());
    members.insert("archived_at".to_owned(), Value::Null);
    let (place, expected) = (K::SORT.place(&caller.tenant, &id)?, Expected::Absent);
    let number = app.objects().put(place, expected, &members, &caller.actor, at).await?;
    Ok(Json(shown::<K>(&Object { id, number, members, at })))
}

async fn retrieve<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    Ok(Json(shown::<K>(&get_kept::<K>(&app, &caller, &id).await?)))
}

/// Finds one that is shared with the caller.
async fn get_kept<K: Kept>(app: &App, caller: &Caller, id: &str) -> Result<Object, Error> {
    match K::SHARING {
        Sharing::Owner => owned::get(app, caller, K::SORT, id).await,
        Sharing::Tenant => app.objects().get(&caller.tenant, K::SORT, id).await,
    }
}

async fn update<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(changes): Body<Changes<K>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let kept = get_kept::<K>(&app, &caller, &id).await?;
    require_current(&kept)?;
    let mut declared = kept.members.clone();
    let stamps = ["created_at", "archived_at"];
    let stamps = stamps.map(|name| (name.to_owned(), declared.remove(name).unwrap_or_default()));
    for (name, value) in changes.members {
        let value = match (name.as_str(), value) {
            ("metadata", given) => merged(declared.remove("metadata"), given),
            (_, Value::Null) if K::NULL == Null::Leaves => continue,
            (_, value) => value,
        };
        declared.insert(name, value);
    }
    let declared: K = read(Value::Object(declared))?;
    declared.require_allowed(&app)?;
    let mut members = declared.settled()?;
    members.extend(stamps);
    let at = app.now();
    let (place, expected) = (K::SORT.place(&caller.tenant, &id)?, Expected::Version(kept.number));
    let number = app.objects().put(place, expected, &members, &caller.actor, at).await?;
    Ok(Json(shown::<K>(&Object { id, number, members, at })))
}

async fn archive<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let kept = get_kept::<K>(&app, &caller, &id).await?;
    K::end(&app, &caller, &id, End::Archived).await?;
    let kept = archived(&app, &caller, K::SORT, kept).await?;
    K::end(&app, &caller, &id, End::Archived).await?;
    Ok(Json(shown::<K>(&kept)))
}

async fn delete<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let kept = get_kept::<K>(&app, &caller, &id).await?;
    K::end(&app, &caller, &id, End::Deleted).await?;
    let place = K::SORT.place(&caller.tenant, &id)?;
    app.objects().delete(place, &kept, &caller.actor, app.now()).await?;
    K::end(&app, &caller, &id, End::Deleted).await?;
    Ok(Json(json!({ "id": id, "type": format!("{}_deleted", K::KIND) })))
}

async fn list<K: Kept>(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.text("page");
    let all = with_archived(&mut params)?;
    params.finish()?;
    let wanted = |kept: &Object| all || !kept.is_archived();
    let owner = caller.owns_only().filter(|_| K::SHARING == Sharing::Owner);
    let whose = (&caller.tenant, owner);
    let (found, next) = app.objects().list_owned(whose, K::SORT, after, limit, wanted).await?;
    Ok(Json(page(found.iter().map(shown::<K>).collect(), next)))
}
