//! Making calls and waiting for what becomes of them.

use std::sync::Arc;

use haft_core::session::{
    CallsProposed, Config, Event, Input, Phase, Preview, Refusal, Reply, State, SuspendReason,
    SuspensionKind,
};
use haft_core::{Actor, CallId, Outcome, ProviderCallId, SessionId, Timestamp, ToolName};
use haft_store::{ChangedBy, Watch};
use serde_json::{Map, Value};

use super::Haft;
use super::error::CallError;
use crate::error::InputError;
use crate::live::{AboutCall, CallListener};
use crate::toolbox::{Asked, Asker, Given};

/// How many entries of a log are read at once.
const PAGE: u32 = 256;

/// What became of a call so far.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It is over. A failure is an outcome too.
    Done(Box<Outcome>),
    /// It waits for someone.
    Waiting(Box<Waiting>),
    /// It ended without a result (its process died, its time was up, it was told to stop, or its
    /// tool says so), nobody can tell whether it took effect, and it waits for a person who
    /// settles that.
    InDoubt(Box<Waiting>),
}

/// A call that waits for someone.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments, as they may be shown.
    pub arguments: Map<String, Value>,
    /// Which wait of the call it is.
    pub round: u32,
    /// What is waited for.
    pub kind: SuspensionKind,
    /// Why.
    pub reason: SuspendReason,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// What the call would do, when the tool can tell.
    pub preview: Option<Preview>,
    /// How the attempt ended, for a call in doubt. `None` if its process died.
    pub in_doubt_because: Option<String>,
}

