//! Things that belong to one person within a tenant: vaults and files.
//!
//! Whoever wrote a thing's first version owns it. They and the tenant's admins use, read and delete
//! it; for everyone else it does not exist.

use haft_core::Actor;
use haft_store::Which;

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::objects::{Object, Sort};

/// Finds a thing that the caller owns or administers.
pub(crate) async fn get(app: &App, caller: &Caller, sort: Sort, id: &str) -> Result<Object, Error> {
    let found = find(app, caller, sort, id).await?;
    found.ok_or_else(|| Error::not_found(sort.noun(), id))
}

/// Finds a thing that the caller owns or administers, if it is there.
pub(crate) async fn find(
    app: &App,
    caller: &Caller,
    sort: Sort,
    id: &str,
) -> Result<Option<Object>, Error> {
    let Some(found) = app.objects().find(&caller.tenant, sort, id, Which::Latest).await? else {
        return Ok(None);
    };
    require(app, caller, sort, id)
        .await
        .map(|()| Some(found))
        .or_else(|error| if error.is_not_found() { Ok(None) } else { Err(error) })
}

/// Refuses a thing of somebody else, also one that is gone, as one that never was.
pub(crate) async fn require(app: &App, caller: &Caller, sort: Sort, id: &str) -> Result<(), Error> {
    let owner = app.objects().owner(&caller.tenant, sort.space(), id).await?;
    match is_theirs(caller, owner.as_ref()) {
        true => Ok(()),
        false => Err(Error::not_found(sort.noun(), id)),
    }
}

/// What nobody is known to own is the admins'.
fn is_theirs(caller: &Caller, owner: Option<&Actor>) -> bool {
    match owner {
        Some(owner) => caller.may_change(owner),
        None => caller.owns_only().is_none(),
    }
}
