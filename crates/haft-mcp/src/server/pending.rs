//! Calls that are not done when their request is answered: what is said instead, and the tool that
//! picks them up.

use std::time::Duration;

use haft_store::{Page, Pending, PendingCursor, PendingFilter};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, ErrorData};
use serde_json::{Map, Value, json};

use super::McpServer;
use super::caller::Caller;
use super::calls::trouble;
use super::connection::Connection;
use super::listing::AWAIT_CALL;
use super::outcomes;
use super::serving::{Patience, Served, Serving};
use super::settings::TaskUse;
use crate::handle::Handle;
use crate::principal::Principal;

/// How long `await_call` waits unless told.
const AWAIT: Duration = Duration::from_secs(20);
/// The longest that it waits.
const AWAIT_MAX: u64 = 300;
/// How many waiting calls a page of its list has.
const LISTED_MAX: u32 = 100;

impl Connection {
    pub(super) async fn await_call(
        &self,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(text) = arguments.get("handle").and_then(Value::as_str) else {
            let page = arguments.get("page").and_then(Value::as_str);
            return match page.map(str::parse).transpose() {
                Ok(after) => Ok(self.server.waiting_of(&caller.principal, after).await?.into()),
                Err(error) => Ok(refused(&format!("`page`: {error}")).into()),
            };
        };
        let handle = match self.server.known(&caller.principal, text).await {
            Ok(handle) => handle,
            Err(error) => return Ok(refused(&error.message).into()),
        };
        let seconds = arguments.get("wait_seconds").and_then(Value::as_u64);
        let patience = seconds.map_or(AWAIT, |s| Duration::from_secs(s.min(AWAIT_MAX)));
        let serving = Serving::resume(&self.server, caller, handle, Default::default());
        let serving = serving.with_patience(Patience::Either(patience));
        let served = serving.with_task_use(Some(TaskUse::Never)).finish().await?;
        self.server.answer(handle, served)
    }
}

impl McpServer {
    pub(super) fn answer(
        &self,
        handle: Handle,
        served: Served,
    ) -> Result<CallToolResponse, ErrorData> {
        match served {
            Served::Done(outcome) => outcomes::result(&outcome).map(Into::into),
            Served::Rejected(rejection) => outcomes::rejection(&rejection).map(Into::into),
            Served::Input(requests) => Ok(self.input(handle, requests).into()),
            Served::Task => Ok(CreateTaskResult::new(self.new_task(handle)).into()),
            Served::Pending(waiting) => {
                let text = self.whom(&waiting);
                Ok(self.pending(handle, waiting.tool.as_str(), &text).into())
            }
            Served::Running => Ok(self.pending(handle, "", "the call still runs").into()),
        }
    }

    /// A result that says where the result will be.
    fn pending(&self, handle: Handle, tool: &str, how: &str) -> CallToolResult {
        let text = format!(
            "Not done yet: {how}. Nothing is lost and nothing has to be called again. To pick up \
             the result, call `{AWAIT_CALL}` with {}.",
            json!({"handle": handle.to_string()})
        );
        // Clients that hold a result against the tool's schema accept an error without one.
        let registered = self.0.haft.registry().get(tool);
        let has_schema = registered.is_some_and(|tool| tool.spec().output_schema.is_some());
        let content = vec![ContentBlock::text(text)];
        let mut result = match has_schema {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        let meta = json!({"haft/pending": {"handle": handle.to_string()}});
        result.meta = serde_json::from_value(meta).ok();
        result
    }

    /// Lists the principal's calls that wait for someone, a page at a time.
    async fn waiting_of(
        &self,
        principal: &Principal,
        after: Option<PendingCursor>,
    ) -> Result<CallToolResult, ErrorData> {
        let store = self.0.haft.store();
        let filter = PendingFilter {
            tenant: Some(principal.tenant.clone()),
            opened_by: Some(principal.actor.clone()),
            expires_after: Some(self.0.haft.now()),
            ..PendingFilter::default()
        };
        let page = Page { after, limit: LISTED_MAX + 1 };
        let mut waits = store.pending(&filter, &page).await.map_err(|error| trouble(&error))?;
        let has_more = waits.len() > LISTED_MAX as usize;
        waits.truncate(LISTED_MAX as usize);
        let line = |wait: &Pending| {
            let handle = Handle { session: wait.session, call: wait.call };
            format!("{handle}: `{}`", wait.tool)
        };
        let mut lines: Vec<String> = waits.iter().map(line).collect();
        if let Some(last) = waits.last().filter(|_| has_more) {
            let page = json!({ "page": last.cursor().to_string() });
            lines.push(format!("There are more. To list them, call `{AWAIT_CALL}` with {page}."));
        }
        let text = match lines.is_empty() {
            true => "No call of yours waits for anyone.".to_owned(),
            false => lines.join("\n"),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }
}

fn refused(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.to_owned())])
}
