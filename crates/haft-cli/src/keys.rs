//! `haft keys`: API keys, made where the store is, listed and revoked there or at a server.

use anyhow::Context as _;
use haft_core::{Actor, ActorId, ActorKind, Timestamp};
use haft_runtime::Clock;
use haft_server::{Keys, Scope};
use haft_store::Tenant;
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Reach, StoreUse, rows};
use crate::command::over_api;
use crate::place::Place;
use crate::terminal::{Paint, Table, Tone, ago, now, say, say_json};

/// Makes, lists and revokes API keys. A key is made where the store is: the embedded one has one
/// user at a time, so `haft serve` is stopped for it.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Makes a key and prints it, this once.
    Create {
        #[command(flatten)]
        place: Place,
        /// Whose data the key reaches.
        #[arg(long, default_value = "default")]
        tenant: Tenant,
        /// Who holds the key; what they open is theirs.
        #[arg(long, value_parser = ActorId::new)]
        actor: ActorId,
        /// What the key may do; may be given several times.
        #[arg(long = "scope", value_parser = scope, required = true)]
        scopes: Vec<Scope>,
    },
    /// Lists the keys of the tenant, revoked ones too.
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Revokes a key: the next request that shows it is refused.
    Revoke {
        /// The key's id, as `list` shows it.
        key: String,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Create { place, tenant, actor, scopes } => create(&place, tenant, actor, scopes),
        Command::List { reach } => list(&reach),
        Command::Revoke { key, reach } => revoke(&reach, &key),
    }
}

fn list(reach: &Reach) -> anyhow::Result<Verdict> {
    over_api(reach, StoreUse::Existing, async |api| {
        let keys = rows(api.get("/haft/v1/keys").await?);
        if reach.wants_json() {
            say_json(&json!({ "data": keys }))?;
            return Ok(Verdict::Holds);
        }
        let mut table = Table::new(&["KEY", "HOLDER", "MADE", "USED", "STANDING", "SCOPES"]);
        let now = now();
        let when = |at: &Value| at.as_i64().map(|at| ago(Timestamp::from_ms(at), now));
        for key in &keys {
            let text = |found: &Value| found.as_str().unwrap_or_default().to_owned();
            let scopes: Vec<&str> =
                key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let standing = match key["revoked_at"].is_null() {
                true => ("good".to_owned(), Some(Tone::Good)),
                false => ("revoked".to_owned(), Some(Tone::Dim)),
            };
            table.row([
                (text(&key["id"]), Some(Tone::Accent)),
                (text(&key["actor"]["id"]), Some(Tone::Bold)),
                (when(&key["created_at"]).unwrap_or_default(), None),
                (when(&key["last_used_at"]).unwrap_or_else(|| "never".to_owned()), None),
                standing,
                (scopes.join(" "), None),
            ]);
        }
        say(&table.shown(Paint::stdout()));
        Ok(Verdict::Holds)
    })
}

fn revoke(reach: &Reach, key: &str) -> anyhow::Result<Verdict> {
    over_api(reach, StoreUse::Existing, async |api| {
        let revoked = api.delete(&format!("/haft/v1/keys/{key}")).await?;
        match reach.wants_json() {
            true => say_json(&revoked)?,
            false => say(&format!("{key} opens nothing any more")),
        }
        Ok(Verdict::Holds)
    })
}

fn create(
    place: &Place,
    tenant: Tenant,
    actor: ActorId,
    scopes: Vec<Scope>,
) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let keys = Keys::new(place.open().await?, None);
        let holder = Actor { kind: ActorKind::User, id: actor };
        let made = keys.create(tenant, holder, scopes, Clock::System.now()).await;
        println!("{}", made.context("making the key")?.reveal());
        Ok(Verdict::Holds)
    })
}

fn scope(word: &str) -> Result<Scope, String> {
    match word {
        "admin" => Ok(Scope::Admin),
        "approve" => Ok(Scope::Approve),
        "read" => Ok(Scope::Read),
        "write" => Ok(Scope::Write),
        _ => Err("expected `admin`, `approve`, `read` or `write`".to_owned()),
    }
}
