//! The environment of a session that was opened without naming one.

use haft_store::Tenant;
use serde_json::Value;

use crate::app::App;
use crate::error::Error;
use crate::objects::{Object, Sort};

/// The metadata that marks an environment as the default, with the value `true`.
const MARK: &str = "haft.default";

/// Returns the id of a tenant's default environment: the one that is marked, else the oldest. So
/// an environment that is added changes nothing for those who named none.
pub(crate) async fn of(app: &App, tenant: &Tenant) -> Result<String, Error> {
    let current = |object: &Object| !object.is_archived();
    let (found, _) = app.objects().list(tenant, Sort::Environment, None, u32::MAX, current).await?;
    let marked: Vec<&Object> = found.iter().filter(|object| is_marked(object)).collect();
    match marked.as_slice() {
        [] => {
            let oldest = found.last().map(|object| object.id.clone());
            oldest.ok_or_else(|| {
                Error::invalid("there is no environment; make one with `POST /v1/environments`")
            })
        }
        [only] => Ok(only.id.clone()),
        several => {
            let named: Vec<String> = several.iter().map(|object| named(object)).collect();
            Err(Error::invalid(format!(
                "{} environments are marked as the default (`{MARK}` in their metadata): {}; unmark \
                 all but one, or name one (`?environment=ID`, or `environment` in the body)",
                named.len(),
                named.join(", ")
            )))
        }
    }
}

fn is_marked(environment: &Object) -> bool {
    let metadata = environment.members.get("metadata");
    metadata.and_then(|metadata| metadata.get(MARK)).and_then(Value::as_str) == Some("true")
}

fn named(environment: &Object) -> String {
    format!("{} ({:?})", environment.id, environment.text("name").unwrap_or_default())
}
