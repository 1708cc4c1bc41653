//! One call: what became of it, how its wait is ended, how it is taken back.

use std::ops::RangeInclusive;

use axum::Json;
use axum::extract::State;
use haft_core::permission::{Budget, Condition};
use haft_core::session::{DecidedBy, Refusal, Reply, Stale};
use haft_core::{
    CallId, CallResult, Directives, ErrorClass, Failure, Millis, Output, ResolutionId, SessionId,
};
use haft_runtime::fresh_bits;
use haft_runtime::{
    Answer, CallError, GrantTerms, InputError, ResolveError, Response, UndoError, Verdict,
};
use haft_store::{CallStage, FoundCall, StoredCall};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::found::Found;
use super::sessions::Why;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::openapi::also;

/// What someone says about a wait.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Resolution", transform = named)]
pub(super) enum Said {
    Approve { arguments: Option<Map<String, Value>>, grant: Option<Terms>, note: Option<String> },
    Deny { note: Option<String> },
    Answer { value: Value },
    Result { outcome: Returned },
    Settle { verdict: SaidVerdict, value: Option<Value> },
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
pub(super) enum SaidVerdict {
    GiveUp,
    Happened,
    RunAgain,
}

/// Document 004's body of a result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Returned {
    ok: bool,
    #[serde(default)]
    result: Value,
    error: Option<String>,
}

impl Returned {
    /// Reads what the call came to; what contradicts itself is not guessed at.
    fn result(self) -> Result<CallResult, Error> {
        match self {
            Self { ok: true, error: Some(_), .. } => Err(Error::invalid(
                "outcome: `error` contradicts `ok: true`; send `ok: false`, or leave it out",
            )),
            Self { ok: false, result, .. } if !result.is_null() => Err(Error::invalid(
                "outcome: `result` contradicts `ok: false`; send `ok: true`, or leave it out",
            )),
            Self { ok: true, result, .. } => Ok(CallResult::Ok(Output::of_value(result))),
            Self { ok: false, error, .. } => {
                let message = error.unwrap_or_else(|| "the client gave no reason".into());
                Ok(CallResult::Err(Failure::new(ErrorClass::ToolError, message)))
            }
        }
    }
}

/// The terms of a standing permission.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GrantTerms")]
pub(super) struct Terms {
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    when: Vec<Condition>,
    uses: Option<u32>,
    #[schemars(with = "Option<Map<String, Value>>")]
    budget: Option<Budget>,
    lasts_ms: Option<u64>,
}

impl From<Terms> for GrantTerms {
    fn from(terms: Terms) -> Self {
        let Terms { when, uses, budget, lasts_ms } = terms;
        Self { when, uses, budget, lasts: lasts_ms.map(Millis) }
    }
}

/// A resolution may say which round of the wait it is for, and have an id, by which it is
/// recognised when it is sent again.
fn named(schema: &mut Schema) {
    let round = json!({ "type": ["integer", "null"], "minimum": 0 });
    also(schema, &[("round", round), ("id", json!({ "type": ["string", "null"] }))]);
}

impl Said {
    fn response(self) -> Result<Response, Error> {
        Ok(match self {
            Self::Approve { arguments, grant, note } => {
                Response::Approve { arguments, note, grant: grant.map(GrantTerms::from) }
            }
            Self::Deny { note } => Response::Deny { note },
            Self::Answer { value } => Response::Answer { value },
            Self::Result { outcome } => {
                Response::Result { result: outcome.result()?, directives: Directives::default() }
            }
            Self::Settle { verdict, value } => Response::Settle(match (verdict, value) {
                (SaidVerdict::Happened, value) => Verdict::Happened { value },
                (SaidVerdict::RunAgain, None) => Verdict::RunAgain,
                (SaidVerdict::GiveUp, None) => Verdict::GiveUp,
                (SaidVerdict::RunAgain | SaidVerdict::GiveUp, Some(_)) => {
                    return Err(Error::invalid("`value` goes with the verdict `happened` only"));
                }
            }),
        })
    }
}

