//! `haft keys`: API keys, made where the store is.

use anyhow::Context as _;
use haft_core::{Actor, ActorId, ActorKind};
use haft_runtime::Clock;
use haft_server::{Keys, Scope};
use haft_store::Tenant;

use crate::Verdict;
use crate::place::Place;

/// Makes API keys. The embedded store has one user at a time: stop `haft serve` first.
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
}

pub(crate) fn run(command: Command) -> anyhow::Result<Verdict> {
    let Command::Create { place, tenant, actor, scopes } = command;
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
