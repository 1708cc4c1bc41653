//! Ending waits: what people and programs say, checked, then given to the session.

use std::sync::Arc;

use haft_core::permission::{Budget, Condition, StandingGrant};
use haft_core::session::{
    Call, Edit, Fit, Open, Phase, PolicyFacts, Reply, Resolution, Resolved, Returned, Settlement,
};
use haft_core::tool::Redaction;
use haft_core::{
    Actor, Arguments, CallId, CallResult, Directives, ErrorClass, Failure, GrantId, Millis, Output,
    ResolutionId, SessionId,
};
use serde_json::{Map, Value};

use super::Haft;
use super::error::ResolveError;
use crate::error::InputError;
use crate::registry::Registered;
use crate::toolbox::{SealError, Wish};

/// What someone says about a wait, not yet checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Yes.
    Approve {
        /// Other arguments to run instead; what is masked stays what it was.
        arguments: Option<Map<String, Value>>,
        /// What the approver adds.
        note: Option<String>,
        /// A standing permission that is given along with it.
        grant: Option<GrantTerms>,
    },
    /// No.
    Deny {
        /// What the approver adds, for the model.
        note: Option<String>,
    },
    /// The answer of a person, which is the result.
    Answer {
        /// The answer.
        value: Value,
    },
    /// What the client that ran the call says came out.
    Result {
        /// What came out.
        result: CallResult,
        /// What it asks of the loop, as far as an outsider may.
        directives: Directives,
    },
    /// What became of a call in doubt.
    Settle(Verdict),
}

/// What a person says about a call in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It did take effect.
    Happened {
        /// What it gave, as far as known.
        value: Option<Value>,
    },
    /// It did not; run it.
    RunAgain,
    /// Leave it.
    GiveUp,
}

/// The terms of a standing permission for a call's tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantTerms {
    /// What must hold for the arguments; all of it.
    pub when: Vec<Condition>,
    /// For how many calls; `None` for any number.
    pub uses: Option<u32>,
    /// How much they may sum up to; `None` for any amount.
    pub budget: Option<Budget>,
    /// For how long; `None` for the whole session.
    pub lasts: Option<Millis>,
}

impl Haft {
    /// Ends a wait. It is acknowledged when it is durable, before anything follows from it, and
    /// exactly one of all who try is.
    ///
    /// # Errors
    ///
    /// [`haft_core::session::Refusal::Stale`] for whoever comes second, with who decided what and when.
    pub async fn resolve(
        &self,
        session: SessionId,
        call: CallId,
        by: Actor,
        response: Response,
    ) -> Result<Reply, ResolveError> {
        let id = ResolutionId::from_bits(self.driver.fresh()?);
        self.resolve_as(session, call, None, id, by, response).await
    }

    /// Ends a wait under an id of the resolver's, so that trying again after a lost answer is
    /// recognised, and only the wait that the resolver saw.
    ///
    /// # Errors
    ///
    /// As [`Haft::resolve`].
    pub async fn resolve_as(
        &self,
        session: SessionId,
        call: CallId,
        round: Option<u32>,
        id: ResolutionId,
        by: Actor,
        response: Response,
    ) -> Result<Reply, ResolveError> {
        let loaded = self.store().load(session).await.map_err(InputError::from)?;
        let loaded = loaded.ok_or(InputError::UnknownSession)?;
        let known = loaded.state.as_open().and_then(|open| Some((open, open.call(call)?)));
        // Only the wait that was looked at is ended, also when the resolver names none.
        let seen = known.and_then(|(_, call)| match &call.phase {
            Phase::Waiting(suspension) => Some(suspension.round),
            _ => None,
        });
        let round = round.or(seen);
        let (resolution, policy) = match known {
            Some((open, waiting)) => {
                let registered = self.registered(open, waiting)?;
                let resolution = self.checked(open, waiting, &registered, &by, response).await?;
                let wish = Wish {
                    session,
                    opened_by: &open.opened_by,
                    spec: registered.spec(),
                    arguments: edited(&resolution).unwrap_or(&waiting.arguments),
                };
                let policy = self.toolbox.policy_facts(wish).await;
                (resolution, policy)
            }
            // Whoever is late is told who decided; nothing of what they say is looked at.
            None => (unchecked(&response), PolicyFacts::default()),
        };
        let resolved = Resolved { id, call, round, by, resolution, policy };
        Ok(self.driver.resolve(session, resolved).await?)
    }

    fn registered(&self, open: &Open, call: &Call) -> Result<Arc<Registered>, ResolveError> {
        let tool = &call.contract.tool;
        let found = self.toolbox.tool(&open.config.toolset, tool.as_str());
        found.ok_or_else(|| ResolveError::ToolGone { tool: tool.clone() })
    }

