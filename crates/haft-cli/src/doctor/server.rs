//! The running server: whether there is one, whether it answers, and whether it is this version.

use std::time::Duration;

use serde_json::Value;

use super::finding::Finding;
use super::waiting;
use crate::api::{Api, Reach, ServerNote};

const NAME: &str = "server";
const VERSION: &str = "server.version";

/// How long a server may take to say who it is.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What became of looking for a server.
pub(super) struct Running {
    note: Option<ServerNote>,
    is_named: bool,
    /// Whether a process has the embedded store.
    is_store_in_use: bool,
    found: Found,
}

enum Found {
    /// It answers, and says who it is.
    Answers { api: Box<Api>, me: Value },
    /// It does not answer, or not to this key.
    Fails { why: String },
    /// No server was named, and none left a note in the data directory.
    Nobody,
}

impl Running {
    /// The note of a server that runs.
    pub(super) fn note(&self) -> Option<&ServerNote> {
        match self.found {
            Found::Answers { .. } => self.note.as_ref(),
            Found::Fails { .. } | Found::Nobody => None,
        }
    }
}

/// Looks for the server that was named, else for the one of the data directory.
pub(super) async fn find(reach: &Reach) -> Running {
    let place = reach.place();
    let found = tokio::time::timeout(ANSWER_MAX, asked(reach)).await.unwrap_or_else(|_| {
        let why = format!("it does not answer within {} s", ANSWER_MAX.as_secs());
        Found::Fails { why }
    });
    let is_store_in_use =
        place.database_url.is_none() && haft_store::is_in_use(&place.data).unwrap_or(false);
    let note = ServerNote::find(&place.data);
    Running { note, is_named: reach.server().is_some(), is_store_in_use, found }
}

async fn asked(reach: &Reach) -> Found {
    match reach.running().await {
        Ok(None) => Found::Nobody,
        Ok(Some(api)) => match api.get("/haft/v1/me").await {
            Ok(me) => Found::Answers { api: Box::new(api), me },
            Err(trouble) => Found::Fails { why: one_line(&trouble) },
        },
        Err(error) => Found::Fails { why: one_line(&error) },
    }
}

fn one_line(said: &dyn std::fmt::Display) -> String {
    said.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

pub(super) fn examine(running: &Running) -> Vec<Finding> {
    match &running.found {
        Found::Answers { api, me } => vec![answers(running, api), version(me)],
        Found::Fails { why } => vec![Finding::problem(
            NAME,
            why.clone(),
            "see that it runs and is reachable, and set HAFT_API_KEY to a key of it",
        )],
        Found::Nobody => vec![nobody(running)],
    }
}

fn answers(running: &Running, api: &Api) -> Finding {
    let at = api.base().unwrap_or("this machine");
    let process = running.note.as_ref().filter(|_| !running.is_named);
    match process {
        Some(note) => Finding::ok(NAME, format!("it answers at {at} (process {})", note.pid())),
        None => Finding::ok(NAME, format!("it answers at {at}")),
    }
}

fn version(me: &Value) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    match me["version"].as_str() {
        Some(theirs) if theirs == ours => {
            Finding::ok(VERSION, format!("it is haft {theirs}, as this program"))
        }
        theirs => Finding::warning(
            VERSION,
            format!("it is haft {}, and this program is haft {ours}", theirs.unwrap_or("unknown")),
            "restart the server with this version, or use the program that it runs",
        ),
    }
}

fn nobody(running: &Running) -> Finding {
    match (running.is_store_in_use, &running.note) {
        (true, Some(note)) => Finding::problem(
            NAME,
            format!("a process has the store, and nobody answers at {}", note.address),
            format!("see whether process {} hangs, and restart it", note.pid()),
        ),
        (true, None) => Finding::ok(
            NAME,
            "no server runs; another process has the store, such as `haft mcp` or a command",
        ),
        (false, Some(_)) => Finding::ok(
            NAME,
            "no server runs; the last one was killed and left `server.json`, which does no harm",
        ),
        (false, None) => Finding::ok(NAME, "no server runs here; commands open the store itself"),
    }
}

/// What waits at a server that was named, as its API tells it.
pub(super) async fn waiting(running: &Running) -> Option<Finding> {
    let Found::Answers { api, .. } = &running.found else { return None };
    let waits = api.pending().await.ok()?;
    let n_doubt = waits.iter().filter(|wait| wait["kind"] == "settlement").count();
    Some(waiting::counted(waits.len() as u64, n_doubt as u64))
}
