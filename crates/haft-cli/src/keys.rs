//! `haft keys`: API keys, at a server or where the store is.

use anyhow::Context as _;
use haft_core::{Actor, ActorId, ActorKind, Millis, Timestamp};
use haft_runtime::Clock;
use haft_server::{Keys, NewKey, Scope};
use haft_store::Tenant;
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, ServerOrStore, StoreUse, rows};
use crate::command::over_api;
use crate::terminal::{Paint, Table, Tone, ago, now, say, say_json};
use crate::trouble::{Code, Trouble};
use crate::waiting::duration;

/// Makes, lists and revokes API keys, at the running server or in the store itself.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Makes a key and prints it, this once.
    Create {
        /// Whose data the key reaches. A server makes keys of the tenant that its own key is of;
        /// for others, stop it and make them in the store.
        #[arg(long, default_value = "default")]
        tenant: Tenant,
        /// Who holds the key; what they open is theirs.
        #[arg(long, value_parser = ActorId::new)]
        actor: ActorId,
        /// What the key may do; may be given several times.
        #[arg(long = "scope", value_parser = scope, required = true)]
        scopes: Vec<Scope>,
        /// How long the key is good: `12h`, `30d`. Default: until it is revoked.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires: Option<Millis>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Lists the keys of the tenant, revoked ones too.
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Revokes a key: the next request that shows it is refused, and its open streams end.
    Revoke {
        /// The key's id, as `list` shows it.
        key: String,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Create { tenant, actor, scopes, expires, reach } => {
            let expires_at = expires.map(|lasts| Clock::System.now() + lasts);
            let actor = Actor { kind: ActorKind::User, id: actor };
            create(&reach, NewKey { tenant, actor, scopes, expires_at })
        }
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
            let expires_at = key["expires_at"].as_i64().map(Timestamp::from_ms);
            let standing = match (key["revoked_at"].is_null(), expires_at) {
                (false, _) => ("revoked".to_owned(), Some(Tone::Dim)),
                (true, Some(at)) if at <= now => ("expired".to_owned(), Some(Tone::Dim)),
                (true, Some(at)) => (format!("good until {at}"), Some(Tone::Good)),
                (true, None) => ("good".to_owned(), Some(Tone::Good)),
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

fn create(reach: &Reach, new: NewKey) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let is_first = !reach.is_there();
        let key = match reach.server_or_store(StoreUse::Made).await? {
            ServerOrStore::Server(api) => at_server(&api, &new).await?,
            ServerOrStore::Store(store) => {
                if is_first {
                    let data = reach.data().display();
                    eprintln!(
                        "No server runs here, and there was no store: one is made in `{data}`."
                    );
                }
                let keys = Keys::new(store, None);
                let made = keys.create(new, Clock::System.now());
                made.await.context("making the key")?.reveal().to_owned()
            }
        };
        match reach.wants_json() {
            true => say_json(&json!({ "key": key }))?,
            false => say(&key),
        }
        Ok(Verdict::Holds)
    })
}

async fn at_server(api: &Api, new: &NewKey) -> Result<String, Trouble> {
    let NewKey { tenant, actor, scopes, expires_at } = new;
    let me = api.get("/haft/v1/me").await?;
    if me["tenant"] != tenant.as_str() {
        let what = format!("this server does not make keys of `{tenant}` for you");
        return Err(Trouble::new(Code::BadArguments, what)
            .why(format!("your own key is of `{}`", me["tenant"].as_str().unwrap_or_default()))
            .next("set HAFT_API_KEY to an admin's key of that tenant, or stop the server first"));
    }
    let mut wanted = json!({ "actor": actor.id, "scopes": scopes });
    if let Some(at) = expires_at {
        wanted["expires_at"] = at.to_string().into();
    }
    let made = api.post("/haft/v1/keys", &wanted).await?;
    Ok(made["key"].as_str().unwrap_or_default().to_owned())
}

fn scope(word: &str) -> Result<Scope, String> {
    match word {
        "admin" => Ok(Scope::Admin),
        "approve" => Ok(Scope::Approve),
        "read" => Ok(Scope::Read),
        "work" => Ok(Scope::Work),
        "write" => Ok(Scope::Write),
        _ => Err("expected `admin`, `approve`, `read`, `work` or `write`".to_owned()),
    }
}