#[haft_macros::boxed]
impl Haft {
    /// Makes a call in a session that a program drives, and waits until it is done or waits for
    /// someone.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] when nothing ran: an unknown tool, arguments that do not fit, a
    /// limit, a denial.
    pub async fn call(
        &self,
        session: SessionId,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Answer, CallError> {
        let call = CallId::from_bits(self.driver.fresh()?);
        let mut wait = self.wait_for(session, call);
        // What an earlier run of the request has proposed may be done by now, and nothing more is
        // heard of it.
        if self.proposed(session, call, tool, arguments).await? == Reply::AlreadyRecorded {
            return self.wait_on(wait, session, call).await;
        }
        match wait.heard().await {
            Some(answer) => answer,
            None => self.wait_on(wait, session, call).await,
        }
    }

    /// Proposes a call in a session that a program drives, without waiting for what becomes of
    /// it.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn propose(
        &self,
        session: SessionId,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallId, CallError> {
        let call = CallId::from_bits(self.driver.fresh()?);
        self.propose_as(session, call, tool, arguments).await?;
        Ok(call)
    }

    /// As [`Haft::propose`], under an id that the caller chose: proposing it again is refused as a
    /// duplicate, so that whoever is not sure whether it was proposed may try again.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn propose_as(
        &self,
        session: SessionId,
        call: CallId,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<(), CallError> {
        self.proposed(session, call, tool, arguments).await.map(drop)
    }

    async fn proposed(
        &self,
        session: SessionId,
        call: CallId,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Reply, CallError> {
        let (opened_by, config) = self.asker(session).await?;
        let asker = Asker { session, opened_by: &opened_by, config: &config };
        let asked = Asked {
            provider_id: ProviderCallId::from(call),
            name: tool.to_owned(),
            arguments: Given::Object(arguments),
        };
        let calls = vec![self.toolbox.propose(asker, call, asked).await];
        Ok(self.driver.input(session, Input::CallsProposed(CallsProposed { calls })).await?)
    }

    /// Waits until a call is done or waits for someone.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] when it was not taken, [`CallError::Unknown`] when there is none.
    pub async fn wait(&self, session: SessionId, call: CallId) -> Result<Answer, CallError> {
        self.wait_on(self.wait_for(session, call), session, call).await
    }

    fn wait_for(&self, session: SessionId, call: CallId) -> CallWait {
        let elsewhere = self.store().watch(session, ChangedBy::OtherNodes);
        CallWait { here: self.live().listen_for(session, call), elsewhere }
    }

    async fn wait_on(
        &self,
        mut wait: CallWait,
        session: SessionId,
        call: CallId,
    ) -> Result<Answer, CallError> {
        loop {
            if let Some(answer) = self.answer(session, call).await? {
                return Ok(answer);
            }
            if let Some(answer) = wait.heard().await {
                return answer;
            }
        }
    }

    /// Returns what has become of a call so far; `None` while it runs.
    ///
    /// # Errors
    ///
    /// As [`Haft::wait`].
    pub async fn answer(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<Answer>, CallError> {
        if self.driver.state_at_work(session).is_some_and(|state| is_under_way(&state, call)) {
            return Ok(None);
        }
        let loaded = self.store().load(session).await.map_err(InputError::from)?;
        let loaded = loaded.ok_or(InputError::UnknownSession)?;
        if is_under_way(&loaded.state, call) {
            return Ok(None);
        }
        let phase = loaded.state.as_open().and_then(|open| open.call(call)).map(|call| &call.phase);
        match phase {
            Some(Phase::Waiting(suspension)) => {
                let (kind, round) = (suspension.kind, suspension.round);
                let waiting = self.waiting(session, call, &loaded.state, round).await?;
                Ok(Some(match kind {
                    SuspensionKind::Settlement => Answer::InDoubt(waiting.into()),
                    SuspensionKind::Approval
                    | SuspensionKind::Elicitation
                    | SuspensionKind::ClientExec
                    | SuspensionKind::Child => Answer::Waiting(waiting.into()),
                }))
            }
            Some(Phase::Settled { .. }) | None => {
                let outcome = self.outcome(session, call, loaded.head.seq).await?;
                Ok(Some(Answer::Done(outcome.into())))
            }
            Some(_) => Ok(None),
        }
    }

    async fn waiting(
        &self,
        session: SessionId,
        call: CallId,
        state: &State,
        round: u32,
    ) -> Result<Waiting, CallError> {
        let unknown = || CallError::Unknown { call };
        let found = state.as_open().and_then(|open| open.call(call)).ok_or_else(unknown)?;
        let Phase::Waiting(suspension) = &found.phase else { return Err(unknown()) };
        Ok(Waiting {
            session,
            call,
            tool: found.contract.tool.clone(),
            arguments: found.arguments.record().clone(),
            round,
            kind: suspension.kind,
            reason: suspension.reason,
            expires_at: suspension.expires_at,
            preview: match suspension.fingerprint {
                Some(_) => self.shown(session, call, round).await?,
                None => None,
            },
            in_doubt_because: found.in_doubt_because.clone(),
        })
    }

    /// Returns what whoever is asked was shown.
    async fn shown(
        &self,
        session: SessionId,
        wanted: CallId,
        wanted_round: u32,
    ) -> Result<Option<Preview>, CallError> {
        self.last_event(session, u64::MAX, |event| match event {
            Event::CallSuspended { call, round, preview, .. }
                if call == wanted && round == wanted_round =>
            {
                Some(preview)
            }
            _ => None,
        })
        .await
        .map(Option::flatten)
    }

    /// Returns how a call ended, from the log.
    async fn outcome(
        &self,
        session: SessionId,
        wanted: CallId,
        head: u64,
    ) -> Result<Outcome, CallError> {
        let ended = self.last_event(session, head, |event| match event {
            Event::CallFinished { outcome } if outcome.call == wanted => Some(Ok(outcome)),
            Event::CallRejected { call, rejection, .. } if call == wanted => Some(Err(rejection)),
            _ => None,
        });
        match ended.await? {
            Some(Ok(outcome)) => Ok(outcome),
            Some(Err(rejection)) => Err(CallError::Rejected(rejection)),
            None => Err(CallError::Unknown { call: wanted }),
        }
    }

    /// Reads a log from its end, up to the event that is looked for.
    pub(super) async fn last_event<T>(
        &self,
        session: SessionId,
        head: u64,
        wanted: impl Fn(Event) -> Option<T>,
    ) -> Result<Option<T>, CallError> {
        let mut end = match head {
            u64::MAX => {
                let loaded = self.store().load(session).await.map_err(InputError::from)?;
                loaded.ok_or(InputError::UnknownSession)?.head.seq
            }
            head => head,
        };
        while end > 0 {
            let after = end.saturating_sub(PAGE.into());
            let limit = u32::try_from(end - after).unwrap_or(PAGE);
            let page = self.store().entries(session, after, limit).await;
            let page = page.map_err(InputError::from)?;
            for entry in page.iter().rev() {
                let event = entry.event().map_err(|error| InputError::Store(error.into()))?;
                if let Some(found) = wanted(event) {
                    return Ok(Some(found));
                }
            }
            end = after;
        }
        Ok(None)
    }

    /// Returns on whose behalf a session asks, and for what it may.
    pub(super) async fn asker(
        &self,
        session: SessionId,
    ) -> Result<(Actor, Arc<Config>), CallError> {
        let state = match self.driver.state_at_work(session) {
            Some(state) => state,
            None => {
                let loaded = self.store().load(session).await.map_err(InputError::from)?;
                Arc::new(loaded.ok_or(InputError::UnknownSession)?.state)
            }
        };
        match &*state {
            State::Open(open) => Ok((open.opened_by.clone(), Arc::clone(&open.config))),
            State::Unopened => Err(InputError::Refused(Refusal::NotOpen).into()),
            State::Ended { .. } => Err(InputError::Refused(Refusal::Ended).into()),
        }
    }
}

/// Returns whether there is nothing to tell of a call yet: it neither waits nor is over.
fn is_under_way(state: &State, call: CallId) -> bool {
    let found = state.as_open().and_then(|open| open.call(call));
    found.is_some_and(|call| match &call.phase {
        Phase::Waiting(_) => call.awaits_opening(),
        Phase::Settled { .. } => false,
        _ => true,
    })
}

/// Waits for one call: this node tells what it records about it, other nodes that they recorded
/// something in its session.
struct CallWait {
    here: CallListener,
    elsewhere: Watch,
}

impl CallWait {
    /// Waits for what becomes of the call; `None` when the store must be asked: something may have
    /// been missed, the call waits for someone, or another node has to do with it.
    async fn heard(&mut self) -> Option<Result<Answer, CallError>> {
        let about = tokio::select! {
            biased;
            about = self.here.heard() => about,
            () = self.elsewhere.changed() => AboutCall::Look,
        };
        match about {
            AboutCall::Outcome(outcome) => Some(Ok(Answer::Done(outcome))),
            AboutCall::Rejection(rejection) => Some(Err(CallError::Rejected(rejection))),
            AboutCall::Look => None,
        }
    }
}
