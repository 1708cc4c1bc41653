//! `haft audit`: is the journal what was written?

use std::path::PathBuf;

use haft_core::SessionId;
use haft_store::{Page, SessionFilter, Store};
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, ServerOrStore, StoreUse, rows};
use crate::exported;
use crate::terminal::{say, say_json};
use crate::trouble::Trouble;

/// Checks the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Verifies every session's hash chain.
    Verify {
        /// Only this session.
        #[arg(long)]
        session: Option<SessionId>,
        /// A file that `haft sessions export` wrote, instead of a store.
        #[arg(long, value_name = "FILE", conflicts_with = "session")]
        file: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    let Command::Verify { session, file, reach } = command;
    if let Some(file) = file {
        return tell(reach, exported::chains(file)?, None);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let place = reach.server_or_store(StoreUse::Existing).await?;
        let sessions = match (session, &place) {
            (Some(session), _) => vec![*session],
            (None, ServerOrStore::Server(api)) => served_sessions(api).await?,
            (None, ServerOrStore::Store(store)) => all_sessions(store).await?,
        };
        let (is_for_all, mut chains) = (session.is_none(), Vec::new());
        for session in &sessions {
            let chain = match &place {
                ServerOrStore::Server(api) => served_chain(api, *session).await,
                ServerOrStore::Store(store) => Ok(stored_chain(store, *session).await),
            };
            match chain {
                Ok(chain) => chains.push((*session, chain)),
                // It was listed, and erased before its turn came.
                Err(error) if is_gone(&error) && is_for_all => {}
                Err(error) => return Err(error.into()),
            }
        }
        let erased = match (session, &place) {
            (Some(_), _) => None,
            (None, ServerOrStore::Server(api)) => served_erasures(api).await?,
            (None, ServerOrStore::Store(store)) => Some(stored_erasures(store).await),
        };
        tell(reach, chains, erased.as_ref())
    })
}

/// Tells what was found of each session, and of those that were erased.
fn tell(
    reach: &Reach,
    chains: Vec<(SessionId, Value)>,
    erased: Option<&Value>,
) -> anyhow::Result<Verdict> {
    let is_broken = |chain: &Value| chain["state"] != "whole";
    let n_broken = chains.iter().filter(|(_, chain)| is_broken(chain)).count();
    let (n_sessions, mut data) = (chains.len(), Vec::new());
    for (session, mut chain) in chains {
        if reach.wants_json() {
            chain["session"] = json!(session);
            data.push(chain);
        } else {
            say(&told(session, &chain));
        }
    }
    match reach.wants_json() {
        true => say_json(&json!({ "data": data, "erased": erased }))?,
        false => {
            eprintln!("{n_sessions} sessions verified, {n_broken} broken");
            if let Some(erased) = erased {
                eprintln!("{}", told_erased(erased));
            }
        }
    }
    let holds = n_broken == 0 && !erased.is_some_and(is_broken);
    Ok(if holds { Verdict::Holds } else { Verdict::Broken })
}

fn is_gone(error: &Trouble) -> bool {
    error.code() == "not_found_error"
}

fn told_erased(chain: &Value) -> String {
    match chain["state"].as_str() {
        Some("whole") => format!("{} sessions erased; their record is whole", chain["erasures"]),
        _ => format!("erased sessions: {}", chain["message"].as_str().unwrap_or_default()),
    }
}

async fn stored_erasures(store: &Store) -> Value {
    match store.verify_erasures().await {
        Ok(head) => json!({ "state": "whole", "erasures": head.seq, "head": head.hash }),
        Err(error) => json!({ "state": "broken", "message": error.to_string() }),
    }
}

/// The record of erased sessions, for a key that may see it.
async fn served_erasures(api: &Api) -> Result<Option<Value>, Trouble> {
    match api.get("/haft/v1/erasures?limit=1").await {
        Ok(mut page) => Ok(Some(page["chain"].take())),
        Err(error) if error.code() == "permission_error" => Ok(None),
        Err(error) => Err(error),
    }
}

fn told(session: SessionId, chain: &Value) -> String {
    match chain["state"].as_str() {
        Some("whole") => format!("{session}: {} entries, whole", chain["entries"]),
        _ => format!("{session}: broken: {}", chain["message"].as_str().unwrap_or_default()),
    }
}

/// The chain of a session as the API shows it.
async fn stored_chain(store: &Store, session: SessionId) -> Value {
    match store.verify(session).await {
        Ok(head) => json!({ "state": "whole", "entries": head.seq, "head": head.hash }),
        Err(error) => json!({ "state": "broken", "message": error.to_string() }),
    }
}

async fn served_chain(api: &Api, session: SessionId) -> Result<Value, Trouble> {
    let mut page = api.get(&format!("/haft/v1/audit?session={session}&limit=1")).await?;
    Ok(page["chain"].take())
}

/// Every session that the key may see.
async fn served_sessions(api: &Api) -> anyhow::Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    let mut after = String::new();
    loop {
        let page = api.get(&format!("/haft/v1/sessions?limit=200{after}")).await?;
        let next = page["next"].as_str().map(|next| format!("&after={next}"));
        for row in rows(page) {
            sessions.push(serde_json::from_value(row["id"].clone())?);
        }
        match next {
            Some(next) => after = next,
            None => return Ok(sessions),
        }
    }
}

pub(crate) async fn all_sessions(store: &Store) -> anyhow::Result<Vec<SessionId>> {
    sessions(store, &SessionFilter::default()).await
}

pub(crate) async fn sessions(
    store: &Store,
    filter: &SessionFilter,
) -> anyhow::Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    loop {
        let page = Page { after: sessions.last().copied(), limit: 500 };
        let found = store.sessions(filter, &page).await?;
        if found.is_empty() {
            return Ok(sessions);
        }
        sessions.extend(found.into_iter().map(|listed| listed.session));
    }
}
