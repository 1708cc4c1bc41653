//! The Managed Agents API, as the official Anthropic SDKs speak it.

pub(crate) mod agents;
mod credential_validations;
mod environments;
pub(crate) mod events;
mod files;
mod kept;
mod memories;
mod memory_stores;
mod memory_versions;
pub(crate) mod resources;
pub(crate) mod sessions;
mod skills;
mod threads;
pub(crate) mod vault_credentials;
mod vaults;

use axum::routing::{MethodRouter, any};
use haft_runtime::InputError;
use serde_json::{Map, Value};

use crate::app::App;
use crate::error::Error;
use crate::input::Params;
use crate::openapi::Query::{self, Flag, Limit, ManyOf, Number, OneOf, Page, Text, Texts};
use crate::openapi::{Paths, get, post};

/// The largest body that any path takes.
pub(crate) const UPLOAD_MAX: usize = files::BODY_MAX;

/// The parameters of a list of what can be archived.
const LISTED: &[Query] = &[Limit(100), Page, Flag("include_archived")];
/// Which events are previewed while they are being said.
const PREVIEWS: &[Query] = &[ManyOf("event_deltas", &["agent.message", "agent.thinking"])];
/// Whether the content of memories is shown.
const VIEW: Query = OneOf("view", &["basic", "full"]);
/// What was done to a memory.
const OPERATION: Query = OneOf("operation", &["created", "deleted", "modified"]);
/// Whose skills.
const SOURCE: Query = OneOf("source", &["anthropic", "custom"]);

pub(crate) fn paths() -> Paths {
    let agents = get(agents::list).query(LISTED).page().post(agents::create);
    let sessions = get(sessions::list)
        .query(&[
            Limit(100),
            Page,
            Flag("include_archived"),
            Text("agent_id"),
            Texts("statuses"),
            OneOf("order", &["desc"]),
        ])
        .page()
        .post(sessions::create);
    let events = get(events::list)
        .query(&[Limit(1000), Page, Texts("types"), OneOf("order", &["asc", "desc"])])
        .page()
        .post(events::send);
    Paths::new()
        .route("/agents", agents)
        .route(
            "/agents/{agent}",
            get(agents::retrieve).query(&[Number("version")]).post(agents::update),
        )
        .route("/agents/{agent}/archive", post(agents::archive))
        .route("/agents/{agent}/versions", get(agents::versions).query(&[Limit(100), Page]).page())
        .merge(kept::paths::<environments::Declared>(
            "/environments",
            "/environments/{environment}",
        ))
        .route("/sessions", sessions)
        .route(
            "/sessions/{session}",
            get(sessions::retrieve).post(sessions::update).delete(sessions::delete),
        )
        .route("/sessions/{session}/archive", post(sessions::archive))
        .route("/sessions/{session}/events", events)
        .route("/sessions/{session}/events/stream", get(events::stream).query(PREVIEWS).events())
        .merge(parts_of_sessions())
        .merge(kept_for_sessions())
        .merge(skills())
        .merge(not_done())
}

fn parts_of_sessions() -> Paths {
    let resources = get(resources::list).query(&[Limit(100), Page]).page().post(resources::add);
    let threads = get(threads::list).query(&[Limit(100), Page, Texts("statuses")]).page();
    Paths::new()
        .route("/sessions/{session}/resources", resources)
        .route(
            "/sessions/{session}/resources/{resource}",
            get(resources::retrieve).post(resources::update).delete(resources::delete),
        )
        .route("/sessions/{session}/threads", threads)
        .route("/sessions/{session}/threads/{thread}", get(threads::retrieve))
        .route("/sessions/{session}/threads/{thread}/archive", post(threads::archive))
        .route(
            "/sessions/{session}/threads/{thread}/events",
            get(threads::events).query(&[Limit(1000), Page]).page(),
        )
        .route(
            "/sessions/{session}/threads/{thread}/stream",
            get(threads::stream).query(PREVIEWS).events(),
        )
}

