//! Verbs under an idempotency key: the same again, with the same key, is done once.

use haft_core::session::{Config, Reply};
use haft_core::{Actor, CallId, ContentBlock, Digest, MessageId, SessionId};
use haft_store::Tenant;
use serde_json::{Map, Value, json};

use super::calling::Answer;
use super::error::{CallError, ResolveError};
use super::resolving::Response;
use super::{Begun, Haft, RequestError, RequestKey};
use crate::error::InputError;
use crate::request::WorkingRequest;

/// The verbs of [`Haft`] under an idempotency key. Whoever repeats a verb with the same key and the
/// same arguments gets what the first one got, also after a crash, on every node and for at least
/// 24 hours. Other arguments under the same key are refused with [`RequestError::Reused`].
///
/// A key counts within its session, or for [`Idempotent::open`] within tenant and actor.
#[derive(Debug)]
pub struct Idempotent<'a> {
    haft: &'a Haft,
    key: String,
}

impl Haft {
    /// Says that the verb that follows is done once for this key, however often it is repeated.
    ///
    /// ```no_run
    /// # async fn example(haft: haft_runtime::Haft, session: haft_core::SessionId)
    /// # -> Result<(), haft_runtime::CallError> {
    /// let order = serde_json::Map::from_iter([("order".to_owned(), 17.into())]);
    /// haft.idempotent("refund-of-order-17").call(session, "refund", order).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(&self, key: impl Into<String>) -> Idempotent<'_> {
        Idempotent { haft: self, key: key.into() }
    }
}

#[haft_macros::boxed]
impl Idempotent<'_> {
    /// As [`Haft::open`]; the same key again returns the session that was opened first.
    ///
    /// # Errors
    ///
    /// As [`Haft::open`], and [`InputError::Key`].
    pub async fn open(
        &self,
        tenant: Tenant,
        config: Config,
        by: Actor,
    ) -> Result<SessionId, InputError> {
        let said = json!(["open", config]);
        let working = self.begin((&tenant, &by), &said).await?;
        let request = working.request().clone();
        request.scope(self.haft.open(tenant, config, by)).await
    }

    /// As [`Haft::say`]; the same key again returns the message that was said first.
    ///
    /// # Errors
    ///
    /// As [`Haft::say`], and [`InputError::Key`].
    pub async fn say(
        &self,
        session: SessionId,
        from: Actor,
        content: Vec<ContentBlock>,
    ) -> Result<MessageId, InputError> {
        let said = json!(["say", session, from, content]);
        let working = self.begin_in(session, &said).await?;
        let request = working.request().clone();
        request.scope(self.haft.say(session, from, content)).await
    }

    /// As [`Haft::call`]; the same key again returns what became of the call that was made first.
    ///
    /// # Errors
    ///
    /// As [`Haft::call`], and [`InputError::Key`].
    pub async fn call(
        &self,
        session: SessionId,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Answer, CallError> {
        let said = json!(["call", session, tool, arguments]);
        let working = self.begin_in(session, &said).await?;
        let request = working.request().clone();
        request.scope(self.haft.call(session, tool, arguments)).await
    }

    /// As [`Haft::resolve`]; the same key again is acknowledged and not recorded.
    ///
    /// # Errors
    ///
    /// As [`Haft::resolve`], and [`InputError::Key`].
    pub async fn resolve(
        &self,
        session: SessionId,
        call: CallId,
        by: Actor,
        response: Response,
    ) -> Result<Reply, ResolveError> {
        let said = json!(["resolve", session, call, by, format!("{response:?}")]);
        let working = self.begin_in(session, &said).await?;
        let request = working.request().clone();
        request.scope(self.haft.resolve(session, call, by, response)).await
    }

    /// Whoever has the session may use its keys.
    async fn begin_in(
        &self,
        session: SessionId,
        said: &Value,
    ) -> Result<WorkingRequest, InputError> {
        let loaded = self.haft.store().load(session).await?.ok_or(InputError::UnknownSession)?;
        let caller = Actor {
            kind: haft_core::ActorKind::System,
            id: haft_core::ActorId::new(&session.to_string())
                .map_err(|_| InputError::UnknownSession)?,
        };
        self.begin((&loaded.tenant, &caller), said).await
    }

    async fn begin(
        &self,
        (tenant, caller): (&Tenant, &Actor),
        said: &Value,
    ) -> Result<WorkingRequest, InputError> {
        let key = RequestKey::Given(self.key.clone());
        let begun = self.haft.begin_request(tenant, caller, &key, Digest::of_json(said)).await;
        match begun.map_err(InputError::from)? {
            Begun::Work(working) => Ok(working),
            // Only whoever answers over a wire keeps answers, and under other names.
            Begun::Answered(_) => Err(RequestError::Reused.into()),
        }
    }
}
