//! Ending waits: what people and programs say, checked, then given to the session.

use std::sync::Arc;

use haft_core::permission::{Budget, Condition, StandingGrant};
use haft_core::session::{
    Call, DecidedBy, DecidedKind, Edit, Fit, Input, Interrupted, MessageArrived, Open, Phase,
    PolicyFacts, Refusal, Reply, Resolution, Resolved, Returned, Settlement, Stale, State,
    SuspensionKind,
};
use haft_core::tool::{Contract, Redaction};
use haft_core::{
    Actor, Arguments, CallId, CallResult, Directives, ErrorClass, Failure, GrantId, Millis, Output,
    ResolutionId, SessionId, Timestamp,
};
use haft_store::{CallStage, Loaded, Request, StoredCall};
use serde_json::{Map, Value};

use super::Haft;
use super::error::ResolveError;
use crate::error::{BatchError, InputError};
use crate::registry::Registered;
use crate::tool::{Run, Scope};
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

impl Response {
    /// Returns the kind of decision as which it is recorded.
    pub fn kind(&self) -> DecidedKind {
        match self {
            Self::Approve { .. } => DecidedKind::Approve,
            Self::Deny { .. } => DecidedKind::Deny,
            Self::Answer { .. } => DecidedKind::Answer,
            Self::Result { .. } => DecidedKind::Result,
            Self::Settle(Verdict::Happened { .. }) => DecidedKind::Happened,
            Self::Settle(Verdict::RunAgain) => DecidedKind::RunAgain,
            Self::Settle(Verdict::GiveUp) => DecidedKind::GiveUp,
        }
    }
}

/// One of several things that someone says to a session in one step.
#[derive(Debug, Clone)]
pub enum Said {
    /// A message.
    Message(MessageArrived),
    /// That the session is to stop what it does.
    Interrupt(Interrupted),
    /// How a wait ends.
    Resolution {
        /// The call that waits.
        call: CallId,
        /// By which it is recognised when it is said again.
        id: ResolutionId,
        /// Who says it.
        by: Actor,
        /// What they say.
        response: Response,
    },
}