fn kept_for_sessions() -> Paths {
    let files = get(files::list)
        .query(&[Limit(1000), Page, Texts("ids")])
        .page()
        .post(files::upload)
        .body_max(files::BODY_MAX);
    Paths::new()
        .route("/files", files)
        .route("/files/{file}", get(files::retrieve).delete(files::delete))
        .route("/files/{file}/content", get(files::content).bytes())
        .merge(memories())
        .merge(kept::paths::<vaults::Declared>("/vaults", "/vaults/{vault}"))
        .route(
            "/vaults/{vault}/credentials",
            get(vault_credentials::list).query(LISTED).page().post(vault_credentials::create),
        )
        .route(
            "/vaults/{vault}/credentials/{credential}",
            get(vault_credentials::retrieve)
                .post(vault_credentials::update)
                .delete(vault_credentials::delete),
        )
        .route("/vaults/{vault}/credentials/{credential}/archive", post(vault_credentials::archive))
        .route(
            "/vaults/{vault}/credentials/{credential}/mcp_oauth_validate",
            post(credential_validations::validate),
        )
}

fn memories() -> Paths {
    let memories = get(memories::list)
        .query(&[Limit(100), Page, VIEW, Text("path_prefix"), Number("depth")])
        .page()
        .post(memories::create)
        .query(&[VIEW]);
    let memory = get(memories::retrieve)
        .query(&[VIEW])
        .post(memories::update)
        .query(&[VIEW])
        .delete(memories::delete)
        .query(&[Text("expected_content_sha256")]);
    let versions = get(memory_versions::list)
        .query(&[Limit(100), Page, VIEW, Text("memory_id"), OPERATION])
        .page();
    Paths::new()
        .merge(kept::paths::<memory_stores::Declared>("/memory_stores", "/memory_stores/{store}"))
        .route("/memory_stores/{store}/memories", memories)
        .route("/memory_stores/{store}/memories/{memory}", memory)
        .route("/memory_stores/{store}/memory_versions", versions)
        .route(
            "/memory_stores/{store}/memory_versions/{version}",
            get(memory_versions::retrieve).query(&[VIEW]),
        )
        .route(
            "/memory_stores/{store}/memory_versions/{version}/redact",
            post(memory_versions::redact),
        )
}

fn skills() -> Paths {
    let skills = get(skills::list)
        .query(&[Limit(1000), Page, SOURCE])
        .page()
        .post(skills::create)
        .form(skills::form)
        .body_max(skills::BODY_MAX);
    let versions = get(skills::list_versions)
        .query(&[Limit(1000), Page])
        .page()
        .post(skills::create_version)
        .form(skills::form)
        .body_max(skills::BODY_MAX);
    Paths::new()
        .route("/skills", skills)
        .route("/skills/{skill}", get(skills::retrieve).delete(skills::delete))
        .route("/skills/{skill}/versions", versions)
        .route(
            "/skills/{skill}/versions/{version}",
            get(skills::retrieve_version).delete(skills::delete_version),
        )
        .route("/skills/{skill}/versions/{version}/content", get(skills::content).zip())
}

/// What the SDKs offer beside this API, so that whoever calls it reads why nothing comes of it.
fn not_done() -> Paths {
    let what = [
        ("/deployment_runs", "a deployment"),
        ("/deployments", "a deployment"),
        ("/dreams", "a dream"),
        ("/messages", "the Messages API"),
        ("/user_profiles", "a user profile"),
    ];
    what.into_iter().fold(Paths::new(), |paths, (path, what)| {
        paths.refusing(path, absent(what)).refusing(&format!("{path}/{{*rest}}"), absent(what))
    })
}

/// A page of things, and where the next one starts.
fn page(data: Vec<Value>, next: Option<String>) -> Value {
    let next = next.map_or(Value::Null, Value::String);
    Value::Object(Map::from_iter([
        ("data".to_owned(), Value::Array(data)),
        ("next_page".to_owned(), next),
    ]))
}

/// Reads whether archived things are wanted too.
fn with_archived(params: &mut Params) -> Result<bool, Error> {
    Ok(params.one::<bool>("include_archived")?.unwrap_or(false))
}

/// What is over already is as good as stopped now; what could not be stopped is not.
fn unless_over<T>(stopped: Result<T, InputError>) -> Result<(), InputError> {
    match stopped {
        Ok(_) | Err(InputError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A path of the API that this server does not do.
fn absent(what: &'static str) -> MethodRouter<App> {
    any(move || async move { Error::unsupported(what) })
}
