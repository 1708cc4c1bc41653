//! `haft audit`: is what is stored what was written?

mod checkpoint;

use std::path::PathBuf;

use haft_core::SessionId;
use haft_store::{AuditFinding, AuditReport, AuditedLog, Damage, Page, SessionFilter, Store};
use serde_json::{Value, json};

use self::checkpoint::Checkpoint;
use crate::Verdict;
use crate::api::{Api, Reach, ServerOrStore, StoreUse, rows};
use crate::exported;
use crate::terminal::{say, say_json};
use crate::trouble::Trouble;

/// Checks the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Verifies the whole store: every log against its hashes, every row beside the logs against
    /// them, all content against its hash, and the database file.
    ///
    /// The store is read where it is: in the data directory, also while a server uses it, or in the
    /// database of --database-url. With --server, only the sessions that the key may see can be
    /// verified.
    Verify {
        /// Only this session.
        #[arg(long)]
        session: Option<SessionId>,
        /// A file that `haft sessions export` wrote, instead of a store.
        #[arg(long, value_name = "FILE", conflicts_with = "session")]
        file: Option<PathBuf>,
        /// A file that `haft audit checkpoint` wrote: what it saw has to be there still.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "file"])]
        checkpoint: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Verifies the whole store and prints where its chains end, as JSON to be kept elsewhere.
    ///
    /// `haft audit verify --checkpoint FILE` later shows whether anything that was there then was
    /// changed or taken out since: logs, erasures, and the record of keys, grants and policies.
    Checkpoint {
        #[command(flatten)]
        reach: Reach,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    let (session, file, checkpoint, reach) = match command {
        Command::Verify { session, file, checkpoint, reach } => (session, file, checkpoint, reach),
        Command::Checkpoint { reach } => return checkpoint::write(reach),
    };
    if let Some(file) = file {
        return tell_exported(reach, exported::chains(file)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if let Some(session) = session {
            return verify_one(reach, *session).await;
        }
        if let Some(file) = checkpoint {
            return verify_store(reach, Some(&Checkpoint::read(file)?)).await;
        }
        if reach.server().is_some() || !reach.place().is_within_reach() {
            return match reach.running().await? {
                Some(api) => verify_served(reach, &api).await,
                None => Err(reach.nothing_there().into()),
            };
        }
        verify_store(reach, None).await
    })
}

/// Verifies the store itself, all of it.
async fn verify_store(reach: &Reach, seen: Option<&Checkpoint>) -> anyhow::Result<Verdict> {
    let logs = seen.map(Checkpoint::logs).unwrap_or_default();
    let mut report = reach.place().audit_against(&logs).await?;
    if let Some(seen) = seen {
        seen.hold_against(&mut report);
    }
    if reach.wants_json() {
        let whole = report.logs.iter().map(|log| {
            let AuditedLog { session, head } = log;
            json!({ "session": session, "state": "whole", "entries": head.seq, "head": head.hash })
        });
        let broken = report.findings.iter().filter_map(|finding| {
            let session = finding.session.filter(|_| finding.damage == Damage::Log)?;
            Some(json!({ "session": session, "state": "broken", "message": finding.message }))
        });
        let findings: Vec<_> = report.findings.iter().map(shown).collect();
        let data: Vec<_> = whole.chain(broken).collect();
        let AuditReport { sessions, calls, versions, artifacts, erasures, .. } = &report;
        let is_record_broken =
            |finding: &AuditFinding| finding.damage == Damage::Log && finding.session.is_none();
        let is_broken = report.findings.iter().any(is_record_broken);
        let record = if is_broken { "broken" } else { "whole" };
        say_json(&json!({
            "data": data, "covered": "store", "findings": findings, "sessions": sessions,
            "calls": calls, "versions": versions, "artifacts": artifacts,
            "erased": { "state": record, "erasures": erasures },
            "authority": { "entries": report.authority.len(), "head": report.authority.last() },
        }))?;
    } else {
        tell(&report);
    }
    Ok(if report.is_whole() { Verdict::Holds } else { Verdict::Broken })
}

fn shown(finding: &AuditFinding) -> Value {
    let AuditFinding { damage, session, message } = finding;
    json!({ "damage": damage.as_str(), "session": session, "message": message })
}

fn tell(report: &AuditReport) {
    for AuditedLog { session, head } in &report.logs {
        say(&format!("{session}: {} entries, whole", head.seq));
    }
    for AuditFinding { damage, session, message } in &report.findings {
        say(&match (damage, session) {
            (Damage::Log, Some(session)) => format!("{session}: broken: {message}"),
            (_, Some(session)) => format!("{session}: {}: {message}", damage.as_str()),
            (_, None) => format!("{}: {message}", damage.as_str()),
        });
    }
    let AuditReport { sessions, calls, versions, artifacts, erasures, logs, findings, .. } = report;
    let n_broken = sessions.saturating_sub(logs.len() as u64);
    eprintln!(
        "{sessions} sessions verified, {n_broken} broken; the whole store was covered: all \
         tenants, {calls} calls against the logs, {versions} versions (API keys and grants among \
         them), {artifacts} artifacts"
    );
    let is_record =
        |finding: &AuditFinding| finding.damage == Damage::Log && finding.session.is_none();
    if !findings.iter().any(is_record) {
        eprintln!("{erasures} sessions erased; their record is whole");
    }
    if !findings.iter().any(|finding| finding.damage == Damage::Authority) {
        let n = report.authority.len();
        eprintln!("{n} changes of keys, grants and policies; their record is whole");
    }
    if findings.is_empty() {
        return;
    }
    let next = match report.is_repairable() {
        true => "`haft repair` makes what is wrong anew from the logs",
        false => "keep a copy of the store as it is, and restore a backup",
    };
    eprintln!("{} findings; {next}", findings.len());
}

async fn verify_one(reach: &Reach, session: SessionId) -> anyhow::Result<Verdict> {
    let chain = match reach.server_or_store(StoreUse::Existing).await? {
        ServerOrStore::Server(api) => served_chain(&api, session).await?,
        ServerOrStore::Store(store) => stored_chain(&store, session).await,
    };
    let n_broken = tell_chain(reach, session, &chain);
    match reach.wants_json() {
        true => say_json(&json!({ "data": [with_session(chain, session)] }))?,
        false => eprintln!("1 session verified, {n_broken} broken; only its log was covered"),
    }
    Ok(if n_broken == 0 { Verdict::Holds } else { Verdict::Broken })
}

/// Verifies what the key of a server may see.
async fn verify_served(reach: &Reach, api: &Api) -> anyhow::Result<Verdict> {
    let (mut n_broken, mut chains) = (0, Vec::new());
    for session in served_sessions(api).await? {
        let chain = match served_chain(api, session).await {
            Ok(chain) => chain,
            // It was listed, and erased before its turn came.
            Err(error) if error.code() == "not_found_error" => continue,
            Err(error) => return Err(error.into()),
        };
        n_broken += tell_chain(reach, session, &chain);
        chains.push(with_session(chain, session));
    }
    let erased = served_erasures(api).await?;
    let n_verified = chains.len();
    n_broken += usize::from(erased.as_ref().is_some_and(|chain| chain["state"] != "whole"));
    match reach.wants_json() {
        true => say_json(&json!({ "data": chains, "covered": "key", "erased": erased }))?,
        false => {
            eprintln!("{n_verified} sessions verified, {n_broken} broken");
            if let Some(erased) = &erased {
                eprintln!("{}", told_erased(erased));
            }
        }
    }
    eprintln!(
        "only the logs of the sessions that this key may see were covered; for the whole store, \
         run `haft audit verify` with --data or --database-url where the store is"
    );
    // Nothing that was looked at is no proof that all is well.
    Ok(if n_broken == 0 && n_verified > 0 { Verdict::Holds } else { Verdict::Broken })
}

/// The record of erased sessions, for a key that may see it.
async fn served_erasures(api: &Api) -> Result<Option<Value>, Trouble> {
    match api.get("/haft/v1/erasures?limit=1").await {
        Ok(mut page) => Ok(Some(page["chain"].take())),
        Err(error) if error.code() == "permission_error" => Ok(None),
        Err(error) => Err(error),
    }
}

fn told_erased(chain: &Value) -> String {
    match chain["state"].as_str() {
        Some("whole") => format!("{} sessions erased; their record is whole", chain["erasures"]),
        _ => format!("erased sessions: {}", chain["message"].as_str().unwrap_or_default()),
    }
}

/// Says what became of a chain, unless all of them are printed as JSON; returns 1 if it is broken.
fn tell_chain(reach: &Reach, session: SessionId, chain: &Value) -> usize {
    if !reach.wants_json() {
        say(&told(session, chain));
    }
    usize::from(chain["state"] != "whole")
}

fn with_session(mut chain: Value, session: SessionId) -> Value {
    chain["session"] = json!(session);
    chain
}

/// Tells what was found in a file that was exported.
fn tell_exported(reach: &Reach, chains: Vec<(SessionId, Value)>) -> anyhow::Result<Verdict> {
    let (n_sessions, mut n_broken, mut data) = (chains.len(), 0, Vec::new());
    for (session, chain) in chains {
        n_broken += tell_chain(reach, session, &chain);
        data.push(with_session(chain, session));
    }
    match reach.wants_json() {
        true => say_json(&json!({ "data": data, "covered": "file" }))?,
        false => eprintln!("{n_sessions} sessions verified, {n_broken} broken"),
    }
    Ok(if n_broken == 0 && n_sessions > 0 { Verdict::Holds } else { Verdict::Broken })
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
