//! Taking a call back: a verb of its own, as durable as the call.
//!
//! The compensating call runs in a session of its own, under its own permission, and is in doubt
//! like any other when a crash interrupts it. Who may run it is settled by one record per call,
//! written once: so a call is taken back at most once, whoever asks, on whatever node.

use std::collections::BTreeMap;

use haft_core::permission::Exposure;
use haft_core::session::{Config, Decided, Driver, Event, Refusal, State, SuspensionKind};
use haft_core::tool::{Redaction, Undo, UndoSource};
use haft_core::{Actor, Arguments, CallId, CallResult, Outcome, SessionId, ToolName, json};
use haft_store::{CallStage, Expected, Place, Put, PutError, Store, StoredVersion, Tenant, Which};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::UndoError;
use super::{Answer, CallError, Haft};
use crate::error::InputError;

/// Where the records of undone calls are kept.
const SPACE: &str = "undo";

/// Which call takes another one back.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Record {
    session: SessionId,
    call: CallId,
}

/// What is known about a call that is to be taken back.
struct Done {
    tool: ToolName,
    arguments: Arguments,
    outcome: Outcome,
}

#[haft_macros::boxed]
impl Haft {
    /// Takes a call back by making the call that its tool declares for that. What becomes of it
    /// is answered as for any call: it may have to be approved, and may be in doubt.
    ///
    /// Asking again finds the same compensating call; only one that failed is made anew.
    ///
    /// # Errors
    ///
    /// When the call cannot be taken back: it did nothing, it is too late, or its tool declares
    /// no undo.
    pub async fn undo(
        &self,
        session: SessionId,
        call: CallId,
        by: Actor,
    ) -> Result<Answer, UndoError> {
        let done = self.done(session, call).await?;
        let undo = match self.declared_undo(&done) {
            Err(late @ UndoError::TooLate { .. }) => {
                return self.undone_in_time(session, call).await?.ok_or(late);
            }
            declared => declared?,
        };
        let arguments = self.compensation(&undo, session, &done).await?;
        let (tenant, config) = self.terms(session, &undo.tool).await?;
        let record = self.claim(tenant, config, call, by).await?;
        match self.propose_as(record.session, record.call, undo.tool.as_str(), arguments).await {
            // Someone else, or this process before it died, proposed it already.
            Ok(()) | Err(CallError::Input(InputError::Refused(Refusal::DuplicateCall { .. }))) => {
                Ok(self.wait(record.session, record.call).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the call that takes another one back, in a session of its own; `None` when nobody
    /// has asked for that.
    ///
    /// # Errors
    ///
    /// When the session is not known, or the store has trouble.
    pub async fn undone_by(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<(SessionId, CallId)>, UndoError> {
        let loaded = self.store().load(session).await?.ok_or(InputError::UnknownSession)?;
        let place = Place::new(loaded.tenant, SPACE, &call.to_string())?;
        let current = self.store().version(&place, Which::Latest).await?;
        let record = read(current.as_ref())?;
        Ok(record.map(|Record { session, call }| (session, call)))
    }

    /// What was taken back in time is so for ever; what only waits for a yes by now is not.
    async fn undone_in_time(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<Answer>, UndoError> {
        let Some((session, call)) = self.undone_by(session, call).await? else { return Ok(None) };
        if self.has_failed(Record { session, call }).await? {
            return Ok(None);
        }
        match self.wait(session, call).await {
            Ok(begun @ (Answer::Done(_) | Answer::InDoubt(_))) => Ok(Some(begun)),
            // Nobody got as far as proposing it, or it was not taken: nothing ran.
            Ok(Answer::Waiting(_)) | Err(CallError::Unknown { .. } | CallError::Rejected(_)) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what a call was given and gave.
    async fn done(&self, session: SessionId, call: CallId) -> Result<Done, UndoError> {
        let outcome = match self.answer(session, call).await? {
            Some(Answer::Done(outcome)) if matches!(outcome.result, CallResult::Ok(_)) => *outcome,
            Some(_) | None => return Err(UndoError::NothingDone),
        };
        let proposed = self.last_event(session, u64::MAX, |event| match event {
            Event::CallResolved {
                call: of,
                decision: Decided::Approve { arguments: Some(arguments), .. },
                ..
            } if of == call => Some(arguments),
            Event::CallProposed { call: of, arguments, .. } if of == call => Some(arguments),
            _ => None,
        });
        let arguments = proposed.await?.ok_or(CallError::Unknown { call })?;
        Ok(Done { tool: outcome.tool.clone(), arguments, outcome })
    }

    fn declared_undo(&self, done: &Done) -> Result<Undo, UndoError> {
        let registered = self.registry().get(done.tool.as_str());
        let undo = registered.and_then(|registered| registered.spec().undo.clone());
        let undo = undo.ok_or_else(|| UndoError::NoUndo { tool: done.tool.to_string() })?;
        let until = done.outcome.finished_at + undo.window;
        if self.toolbox.now() > until {
            return Err(UndoError::TooLate { until });
        }
        Ok(undo)
    }

    async fn compensation(
        &self,
        undo: &Undo,
        session: SessionId,
        done: &Done,
    ) -> Result<Map<String, Value>, UndoError> {
        let redaction = self.registry().get(done.tool.as_str());
        let redaction =
            redaction.map(|registered| registered.spec().redaction.clone()).unwrap_or_default();
        let opened = self.toolbox.opened(session, &done.arguments, &redaction).await;
        let given = opened.map_err(|error| UndoError::Sealed { message: error.to_string() })?;
        let gave = match &done.outcome.result {
            CallResult::Ok(output) => output.value.clone().unwrap_or(Value::Null),
            CallResult::Err(_) => Value::Null,
        };
        arguments_of(&undo.arguments, &given, &gave)
    }

    /// Whose session it is, and under which oversight: taking back is watched like doing. Who may
    /// use a tool may have it taken back, so its undo need not be exposed.
    async fn terms(
        &self,
        session: SessionId,
        undo: &ToolName,
    ) -> Result<(Tenant, Config), UndoError> {
        let loaded = self.store().load(session).await?.ok_or(InputError::UnknownSession)?;
        let config = match &loaded.state {
            State::Open(open) => Config::clone(&open.config),
            State::Unopened | State::Ended { .. } => Config::default(),
        };
        let allow = Some([undo.clone()].into());
        let exposure = Exposure { allow, deny: config.exposure.deny.clone() };
        Ok((loaded.tenant, Config { driver: Driver::Caller, exposure, ..config }))
    }

    /// Returns the call that takes `undone` back: the recorded one unless it failed, else a new
    /// one, of which only one writer's is recorded.
    async fn claim(
        &self,
        tenant: Tenant,
        config: Config,
        undone: CallId,
        by: Actor,
    ) -> Result<Record, UndoError> {
        let place = Place::new(tenant.clone(), SPACE, &undone.to_string())?;
        loop {
            let current = self.store().version(&place, Which::Latest).await?;
            let known = read(current.as_ref())?;
            if let Some(record) = known
                && !self.has_failed(record).await?
            {
                return Ok(record);
            }
            let session = self.open(tenant.clone(), config.clone(), by.clone()).await?;
            let record = Record { session, call: CallId::from_bits(self.driver.fresh()?) };
            let body = serde_json::to_vec(&record).unwrap_or_default();
            let expected = match &current {
                Some(version) => Expected::Version(version.info.number),
                None => Expected::Absent,
            };
            let put = Put { place: place.clone(), expected, body: Some(body) };
            match self.store().put_versions(vec![put], &by, self.toolbox.now()).await {
                Ok(_) => return Ok(record),
                Err(PutError::Moved { .. }) => {}
                Err(PutError::Store(error)) => return Err(error.into()),
            }
        }
    }

    /// Returns whether a compensating call ended without having begun. One that began may have
    /// taken effect whatever it says, and is not made a second time.
    async fn has_failed(&self, record: Record) -> Result<bool, UndoError> {
        let call = self.store().call(record.session, record.call).await?;
        if !call.is_some_and(|call| call.stage == CallStage::Settled && call.class.is_some()) {
            return Ok(false);
        }
        let began = self.last_event(record.session, u64::MAX, |event| match event {
            Event::CallStarted { call, .. } if call == record.call => Some(()),
            Event::CallSuspended { call, kind: SuspensionKind::ClientExec, .. }
                if call == record.call =>
            {
                Some(())
            }
            _ => None,
        });
        Ok(began.await?.is_none())
    }
}

/// Returns whether a call is the one that takes `undone` back.
pub(crate) async fn takes_back(
    store: &Store,
    session: SessionId,
    call: CallId,
    undone: CallId,
) -> Result<bool, haft_store::Error> {
    let Some(loaded) = store.load(session).await? else { return Ok(false) };
    let place = Place::new(loaded.tenant, SPACE, &undone.to_string())?;
    let latest = store.version(&place, Which::Latest).await?;
    let record = read(latest.as_ref())?;
    Ok(record.is_some_and(|record| record.session == session && record.call == call))
}

/// Reads who took a call back. What cannot be read is no reason to do it again.
fn read(version: Option<&StoredVersion>) -> Result<Option<Record>, haft_store::Error> {
    let body = version.and_then(|version| version.body.as_deref());
    body.map(|body| json::read_stored(body).map_err(haft_store::Error::corrupt)).transpose()
}

fn arguments_of(
    sources: &BTreeMap<String, UndoSource>,
    given: &Map<String, Value>,
    gave: &Value,
) -> Result<Map<String, Value>, UndoError> {
    let value = |source: &UndoSource| match source {
        UndoSource::Argument(pointer) => pointer.find(given).cloned(),
        UndoSource::Result(pointer) => gave.pointer(pointer.as_str()).cloned(),
        UndoSource::Literal(value) => Some(value.clone()),
    };
    let found = sources.iter().map(|(name, source)| {
        let missing = || UndoError::Missing { argument: name.clone() };
        // A masked value is not the one that was used.
        let known = value(source).filter(|value| *value != Redaction::MASK);
        Ok((name.clone(), known.ok_or_else(missing)?))
    });
    found.collect()
}
