//! One of two processes that approve the same call at the same moment.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use haft_core::session::{PolicyFacts, Refusal, Resolution, Resolved, Stale};
use haft_core::{Actor, ActorId, CallId, Millis, ResolutionId, SessionId};
use haft_runtime::{Driver, InputError, Settings};
use haft_store::{CallStage, NodeId, Store};
use serde::Serialize;

use super::life::{Hands, place};
use super::world::Pen;
use crate::Verdict;
use crate::place::is_in_use;
use crate::terminal::say;

#[derive(Debug, clap::Args)]
pub(crate) struct DuelArgs {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    database_url: Option<String>,
    #[arg(long)]
    session: SessionId,
    #[arg(long)]
    call: CallId,
    #[arg(long)]
    by: String,
}

/// What a duellist was told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "told")]
enum Told {
    Accepted,
    Stale { by: String, decision: String, at: String },
}

/// How often a directory is tried that the other process has.
const KNOCK_EVERY: Duration = Duration::from_millis(2);

/// Says that it is ready, waits for a line, and approves. It stays until the call has its outcome,
/// because whoever wins runs it.
pub(crate) fn duel(args: &DuelArgs) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // A database takes both at a time; a directory takes one, and the other has to knock.
        let ready = match &args.database_url {
            Some(_) => Some(open(args).await?),
            None => None,
        };
        wait_for_the_word()?;
        let store = match ready {
            Some(store) => store,
            None => open(args).await?,
        };
        let pen = Arc::new(Pen::open(&args.directory)?);
        let hands = Arc::new(Hands::new(pen, &args.directory, Millis(0)));
        let node = NodeId::new(&format!("duel-{}", std::process::id()))?;
        let driver = Driver::start(store, hands, &Settings::new(node));
        let told = approve(&driver, args).await?;
        say(&serde_json::to_string(&told)?);
        while !is_settled(driver.store(), args).await? {
            tokio::time::sleep(KNOCK_EVERY).await;
        }
        driver.shutdown(Duration::from_secs(10)).await;
        Ok(Verdict::Holds)
    })
}

async fn open(args: &DuelArgs) -> anyhow::Result<Store> {
    let place = place(&args.directory, args.database_url.as_ref());
    loop {
        match place.open().await {
            Ok(store) => return Ok(store),
            Err(error) if is_in_use(&error) => tokio::time::sleep(KNOCK_EVERY).await,
            Err(error) => return Err(error),
        }
    }
}

fn wait_for_the_word() -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(b"ready\n").and_then(|()| out.flush()).context("saying that it is ready")?;
    let mut word = String::new();
    std::io::stdin().lock().read_line(&mut word).context("waiting for the word")?;
    Ok(())
}

async fn approve(driver: &Driver<Hands>, args: &DuelArgs) -> anyhow::Result<Told> {
    let resolved = Resolved {
        id: ResolutionId::from_bits(driver.fresh()?),
        call: args.call,
        round: None,
        by: Actor::user(ActorId::new(&args.by)?),
        resolution: Resolution::Approve { edit: None, note: None, grant: None },
        policy: PolicyFacts::default(),
    };
    match driver.resolve(args.session, resolved).await {
        Ok(_) => Ok(Told::Accepted),
        Err(InputError::Refused(Refusal::Stale(Stale::Decided { by, decision, at }))) => {
            let (by, decision, at) =
                (by.id.as_str().to_owned(), decision.to_string(), at.to_string());
            Ok(Told::Stale { by, decision, at })
        }
        Err(error) => Err(error.into()),
    }
}

async fn is_settled(store: &Store, args: &DuelArgs) -> anyhow::Result<bool> {
    let call = store.call(args.session, args.call).await?;
    Ok(call.is_some_and(|call| call.stage == CallStage::Settled))
}
