//! The catalogue: every tool that this node knows, what is wrong about it, and a way to try it.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use haft_core::permission::Exposure;
use haft_core::session::{Config, Driver};
use haft_core::tool::{Definition, Hook, Schema};
use haft_core::{Millis, SessionId};
use haft_runtime::registry::Finding;
use haft_runtime::{Answer, CallError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let registry = app.haft().registry();
    let findings = registry.lint();
    let tools = registry.tools();
    let theirs = tools.iter().filter(|tool| tool.is_shown_to(&caller.tenant));
    let data: Vec<Value> = theirs.map(|tool| shown(tool.spec(), &findings)).collect();
    Ok(Json(json!({ "data": data })))
}

/// A definition, for people, with what the linter found about it.
pub(super) fn shown(definition: &Definition, findings: &[Finding]) -> Value {
    let facets = definition.resolved_facets();
    let lint: Vec<Value> = findings.iter().filter(|finding| finding.tool == definition.name).map(|finding| {
        json!({
            "code": format!("{:?}", finding.code), "severity": format!("{:?}", finding.severity),
            "field": finding.field, "message": format!("{}; {}", finding.message, finding.fix),
        })
    }).collect();
    let undo = definition.undo.as_ref();
    json!({
        "name": definition.name, "description": definition.description,
        "title": definition.display.label, "detail": definition.display.detail,
        "version": definition.version, "status": definition.status, "tags": definition.tags,
        "input_schema": definition.input_schema.value(),
        "output_schema": definition.output_schema.as_ref().map(Schema::value),
        "previews": definition.hooks.contains(&Hook::Preview),
        "executor": definition.executor, "ownership": definition.ownership,
        "gate": definition.gate, "mode": facets.mode(), "consequence": definition.consequence,
        "facets": {
            "mutates": facets.mutates, "reach": facets.reach, "fs": facets.fs,
            "process": facets.process, "spend": facets.spend, "idempotency": facets.idempotency,
            "scope": facets.scope,
        },
        "exec_timeout_ms": definition.exec_timeout, "suspend_ttl_ms": definition.suspend_ttl,
        "undo": undo.map(|undo| json!({ "tool": undo.tool, "window_ms": undo.window })),
        "lint": lint,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Where to; a session that a preview was made in, so that what was shown is what is there.
    session: Option<String>,
    /// How long the call waits for a person or a client, in a new session. Default: what the
    /// server was started with, else what the tool declares.
    suspend_ttl_ms: Option<u64>,
}

/// Finds out what a call would do, in a session of its own that a person drives.
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
    Body(trial): Body<Trial>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (arguments, session) = trial_session(&app, &caller, &name, trial).await?;
    let preview = app.haft().preview(session, caller.actor, &name, arguments).await;
    let preview = preview.map_err(|error| Error::invalid(error.to_string()))?;
    Ok(Json(json!({ "session": session, "preview": preview })))
}

/// Makes one call through the whole lifecycle, in a session of its own that a person drives.
pub(super) async fn call(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
    Body(trial): Body<Trial>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (arguments, session) = trial_session(&app, &caller, &name, trial).await?;
    let answer = app.haft().call(session, &name, arguments).await;
    Ok(Json(match answer {
        Ok(Answer::Done(outcome)) => {
            json!({ "state": "done", "session": session, "call": outcome.call, "outcome": outcome })
        }
        Ok(Answer::Waiting(wait)) => {
            json!({ "state": "waiting", "session": session, "call": wait.call })
        }
        Ok(Answer::InDoubt(wait)) => {
            json!({
                "state": "in_doubt", "session": session, "call": wait.call,
                "because": wait.in_doubt_because,
            })
        }
        Err(CallError::Input(error)) => return Err(error.into()),
        Err(error) => return Err(Error::invalid(error.to_string())),
    }))
}

/// Returns the arguments, and a session in which a person tries a tool, and nothing but that tool.
async fn trial_session(
    app: &App,
    caller: &Caller,
    name: &str,
    trial: Trial,
) -> Result<(Map<String, Value>, SessionId), Error> {
    let Trial { arguments, session: known, suspend_ttl_ms } = trial;
    let suspend_ttl = suspend_ttl(suspend_ttl_ms)?;
    let tool = app.haft().registry().get(name).filter(|tool| tool.is_shown_to(&caller.tenant));
    let tool = tool.ok_or_else(|| Error::not_found("tool", name))?;
    if !app.workers().can_run(&tool).await {
        return Err(Error::conflict(format!(
            "`{name}` is run by a worker, which only a server can give calls to; start `haft serve`"
        )));
    }
    if let Some(known) = known {
        let found = Found::session(app, caller, &known).await?;
        let is_trial = found.open().is_some_and(|open| {
            open.config.driver == Driver::Caller && caller.may_change(&open.opened_by)
        });
        return match is_trial {
            true if suspend_ttl.is_some() => Err(Error::invalid(
                "`suspend_ttl_ms` is for a new session: a session keeps the one it was opened with",
            )),
            true => Ok((arguments, found.id)),
            false => {
                Err(Error::invalid("`session`: expected one of your own that a tool was tried in"))
            }
        };
    }
    let allow = Some(BTreeSet::from([tool.name().clone()]));
    let exposure = Exposure { allow, ..Exposure::default() };
    let suspend_ttl = suspend_ttl.or_else(|| app.suspend_ttl());
    let config = Config { driver: Driver::Caller, exposure, suspend_ttl, ..Config::default() };
    let opened = app.haft().open(caller.tenant.clone(), config, caller.actor.clone()).await?;
    Ok((arguments, opened))
}

/// The longest time that a call may wait.
const SUSPEND_TTL_MAX: Millis = Millis::from_secs(366 * 24 * 3600);

/// Reads how long the calls of a new session wait.
pub(super) fn suspend_ttl(given: Option<u64>) -> Result<Option<Millis>, Error> {
    match given.map(Millis) {
        Some(ttl) if !(Millis(1)..=SUSPEND_TTL_MAX).contains(&ttl) => Err(Error::invalid(format!(
            "`suspend_ttl_ms`: expected 1 to {} (366 days), found {}",
            SUSPEND_TTL_MAX.0, ttl.0
        ))),
        ttl => Ok(ttl),
    }
}
