//! What a named thing was before: every version of it, who wrote it and when.

use axum::Json;
use axum::extract::State;
use haft_store::Page;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::owned;

/// The sorts that people look at, by their names in paths of the API.
const SORTS: [(&str, Sort); 4] = [
    ("agents", Sort::Agent),
    ("environments", Sort::Environment),
    ("memory_stores", Sort::MemoryStore),
    ("vaults", Sort::Vault),
];

/// The versions of one thing, the newest first; `before` goes on below a number.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path((kind, id)): Path<(String, String)>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.one::<u64>("before")?;
    params.finish()?;
    let sort = SORTS.into_iter().find(|(name, _)| *name == kind).map(|(_, sort)| sort);
    let sort = sort.ok_or_else(|| {
        let names = SORTS.map(|(name, _)| name).join("`, `");
        Error::invalid(format!("expected one of `{names}`, found {kind:?}"))
    })?;
    if sort == Sort::Vault {
        owned::require(&app, &caller, sort, &id).await?;
    }
    let versions =
        app.objects().versions(&caller.tenant, sort, &id, &Page { after, limit }).await?;
    if versions.is_empty() && after.is_none() {
        return Err(Error::not_found(sort.noun(), &id));
    }
    let next =
        versions.last().filter(|(last, _)| last.number > 1 && versions.len() == limit as usize);
    let next = next.map(|(last, _)| last.number);
    let data: Vec<Value> = versions
        .iter()
        .map(|(info, members)| {
            json!({ "number": info.number, "at": info.at, "by": info.by, "content": members })
        })
        .collect();
    Ok(Json(json!({ "data": data, "next": next })))
}