/// What is to be done about a response.
enum Checked {
    /// It is to be recorded.
    New(Box<Resolved>),
    /// It was, and that was the reply.
    Before(Reply),
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

impl GrantTerms {
    /// Returns the grant that somebody gives on these terms, for a tool as its contract has it.
    pub fn granted(
        self,
        id: GrantId,
        contract: &Contract,
        by: Actor,
        at: Timestamp,
    ) -> StandingGrant {
        StandingGrant {
            id,
            tool: contract.tool.clone(),
            contract: contract.digest,
            when: self.when,
            uses_left: self.uses,
            budget: self.budget,
            expires_at: self.lasts.map(|lasts| at + lasts),
            by,
            at,
        }
    }
}

#[haft_macros::boxed]
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
        self.resolve_seen((session, loaded), call, round, id, by, response).await
    }

    /// Ends a wait in a session that the caller has just loaded, so that it is read once.
    ///
    /// # Errors
    ///
    /// As [`Haft::resolve`].
    pub async fn resolve_seen(
        &self,
        seen: (SessionId, Loaded),
        call: CallId,
        round: Option<u32>,
        id: ResolutionId,
        by: Actor,
        response: Response,
    ) -> Result<Reply, ResolveError> {
        let (session, loaded) = seen;
        let wait = (session, call, round);
        match self.checked_resolution(&loaded, wait, id, by, response).await? {
            Checked::New(resolved) => {
                Ok(self.driver.resolve_seen(session, Some(loaded), *resolved).await?)
            }
            Checked::Before(reply) => Ok(reply),
        }
    }

    /// Takes several things that someone says to a session in one step: all of them, or none. A
    /// session that the caller has just loaded is not read again.
    ///
    /// # Errors
    ///
    /// Which of them is refused and why; then nothing has changed.
    pub async fn take_all(
        &self,
        session: SessionId,
        seen: Option<Loaded>,
        said: Vec<Said>,
    ) -> Result<(), (Option<usize>, ResolveError)> {
        // What an earlier run of this request has recorded is not checked against what became of
        // it since.
        if let Some(request) = Request::current()
            && request.log_before(session).is_some()
        {
            request.step_in(session);
            return Ok(());
        }
        let trouble = |error: InputError| (None, ResolveError::from(error));
        let loaded = match seen {
            Some(loaded) => loaded,
            None => {
                let loaded = self.store().load(session).await;
                let loaded = loaded.map_err(|error| trouble(error.into()))?;
                loaded.ok_or_else(|| trouble(InputError::UnknownSession))?
            }
        };
        let mut inputs = Vec::with_capacity(said.len());
        for (at, said) in said.into_iter().enumerate() {
            inputs.push(match said {
                Said::Message(arrived) => Input::MessageArrived(arrived),
                Said::Interrupt(interrupted) => Input::Interrupted(interrupted),
                Said::Resolution { call, id, by, response } => {
                    let wait = (session, call, None);
                    let checked = self.checked_resolution(&loaded, wait, id, by, response).await;
                    match checked.map_err(|error| (Some(at), error))? {
                        Checked::New(resolved) => Input::Resolved(*resolved),
                        Checked::Before(_) => continue,
                    }
                }
            });
        }
        // What comes alone needs no second look at the session.
        if let [_] = &inputs[..]
            && let Some(input) = inputs.pop()
        {
            let taken = match input {
                Input::Resolved(resolved) => {
                    self.driver.resolve_seen(session, Some(loaded), resolved).await
                }
                input => self.driver.input(session, input).await,
            };
            return taken.map(drop).map_err(|error| (Some(0), error.into()));
        }
        let taken = self.driver.input_all(session, inputs).await;
        taken.map_err(|BatchError { at, error }| (at, error.into()))
    }

    /// Checks what someone says about a wait, without recording it.
    async fn checked_resolution(
        &self,
        loaded: &Loaded,
        (session, call, round): (SessionId, CallId, Option<u32>),
        id: ResolutionId,
        by: Actor,
        response: Response,
    ) -> Result<Checked, ResolveError> {
        let known = loaded.state.as_open().and_then(|open| Some((open, open.call(call)?)));
        let Some((open, waiting)) = known else {
            let late = self.late(&loaded.state, session, call, id, &response).await;
            return late.map(Checked::Before);
        };
        // Only the wait that was looked at is ended, also when the resolver names none.
        let round = round.or(match &waiting.phase {
            Phase::Waiting(suspension) => Some(suspension.round),
            _ => None,
        });
        let registered = match (self.registered(open, waiting), needs_no_tool(&response)) {
            (Ok(registered), _) => registered,
            (Err(_), Some(resolution)) => {
                let policy = PolicyFacts::default();
                let resolved = Resolved { id, call, round, by, resolution, policy };
                return Ok(Checked::New(Box::new(resolved)));
            }
            (Err(gone), None) => return Err(gone),
        };
        let resolution = self.checked(open, waiting, &registered, &by, response).await?;
        let wish = Wish {
            session,
            opened_by: &open.opened_by,
            spec: registered.spec(),
            arguments: edited(&resolution).unwrap_or(&waiting.arguments),
            config: &open.config,
            store: Some(self.store()),
        };
        let policy = self.toolbox.policy_facts(wish).await;
        let resolved = Resolved { id, call, round, by, resolution, policy };
        Ok(Checked::New(Box::new(resolved)))
    }

    /// Answers whoever resolves a call that is no longer in the turn, or whose session has ended:
    /// they are told who decided it. Nothing is recorded, because nothing they say was checked.
    async fn late(
        &self,
        state: &State,
        session: SessionId,
        call: CallId,
        id: ResolutionId,
        response: &Response,
    ) -> Result<Reply, ResolveError> {
        let unknown = match state {
            State::Open(_) => Refusal::Stale(Stale::Unknown),
            State::Unopened => return Err(InputError::Refused(Refusal::NotOpen).into()),
            State::Ended { .. } => Refusal::Ended,
        };
        let stored = self.store().call(session, call).await.map_err(InputError::from)?;
        let stale = match stored {
            Some(StoredCall { decided: Some(decided), .. }) => {
                if decided.resolution == Some(id) && decided.kind == response.kind() {
                    return Ok(Reply::AlreadyRecorded);
                }
                let DecidedBy { by, kind: decision, at, .. } = decided;
                Stale::Decided { by, decision, at }
            }
            Some(StoredCall { stage: CallStage::Settled, updated_at, .. }) => {
                Stale::Finished { at: updated_at }
            }
            Some(_) | None => return Err(InputError::Refused(unknown).into()),
        };
        Err(InputError::Refused(Refusal::Stale(stale)).into())
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
                match self.said(open, call, registered, by, Output::of_value(value)).await {
                    Ok(output) => Resolution::Answer { output, fit: Fit::Fits },
                    Err(fit) => Resolution::Answer { output: Output::default(), fit },
                }
            }
            Response::Result { result, directives } => {
                let fit = match &result {
                    CallResult::Ok(output) => fit(registered, output.value.as_ref()),
                    CallResult::Err(_) => Fit::Fits,
                };
                let returned = Returned { directives, ..Returned::from(unprivileged(result)) };
                // What does not fit is refused as it is, so nothing of it is kept.
                let Returned { result, directives, .. } = match fit {
                    Fit::Fits => self.taken_in(open, call, registered, by, returned).await,
                    Fit::Misfit { .. } => Returned::from(CallResult::Ok(Output::default())),
                };
                Resolution::Result { result, directives, fit }
            }
            Response::Settle(Verdict::Happened { value: Some(value) }) if is_in_doubt(call) => {
                let said = self.said(open, call, registered, by, Output::of_value(value)).await;
                match said {
                    Ok(output) => Resolution::Settle(Settlement::Happened { output: Some(output) }),
                    Err(fit) => return Err(refused(fit)),
                }
            }
            Response::Settle(Verdict::Happened { .. }) => {
                Resolution::Settle(Settlement::Happened { output: None })
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
        let id = GrantId::from_bits(self.driver.fresh()?);
        Ok(terms.granted(id, &call.contract, by.clone(), self.toolbox.now()))
    }

    /// Takes in what a person says that a call gave. They can say something else, so what does
    /// not pass is refused.
    async fn said(
        &self,
        open: &Open,
        call: &Call,
        registered: &Registered,
        by: &Actor,
        output: Output,
    ) -> Result<Output, Fit> {
        match fit(registered, output.value.as_ref()) {
            Fit::Fits => {}
            misfit @ Fit::Misfit { .. } => return Err(misfit),
        }
        let returned = Returned::from(CallResult::Ok(output));
        match self.taken_in(open, call, registered, by, returned).await.result {
            CallResult::Ok(output) => Ok(output),
            CallResult::Err(failure) => Err(Fit::Misfit { message: failure.message }),
        }
    }

    /// Takes in what came from outside, as if a tool of ours had said it.
    pub(super) async fn taken_in(
        &self,
        open: &Open,
        call: &Call,
        registered: &Registered,
        by: &Actor,
        returned: Returned,
    ) -> Returned {
        let (attempt, actor) = (call.attempts, by.clone());
        let scope = Scope { session: open.session, turn: open.turn, call: call.id, attempt, actor };
        let run = Run::unstoppable(scope);
        self.toolbox.take_in_from_outside(&run, registered, &call.arguments, returned).await
    }
}