/// Ends a wait. Acknowledged once, when it is durable; whoever is second is told who was first.
pub(super) async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Path((session, call)): Path<(String, String)>,
    params: Params,
    Body(mut body): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let call = Found::call(&call)?;
    let round: Option<u32> = read(body.remove("round").unwrap_or_default())?;
    let id: Option<ResolutionId> = read(body.remove("id").unwrap_or_default())?;
    let id = match id {
        Some(id) => id,
        None => ResolutionId::from_bits(fresh_bits(app.now()).map_err(Error::internal)?),
    };
    let said: Said = read(Value::Object(body))?;
    let response = said.response()?;
    let by = caller.actor.clone();
    let Found { id: session, loaded } = found;
    match app.haft().resolve_seen((session, loaded), call, round, id, by, response).await {
        Ok(Reply::Endorsed) => Ok(Json(
            json!({ "decision": "endorse", "waits_for": "the approval of another person" }),
        )),
        Ok(_) => {
            let known = app.store().call(session, call).await?;
            let decided = known.and_then(|known| known.decided);
            Ok(Json(decided.as_ref().map_or_else(|| json!({}), shown)))
        }
        Err(error) => Err(refused(&app, session, call, error).await?),
    }
}

fn shown(decided: &DecidedBy) -> Value {
    json!({ "decision": decided.kind, "by": decided.by, "at": decided.at })
}

/// What whoever was refused is told: the code of the refusal, and who was first.
async fn refused(
    app: &App,
    session: SessionId,
    call: CallId,
    error: ResolveError,
) -> Result<Error, Error> {
    let ResolveError::Input(InputError::Refused(refusal)) = &error else {
        return Ok(error.into());
    };
    let code = refusal.code();
    if !matches!(refusal, Refusal::Stale(_)) {
        return Ok(Error::from(error).with_details(json!({ "code": code })));
    }
    let known = app.store().call(session, call).await?.and_then(|known| known.decided);
    let decided = match refusal {
        Refusal::Stale(Stale::Decided { by, decision, at }) => {
            json!({ "decision": decision, "by": by, "at": at })
        }
        _ => known.as_ref().map_or(Value::Null, shown),
    };
    let message = refusal.to_string();
    let details = json!({ "code": code, "decided": decided });
    Ok(Error::new(Kind::Conflict, message).with_details(details))
}

/// How many calls one beginning of an id finds.
const FOUND_MAX: u32 = 20;

/// Finds calls of any session that the caller may see by the beginning of their ids, for people
/// who have nothing else; the newest first. `has_more` says that more of the id is needed.
pub(super) async fn find(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let begins = params.text("begins").unwrap_or_default();
    params.finish()?;
    let ids = beginning(&begins).ok_or_else(|| {
        Error::invalid("begins: expected the beginning of a call's id, such as `call_01k9`")
    })?;
    let (first, mut last) = ids.into_inner();
    let (mut data, mut has_more) = (Vec::new(), false);
    // What others may not see makes no room for what they may.
    'found: loop {
        let page = app.store().calls_between(&caller.tenant, first..=last, FOUND_MAX).await?;
        let is_last = page.len() < FOUND_MAX as usize;
        for FoundCall { session, call, known } in page {
            if let Some(found) = Found::seen(&app, &caller, session).await? {
                if data.len() == FOUND_MAX as usize {
                    has_more = true;
                    break 'found;
                }
                data.push(told(&app, &found, call, &known));
            }
            let before = call.bits().checked_sub(1).filter(|bits| *bits >= first.bits());
            let Some(before) = before else { break 'found };
            last = CallId::from_bits(before);
        }
        if is_last {
            break;
        }
    }
    Ok(Json(json!({ "data": data, "has_more": has_more })))
}

/// The first and the last id that begin with a text.
fn beginning(text: &str) -> Option<RangeInclusive<CallId>> {
    const DIGITS: usize = 26;
    let digits = text.strip_prefix("call_")?;
    let missing = DIGITS.checked_sub(digits.len())?;
    let filled = |with: &str| format!("{text}{}", with.repeat(missing)).parse::<CallId>().ok();
    Some(filled("0")?..=filled("z")?)
}