    async fn checked(
        &self,
        open: &Open,
        call: &Call,
        registered: &Registered,
        by: &Actor,
        response: Response,
    ) -> Result<Resolution, ResolveError> {
        Ok(match response {
            Response::Approve { arguments, note, grant } => {
                let edit = match arguments {
                    Some(arguments) => Some(self.edit(open, call, registered, arguments).await?),
                    None => None,
                };
                let grant = grant.map(|terms| self.grant(call, by, terms)).transpose()?;
                Resolution::Approve { edit, note, grant: grant.map(Box::new) }
            }
            Response::Deny { note } => Resolution::Deny { note },
            Response::Answer { value } => {
                let fit = fit(registered, Some(&value));
                let output = self.taken_in(open, registered, Output::of_value(value)).await;
                Resolution::Answer { output, fit }
            }
            Response::Result { result, directives } => {
                let fit = match &result {
                    CallResult::Ok(output) => fit(registered, output.value.as_ref()),
                    CallResult::Err(_) => Fit::Fits,
                };
                let result = match result {
                    CallResult::Ok(output) => CallResult::Ok(output),
                    CallResult::Err(failure) => CallResult::Err(unprivileged(failure)),
                };
                let returned = Returned { directives, ..Returned::from(result) };
                let max = registered.spec().max_result_bytes;
                let returned = self.toolbox.taken_in(open.session, returned, max).await;
                let Returned { result, directives, .. } = returned;
                Resolution::Result { result, directives, fit }
            }
            Response::Settle(Verdict::Happened { value }) => {
                let output = match value {
                    Some(value) => {
                        Some(self.taken_in(open, registered, Output::of_value(value)).await)
                    }
                    None => None,
                };
                Resolution::Settle(Settlement::Happened { output })
            }
            Response::Settle(Verdict::RunAgain) => Resolution::Settle(Settlement::RunAgain),
            Response::Settle(Verdict::GiveUp) => Resolution::Settle(Settlement::GiveUp),
        })
    }

    /// What an approver wants to run instead, checked like what a model asks for.
    async fn edit(
        &self,
        open: &Open,
        call: &Call,
        registered: &Registered,
        mut arguments: Map<String, Value>,
    ) -> Result<Edit, ResolveError> {
        let not_kept = |error: SealError| ResolveError::NotKept { message: error.to_string() };
        let redaction = &registered.spec().redaction;
        if call.arguments.seal().is_some() {
            let original = self.toolbox.opened(open.session, &call.arguments, redaction).await;
            unmask(&mut arguments, &original.map_err(not_kept)?, redaction);
        }
        let (arguments, fit) = match registered.admit(arguments.clone()) {
            Ok(admitted) => (admitted.arguments, Fit::Fits),
            Err(refusal) => (arguments, Fit::Misfit { message: refusal.to_string() }),
        };
        let arguments = match fit {
            Fit::Fits => {
                let sealed = self.toolbox.sealed(open.session, arguments, redaction).await;
                sealed.map_err(not_kept)?
            }
            // It is refused as it is, so nothing of it is kept.
            Fit::Misfit { .. } => Arguments::plain(Map::new()),
        };
        Ok(Edit { arguments, fit })
    }

    fn grant(
        &self,
        call: &Call,
        by: &Actor,
        terms: GrantTerms,
    ) -> Result<StandingGrant, ResolveError> {
        let at = self.toolbox.now();
        Ok(StandingGrant {
            id: GrantId::from_bits(self.driver.fresh()?),
            tool: call.contract.tool.clone(),
            contract: call.contract.digest,
            when: terms.when,
            uses_left: terms.uses,
            budget: terms.budget,
            expires_at: terms.lasts.map(|lasts| at + lasts),
            by: by.clone(),
            at,
        })
    }

    /// Bounds and masks what came from outside, as if a tool of ours had said it.
    async fn taken_in(&self, open: &Open, registered: &Registered, output: Output) -> Output {
        let returned = Returned::from(CallResult::Ok(output.clone()));
        let max = registered.spec().max_result_bytes;
        match self.toolbox.taken_in(open.session, returned, max).await.result {
            CallResult::Ok(output) => output,
            CallResult::Err(_) => output,
        }
    }
}

fn edited(resolution: &Resolution) -> Option<&Arguments> {
    match resolution {
        Resolution::Approve { edit: Some(edit), .. } if edit.fit == Fit::Fits => {
            Some(&edit.arguments)
        }
        _ => None,
    }
}

fn fit(registered: &Registered, value: Option<&Value>) -> Fit {
    let Some(schema) = registered.output() else { return Fit::Fits };
    match schema.check(value.unwrap_or(&Value::Null)) {
        Ok(()) => Fit::Fits,
        Err(misfit) => Fit::Misfit { message: misfit.to_string() },
    }
}

/// A client may say that it failed, not that Haft did.
fn unprivileged(failure: Failure) -> Failure {
    let class = match failure.class {
        class @ (ErrorClass::ToolError
        | ErrorClass::Upstream
        | ErrorClass::RateLimited
        | ErrorClass::Timeout
        | ErrorClass::Cancelled
        | ErrorClass::InvalidArgs) => class,
        _ => ErrorClass::ToolError,
    };
    Failure { class, ..failure }
}

/// Puts back what the approver was not shown and left as it was.
fn unmask(
    arguments: &mut Map<String, Value>,
    original: &Map<String, Value>,
    redaction: &Redaction,
) {
    for secret in &redaction.secret {
        let untouched = secret.find(arguments).is_some_and(|value| value == Redaction::MASK);
        if let Some(value) = secret.find(original).filter(|_| untouched) {
            secret.replace(arguments, value.clone());
        }
    }
}

/// The kind of a response, for a call that does not wait any more: only who decided is looked up.
fn unchecked(response: &Response) -> Resolution {
    match response {
        Response::Approve { .. } => Resolution::Approve { edit: None, note: None, grant: None },
        Response::Deny { .. } => Resolution::Deny { note: None },
        Response::Answer { .. } => Resolution::Answer { output: Output::default(), fit: Fit::Fits },
        Response::Result { .. } => Resolution::Result {
            result: CallResult::Ok(Output::default()),
            directives: Directives::default(),
            fit: Fit::Fits,
        },
        Response::Settle(Verdict::Happened { .. }) => {
            Resolution::Settle(Settlement::Happened { output: None })
        }
        Response::Settle(Verdict::RunAgain) => Resolution::Settle(Settlement::RunAgain),
        Response::Settle(Verdict::GiveUp) => Resolution::Settle(Settlement::GiveUp),
    }
}
