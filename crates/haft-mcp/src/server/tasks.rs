//! Calls as tasks. A task is the call: there is nothing to keep beside what the store has.

use haft_core::{CallResult, ErrorClass};
use rmcp::model::{
    DetailedTask, ErrorData, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde::Serialize;
use serde_json::Value;

use super::McpServer;
use super::asks::Ask;
use super::calls::{Look, Standing, trouble};
use super::{outcomes, serving};
use crate::handle::Handle;
use crate::principal::Principal;

/// How often a client should look.
const POLL_MS: u64 = 500;

impl McpServer {
    /// Returns a task as it is when it is made.
    pub(super) fn new_task(&self, handle: Handle) -> Task {
        let now = self.0.haft.now().to_string();
        let made = handle.made_at().to_string();
        Task::new(handle.to_string(), TaskStatus::Working, made, now).with_poll_interval_ms(POLL_MS)
    }

    pub(super) async fn task(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<DetailedTask, ErrorData> {
        let handle = self.known(principal, id).await?;
        let stored = self.0.haft.store().call(handle.session, handle.call).await;
        let updated = stored.map_err(|error| trouble(&error))?.map(|call| call.updated_at);
        let updated = updated.unwrap_or_else(|| handle.made_at()).to_string();
        let made = handle.made_at().to_string();
        let mut task = Task::new(handle.to_string(), TaskStatus::Working, made, updated)
            .with_poll_interval_ms(POLL_MS);
        let payload = match self.standing(handle, principal, Look::Anywhere).await? {
            Standing::Done(outcome) => {
                self.0.sessions.put_back(principal, handle.session);
                ended(&outcome)
            }
            Standing::Rejected(rejection) => finished(outcomes::rejection(&rejection)),
            Standing::Running => TaskPayload::Working,
            Standing::Asking(asks) => {
                TaskPayload::InputRequired { input_requests: serving::requests(&asks)? }
            }
            Standing::Waiting(waiting) => {
                task.status_message = Some(self.whom(&waiting));
                TaskPayload::Working
            }
        };
        Ok(DetailedTask::new(task, payload))
    }

    /// Takes answers to what a task asks. Those that nobody asks for are left alone.
    pub(super) async fn update(
        &self,
        principal: &Principal,
        id: &str,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        let handle = self.known(principal, id).await?;
        let Standing::Asking(asks) = self.standing(handle, principal, Look::Recorded).await? else {
            return Ok(());
        };
        for (ask, answer) in asks.iter().filter_map(|ask| answer_of(ask, &responses)) {
            let taken = ask.answered(&self.0.haft, principal, answer).await;
            taken.map_err(|error| trouble(&error))?;
        }
        Ok(())
    }
}

fn answer_of<'a>(ask: &'a Ask, responses: &'a InputResponses) -> Option<(&'a Ask, &'a Value)> {
    responses.get(&ask.key).map(|answer| (ask, answer))
}

fn ended(outcome: &haft_core::Outcome) -> TaskPayload {
    match &outcome.result {
        CallResult::Err(failure) if failure.class == ErrorClass::Cancelled => {
            TaskPayload::Cancelled
        }
        CallResult::Ok(_) | CallResult::Err(_) => finished(outcomes::result(outcome)),
    }
}

fn finished(result: Result<rmcp::model::CallToolResult, ErrorData>) -> TaskPayload {
    match result {
        Ok(result) => TaskPayload::Completed { result: object(&result) },
        Err(error) => TaskPayload::Failed { error: object(&error) },
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}
