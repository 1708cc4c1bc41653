//! The four verbs of a worker, and where it leaves what is too large for an answer.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts as _, Request, State};
use haft_core::tool::Definition;
use haft_core::{ActorKind, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Body, Params, Raw};
use crate::keys::Scope;
use crate::openapi::{Taken, Takes};
use crate::workers::{Asking, Registration, WAIT_MAX, WorkerOutcome};

/// The longest time that a beat waits for something to cancel.
const BEAT_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many jobs one request may ask for.
const FREE_MAX: u32 = 1000;
/// How long a worker's name may be.
const NAME_MAX: usize = 120;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Register {
    /// The worker's name. A process that registers under the name of another one says that the
    /// other one is dead.
    worker: String,
    /// Tells this process from any other of the same name.
    instance: String,
    /// What the first registration of this process was answered with.
    since: Option<i64>,
    /// The definitions of its tools.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    tools: Vec<Definition>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    worker: String,
    instance: String,
    /// How many jobs the worker has room for. With 0 its other requests are answered, so that it
    /// can stop.
    free: u32,
    /// How long to wait for the first one.
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Beat {
    worker: String,
    instance: String,
    /// The jobs that the worker is still at.
    leases: Vec<String>,
    /// How far jobs are, by their leases.
    #[serde(default)]
    progress: BTreeMap<String, Value>,
    /// How long the answer may wait for something to cancel.
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    lease: String,
    outcome: WorkerOutcome,
}

/// Whoever works runs code with the arguments and secrets of calls, so it takes a scope of its
/// own, and no agent has it.
fn require_worker(caller: &Caller) -> Result<(), Error> {
    caller.require(Scope::Work)?;
    match caller.actor.kind {
        ActorKind::Agent => {
            Err(Error::new(Kind::Permission, "an agent's key cannot be a worker's"))
        }
        ActorKind::User | ActorKind::Service | ActorKind::System => Ok(()),
    }
}

pub(super) async fn register(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(given): Body<Register>,
) -> Result<Json<Value>, Error> {
    require_worker(&caller)?;
    params.finish()?;
    let Register { worker, instance, since, tools } = given;
    require_name("worker", &worker)?;
    require_name("instance", &instance)?;
    let now = app.now();
    // Nobody starts in the future.
    let since = since.map_or(now, Timestamp::from_ms).min(now);
    let Caller { tenant, actor: by, .. } = caller;
    let given = Registration { tenant, by, worker, instance, since, tools };
    app.workers().register(given, now).await.map(Json)
}

pub(super) async fn poll(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(given): Body<Poll>,
) -> Result<Json<Value>, Error> {
    require_worker(&caller)?;
    params.finish()?;
    let Poll { worker, instance, free, wait_ms } = given;
    if free > FREE_MAX {
        return Err(Error::invalid(format!("free: expected 0 to {FREE_MAX}, found {free}")));
    }
    let wait = wait_ms.map_or(WAIT_MAX, Duration::from_millis).min(WAIT_MAX);
    let stopping = app.shutdown().clone();
    let asking = Asking { tenant: caller.tenant, worker, instance };
    let jobs = app.workers().poll(asking, free, wait, stopping.cancelled()).await?;
    Ok(Json(json!({ "jobs": jobs })))
}

pub(super) async fn beat(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(given): Body<Beat>,
) -> Result<Json<Value>, Error> {
    require_worker(&caller)?;
    params.finish()?;
    let Beat { worker, instance, leases, progress, wait_ms } = given;
    let wait = wait_ms.map_or(Duration::ZERO, Duration::from_millis).min(BEAT_WAIT_MAX);
    let asking = Asking { tenant: caller.tenant, worker, instance };
    let wait = if app.shutdown().is_cancelled() { Duration::ZERO } else { wait };
    app.workers().beat(asking, leases, progress, wait).await.map(Json)
}

pub(super) async fn done(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(given): Body<Done>,
) -> Result<Json<Value>, Error> {
    require_worker(&caller)?;
    params.finish()?;
    let Done { lease, outcome } = given;
    app.workers().done(app.haft(), (&caller.tenant, &lease), outcome).await.map(Json)
}

/// A body of bytes that is read only for whoever may be a worker: it may be large.
pub(super) struct WorkerRaw(Raw);

impl FromRequest<App> for WorkerRaw {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let (mut parts, body) = request.into_parts();
        require_worker(&Caller::from_request_parts(&mut parts, app).await?)?;
        Raw::from_request(Request::from_parts(parts, body), app).await.map(Self)
    }
}

impl Takes for WorkerRaw {
    fn take(taken: &mut Taken) {
        Raw::take(taken);
    }
}

/// Keeps a part of a result outside the log; the answer is what to put into `artifacts`.
pub(super) async fn keep(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
    WorkerRaw(raw): WorkerRaw,
) -> Result<Json<Value>, Error> {
    let lease = params.text("lease").ok_or_else(|| Error::invalid("lease: it is missing"))?;
    let title = params.text("title").unwrap_or_else(|| "output".to_owned());
    params.finish()?;
    let Raw { media_type, bytes } = raw;
    let with = (&caller.tenant, lease.as_str());
    let kept = app.workers().keep(with, &title, &media_type, bytes.to_vec()).await?;
    Ok(Json(json!(kept)))
}

fn require_name(field: &str, name: &str) -> Result<(), Error> {
    let is_plain = name.chars().all(|c| !c.is_control());
    match !name.is_empty() && name.len() <= NAME_MAX && is_plain {
        true => Ok(()),
        false => Err(Error::invalid(format!("{field}: expected 1 to {NAME_MAX} printable bytes"))),
    }
}