/// What is known of a call, also of one that was long ago.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((session, call)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let id = Found::call(&call)?;
    let known = app.store().call(found.id, id).await?;
    let known = known.ok_or_else(|| Error::not_found("call", &call))?;
    let mut shown = told(&app, &found, id, &known);
    if known.stage == CallStage::Settled {
        shown["outcome"] = match app.haft().answer(found.id, id).await {
            Ok(Some(Answer::Done(outcome))) => json!(outcome),
            Ok(_) => Value::Null,
            // It never was a call: its class says why.
            Err(CallError::Rejected(rejection)) => json!({ "rejection": rejection }),
            Err(error) => return Err(Error::internal(error)),
        };
    }
    Ok(Json(shown))
}

/// Stops a call: one that waits or is to run never runs, one that runs is told to stop.
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path((session, call)): Path<(String, String)>,
    params: Params,
    Body(why): Body<Why>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let id = Found::call(&call)?;
    let by = caller.actor.clone();
    match app.haft().cancel(found.id, id, by, why.note).await {
        Ok(_) => {}
        Err(error) => return Err(refused(&app, found.id, id, error.into()).await?),
    }
    let known = app.store().call(found.id, id).await?;
    let known = known.ok_or_else(|| Error::not_found("call", &call))?;
    Ok(Json(told(&app, &found, id, &known)))
}

fn told(app: &App, found: &Found, call: CallId, known: &StoredCall) -> Value {
    let tool = known.tool.as_str();
    let called = found.open().map_or(tool, |open| open.config.toolset.called(tool));
    let is_queued = found.open().and_then(|open| open.call(call));
    let is_queued = is_queued.is_some_and(|call| call.phase.is_queued());
    json!({
        "session": found.id, "call": call, "tool": tool, "called": called,
        "stage": if is_queued { "queued" } else { known.stage.as_str() },
        "queue": is_queued.then(|| queue_place(app, call)),
        "class": known.class, "decided": known.decided.as_ref().map(shown),
        "updated_at": known.updated_at,
    })
}

/// Where a queued call stands. Only the node that has its session knows how many are ahead.
pub(super) fn queue_place(app: &App, call: CallId) -> Value {
    match app.haft().driver().pools().place(call) {
        Some(place) => json!({
            "pool": place.pool, "ahead": place.n_ahead,
            "because": app.workers().waited_for(&place.pool),
        }),
        None => json!({ "pool": null, "ahead": null, "because": null }),
    }
}

/// Takes a call back. Asking again tells what became of it.
pub(super) async fn undo(
    State(app): State<App>,
    caller: Caller,
    Path((session, call)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let call = Found::call(&call)?;
    let answer = app.haft().undo(found.id, call, caller.actor.clone()).await;
    let answer = answer.map_err(not_undone)?;
    let by = app.haft().undone_by(found.id, call).await.map_err(not_undone)?;
    Ok(Json(taken_back(by, Some(&answer))))
}

fn not_undone(error: UndoError) -> Error {
    match error {
        UndoError::Store(error) => error.into(),
        error => Error::invalid(error.to_string()).with_details(json!({ "code": error.code() })),
    }
}

/// Says whether a call was taken back, or is being.
pub(super) async fn undone(
    State(app): State<App>,
    caller: Caller,
    Path((session, call)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let call = Found::call(&call)?;
    let by = app.haft().undone_by(found.id, call).await.map_err(not_undone)?;
    let Some((session, call)) = by else { return Ok(Json(json!({ "state": "none" }))) };
    let answer = app.haft().answer(session, call).await;
    Ok(Json(taken_back(by, answer.ok().flatten().as_ref())))
}

fn taken_back(by: Option<(SessionId, CallId)>, answer: Option<&Answer>) -> Value {
    let (state, message) = match answer {
        None => ("running", None),
        Some(Answer::Waiting(_)) => ("waiting", None),
        Some(Answer::InDoubt(_)) => ("in_doubt", None),
        Some(Answer::Done(outcome)) => match &outcome.result {
            CallResult::Ok(_) => ("done", None),
            CallResult::Err(failure) => ("failed", Some(failure.message.clone())),
        },
    };
    let (session, call) = by.unzip();
    json!({ "state": state, "session": session, "call": call, "message": message })
}
