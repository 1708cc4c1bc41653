//! Haft over HTTP.
//!
//! `/v1/…` is the wire format of the Managed Agents API, so that the official Anthropic SDKs work
//! against Haft by setting a base URL and a key. What that API has no word for is below
//! `/haft/v1/…`. The server maps and never decides: what may run is the session machine's
//! business, and what happened is read from the session's log.
//!
//! - [`Server`] binds a [`haft_runtime::Haft`] to a listener, [`InProcess`] to none; [`Models`] is the model behind all
//!   of its sessions.
//! - `objects` keeps named things (agents, environments …) as versions in the store; `keys` knows
//!   who calls; `feed` turns a log into events; `routes` has a file for each resource.

mod app;
pub mod backup;
mod caller;
mod connections;
mod console;
mod default_environment;
mod deletion;
mod demo;
mod erasing;
mod error;
mod feed;
mod gate;
mod guard;
mod haft_toolset;
mod host;
mod in_process;
mod input;
mod invitation;
mod key_holds;
mod keys;
mod limits;
mod mcp_oauth;
mod mcp_toolset;
mod memory;
mod memory_tools;
mod metrics;
mod models;
mod objects;
mod once;
mod openapi;
mod owned;
mod pages;
mod plan;
mod presence;
mod readiness;
mod roster;
mod routes;
mod secrets;
mod server;
mod session;
mod session_vaults;
mod skills;
mod streams;
pub mod telemetry;
mod tls;
mod uploads;
mod webhooks;
mod wire;
mod workers;
mod zip;

pub use in_process::{InProcess, InProcessAnswer};
pub use keys::{FreshKey, KeyError, Keys, ListedKey, NewKey, Scope};
pub use limits::{LimitSettings, Quota};
pub use memory_tools::install;
pub use models::{ModelSettings, Models};
pub use secrets::vault_secrets;
pub use server::{Config, Server, StartError};
pub use skills::{MOUNTED_AT as SKILLS_MOUNTED_AT, Placed, place as place_skills};
pub use streams::StreamSettings;
pub use tls::{Tls, TlsError, TlsFiles};
pub use uploads::{MOUNTED_AT as UPLOADS_MOUNTED_AT, place as place_uploads};
pub use webhooks::WebhookSettings;
pub use workers::Workers;
