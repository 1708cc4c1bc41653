//! Making calls for clients, and finding out how they stand.

use haft_core::session::{Rejection, SuspensionKind};
use haft_core::{CallId, Outcome, SessionId};
use haft_runtime::{Answer, CallError, InputError, Waiting};
use haft_store::Loaded;
use rmcp::model::ErrorData;
use serde_json::{Map, Value, json};

use super::asks::{Ask, is_for_caller};
use super::caller::Caller;
use super::{Consent, McpServer};
use crate::handle::Handle;
use crate::principal::Principal;

/// How a call stands, from its caller's point of view.
#[derive(Debug)]
pub(super) enum Standing {
    /// It is over.
    Done(Box<Outcome>),
    /// It was not taken.
    Rejected(Box<Rejection>),
    /// It runs, or soon will.
    Running,
    /// It waits for what its caller may give.
    Asking(Vec<Ask>),
    /// It waits for someone else.
    Waiting(Box<Waiting>),
}

/// Where to look for the questions of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It runs in this process.
    Here,
    /// It may have been made by another process, or by an earlier life of this one.
    Anywhere,
    /// As anywhere, and what is asked is not yet asked again here: to be answered, not to be shown.
    Recorded,
}

impl McpServer {
    /// Makes a call. Whatever becomes of it is found under the handle.
    pub(super) async fn propose(
        &self,
        caller: &Caller,
        handle: Handle,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<(), ErrorData> {
        self.0.questions.called(handle.call, caller.can.clone());
        let proposed = self.0.haft.propose_as(handle.session, handle.call, tool, arguments).await;
        proposed.map_err(|error| trouble(&error))
    }

    /// Returns a session and an id for a call of the principal.
    pub(super) async fn fresh(&self, principal: &Principal) -> Result<Handle, ErrorData> {
        let taken = self.0.sessions.take(&self.0.haft, principal, &self.0.settings.config).await;
        let session = taken.map_err(|error| trouble(&error))?;
        let call = self.0.haft.driver().fresh().map_err(|error| trouble(&error))?;
        Ok(Handle { session, call: CallId::from_bits(call) })
    }

    /// Finds the call that a text names, if it is the principal's.
    pub(super) async fn known(
        &self,
        principal: &Principal,
        text: &str,
    ) -> Result<Handle, ErrorData> {
        // One answer for what does not exist and for what is another's.
        let unknown = || ErrorData::invalid_params("there is no such call", None);
        let handle: Handle = text.parse().map_err(|_| unknown())?;
        if !self.is_of(principal, handle.session).await? {
            return Err(unknown());
        }
        match self.0.haft.store().call(handle.session, handle.call).await {
            Ok(Some(_)) => Ok(handle),
            Ok(None) => Err(unknown()),
            Err(error) => Err(trouble(&error)),
        }
    }

    /// Returns whether a session is the principal's.
    pub(super) async fn is_of(
        &self,
        principal: &Principal,
        session: SessionId,
    ) -> Result<bool, ErrorData> {
        let loaded = self.0.haft.store().load(session).await.map_err(|error| trouble(&error))?;
        let opened_by = |loaded: &Loaded| match loaded.state.as_open() {
            Some(open) => open.opened_by == principal.actor,
            None => false,
        };
        Ok(loaded.is_some_and(|loaded| loaded.tenant == principal.tenant && opened_by(&loaded)))
    }

    /// A request that is made again must be the same request.
    pub(super) async fn require_same(&self, handle: Handle, tool: &str) -> Result<(), ErrorData> {
        let stored = self.0.haft.store().call(handle.session, handle.call).await;
        match stored.map_err(|error| trouble(&error))? {
            Some(call) if call.tool == tool => Ok(()),
            _ => Err(ErrorData::invalid_params("`requestState` is another request's", None)),
        }
    }

    pub(super) async fn standing(
        &self,
        handle: Handle,
        principal: &Principal,
        look: Look,
    ) -> Result<Standing, ErrorData> {
        match self.0.haft.answer(handle.session, handle.call).await {
            Ok(Some(Answer::Done(outcome))) => Ok(Standing::Done(outcome)),
            Ok(Some(Answer::InDoubt(waiting))) => Ok(Standing::Waiting(waiting)),
            Ok(Some(Answer::Waiting(waiting))) => Ok(self.waiting(waiting)),
            Ok(None) => self.running(handle, principal, look).await,
            Err(CallError::Rejected(rejection)) => Ok(Standing::Rejected(rejection.into())),
            Err(error) => Err(trouble(&error)),
        }
    }

    fn waiting(&self, waiting: Box<Waiting>) -> Standing {
        if !is_for_caller(waiting.kind, self.0.settings.consent) {
            return Standing::Waiting(waiting);
        }
        let registered = self.0.haft.registry().get(waiting.tool.as_str());
        let ask = match waiting.kind {
            SuspensionKind::Approval => match Ask::of_approval(&waiting) {
                Some(ask) => ask,
                None => return Standing::Waiting(waiting),
            },
            _ => {
                let output = registered.as_ref().and_then(|r| r.spec().output_schema.as_ref());
                Ask::of_elicitation(&waiting, output)
            }
        };
        Standing::Asking(vec![ask])
    }

    async fn running(
        &self,
        handle: Handle,
        principal: &Principal,
        look: Look,
    ) -> Result<Standing, ErrorData> {
        let questions = &self.0.questions;
        let open = match (questions.open_here(handle.call).await, look) {
            (Some(open), Look::Here | Look::Anywhere) => open,
            (None, Look::Here) => return Ok(Standing::Running),
            (None, Look::Anywhere) | (_, Look::Recorded) => {
                let (haft, tenant) = (&self.0.haft, &principal.tenant);
                let found = questions.open_anywhere(haft, tenant, handle.call).await;
                found.map_err(|error| trouble(&error))?
            }
        };
        if open.is_empty() {
            return Ok(Standing::Running);
        }
        let asks = open.into_iter().map(|(key, asked)| Ask::of_question(key, asked));
        Ok(Standing::Asking(asks.collect()))
    }

    /// Says for whom a call waits, and where they can be reached.
    pub(super) fn whom(&self, waiting: &Waiting) -> String {
        let tool = &waiting.tool;
        let what = match waiting.kind {
            SuspensionKind::Approval => format!("`{tool}` waits for approval"),
            SuspensionKind::Elicitation => format!("`{tool}` waits for a person's answer"),
            SuspensionKind::ClientExec => format!("`{tool}` waits for its client to run it"),
            SuspensionKind::Child => format!("`{tool}` waits for a session of its own"),
            SuspensionKind::Settlement => format!(
                "`{tool}` ended without a result{}, it is not known whether it took effect, and it \
                 waits for a person to say so; do not make the call again meanwhile",
                waiting
                    .in_doubt_because
                    .as_deref()
                    .map(|because| format!(" ({because})"))
                    .unwrap_or_default()
            ),
        };
        let by_whom = match (waiting.kind, self.0.settings.consent) {
            (SuspensionKind::Approval, Consent::IsNoApproval) => " by someone else than its caller",
            (SuspensionKind::Approval, Consent::Approves)
                if Ask::of_approval(waiting).is_none() =>
            {
                " in the console or by `haft approve`, because it is too long to be shown here whole"
            }
            _ => "",
        };
        let at = self.0.settings.approve_at.as_deref();
        let at = at.map(|at| format!(", at {at}")).unwrap_or_default();
        format!("{what}{by_whom}{at}, until {}", waiting.expires_at)
    }
}

/// The store or the session did not do what was asked, and the client cannot help that.
pub(super) fn trouble(error: &(impl std::error::Error + 'static)) -> ErrorData {
    tracing::warn!(%error, "a request of an MCP client failed");
    // A store that has trouble may have none in a moment.
    match is_passing(error) {
        true => unavailable(error.to_string()),
        false => ErrorData::internal_error(error.to_string(), None),
    }
}

/// The code of what may work when it is asked for again.
const UNAVAILABLE: &str = "unavailable";

/// Says that the same request may work in a moment.
pub(super) fn unavailable(message: String) -> ErrorData {
    let data = json!({ "code": UNAVAILABLE, "retryAfterMs": 1_000 });
    ErrorData::internal_error(message, Some(data))
}

/// Returns whether an error says that the same request may work in a moment.
pub(super) fn is_unavailable(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data["code"] == UNAVAILABLE)
}

/// Returns whether the same request may work later.
fn is_passing(error: &(dyn std::error::Error + 'static)) -> bool {
    let input = match error.downcast_ref() {
        Some(CallError::Input(input)) => Some(input),
        Some(_) => None,
        None => error.downcast_ref::<InputError>(),
    };
    match input {
        Some(
            InputError::Store(_)
            | InputError::StoreAway(_)
            | InputError::Overloaded
            | InputError::LeaseLapsed
            | InputError::OwnedElsewhere { .. }
            | InputError::ShuttingDown
            | InputError::UnderWayElsewhere,
        ) => true,
        Some(_) => false,
        None => error.is::<haft_store::Error>(),
    }
}

/// Returns whether an input was refused because what it is about is over.
pub(super) fn is_over(error: &InputError) -> bool {
    matches!(error, InputError::Refused(_))
}
