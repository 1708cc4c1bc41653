//! Calls that are made again under an idempotency key are made once.

use haft_core::{CallId, Digest};
use haft_runtime::{Begun, RequestError, RequestKey};
use rmcp::model::{ErrorData, InputResponses};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use super::McpServer;
use super::caller::Caller;
use super::calls::{trouble, unavailable};
use super::serving::{IfLeft, Serving};
use crate::handle::Handle;

/// Where a request has its key.
const KEY: &str = "haft/idempotencyKey";

/// Returns the key of a request, if it has one.
pub(super) fn key(context: &RequestContext<RoleServer>) -> Result<Option<String>, ErrorData> {
    match context.meta.get(KEY) {
        None => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(_) => {
            Err(ErrorData::invalid_params(format!("`_meta[\"{KEY}\"]`: expected a text"), None))
        }
    }
}

/// Refuses a key where nothing is kept by which a call could be recognised.
pub(super) fn require_no_key(key: Option<&str>) -> Result<(), ErrorData> {
    match key {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params(
            format!("this server keeps no record of calls, so it cannot honour `{KEY}`"),
            None,
        )),
    }
}

impl McpServer {
    /// Makes a call under a key, or comes back to the one that was made under it. It has a session
    /// of its own, which follows from the key.
    pub(super) async fn begin_once<'a>(
        &'a self,
        caller: &'a Caller,
        key: String,
        (tool, arguments): (&str, Map<String, Value>),
        responses: InputResponses,
    ) -> Result<(Handle, Serving<'a>), ErrorData> {
        let (haft, principal) = (&self.0.haft, &caller.principal);
        let digest = Digest::of_json(&json!(["tools/call", tool, arguments]));
        let key = RequestKey::Given(key);
        let begun = haft.begin_request(&principal.tenant, &principal.actor, &key, digest).await;
        let working = match begun.map_err(|error| refused(&error))? {
            Begun::Work(working) => working,
            // Answers are kept for requests over other paths only.
            Begun::Answered(_) => return Err(refused(&RequestError::Reused)),
        };
        let request = working.request().clone();
        let was_begun_before = request.was_begun_before();
        let made = request.scope(async {
            let (tenant, actor) = (principal.tenant.clone(), principal.actor.clone());
            let opened = haft.open(tenant, self.0.settings.config.clone(), actor).await;
            let session = opened.map_err(|error| trouble(&error))?;
            let call = haft.driver().fresh().map_err(|error| trouble(&error))?;
            let handle = Handle { session, call: CallId::from_bits(call) };
            let serving = match was_begun_before {
                true => {
                    self.propose(caller, handle, tool, arguments).await?;
                    Serving::resume(self, caller, handle, responses)
                }
                false => Serving::begin(self, caller, handle, tool, arguments, responses).await?,
            };
            Ok::<_, ErrorData>((handle, serving.if_left(IfLeft::GoesOn)))
        });
        // Whoever makes it again from here on finds the call.
        let made = made.await;
        drop(working);
        made
    }
}

fn refused(error: &RequestError) -> ErrorData {
    match error {
        RequestError::BadKey => ErrorData::invalid_params(error.to_string(), None),
        RequestError::Reused => {
            let data = json!({ "code": "idempotency_key_reused" });
            ErrorData::invalid_params(error.to_string(), Some(data))
        }
        RequestError::UnderWay | RequestError::Store(_) => unavailable(error.to_string()),
    }
}