/// Returns what a response says when it says the same of every tool, and lets nothing run: that
/// is taken also when the tool is gone.
fn needs_no_tool(response: &Response) -> Option<Resolution> {
    match response {
        Response::Deny { note } => Some(Resolution::Deny { note: note.clone() }),
        Response::Settle(Verdict::GiveUp) => Some(Resolution::Settle(Settlement::GiveUp)),
        Response::Settle(Verdict::Happened { value: None }) => {
            Some(Resolution::Settle(Settlement::Happened { output: None }))
        }
        Response::Approve { .. }
        | Response::Answer { .. }
        | Response::Result { .. }
        | Response::Settle(Verdict::Happened { value: Some(_) } | Verdict::RunAgain) => None,
    }
}

fn is_in_doubt(call: &Call) -> bool {
    matches!(&call.phase, Phase::Waiting(wait) if wait.kind == SuspensionKind::Settlement)
}

fn refused(fit: Fit) -> ResolveError {
    let message = match fit {
        Fit::Fits => String::new(),
        Fit::Misfit { message } => message,
    };
    ResolveError::Input(InputError::Refused(Refusal::Misfit { message }))
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
fn unprivileged(result: CallResult) -> CallResult {
    let failure = match result {
        CallResult::Ok(output) => return CallResult::Ok(output),
        CallResult::Err(failure) => failure,
    };
    let class = match failure.class {
        class @ (ErrorClass::ToolError
        | ErrorClass::Upstream
        | ErrorClass::RateLimited
        | ErrorClass::Timeout
        | ErrorClass::Cancelled
        | ErrorClass::InvalidArgs) => class,
        _ => ErrorClass::ToolError,
    };
    CallResult::Err(Failure { class, ..failure })
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
