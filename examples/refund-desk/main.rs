//! A refund desk. Two people must agree to a refund, the process dies inside the payment, a
//! person finds out what became of it, and in the end the refund is taken back.
//!
//! `cargo run -q -p haft --example refund-desk`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "it starts itself again, to die in a tool")]

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haft::testing::{object, user};
use haft::{
    Answer, CallId, Config, Driver, Haft, Reply, Response, SessionId, Store, Tenant, ToolContext,
    Verdict, json, tool,
};
use serde::Serialize;

type Failed = Box<dyn Error>;

/// The other side: what is entered here has happened, whatever becomes of us.
struct Bank {
    ledger: PathBuf,
}

impl Bank {
    fn enter(&self, line: &str) -> io::Result<()> {
        let mut ledger = OpenOptions::new().create(true).append(true).open(&self.ledger)?;
        writeln!(ledger, "{line}")?;
        ledger.sync_all()
    }

    fn entries(&self) -> String {
        let ledger = fs::read_to_string(&self.ledger).unwrap_or_default();
        ledger.lines().collect::<Vec<_>>().join(", ")
    }
}

// [readme]
#[derive(Serialize)]
struct Refund {
    id: String,
}

/// Refunds a charge. Use when a customer is owed money.
#[tool(external, approve = two, undo(tool = claim_back, window = "30m", args(refund = result("/id"))))]
async fn refund(
    /// Charge id
    charge: String,
    /// Amount in cents
    #[schemars(range(min = 1))]
    cents: u32,
    bank: &Bank,
    cx: &ToolContext,
) -> io::Result<Refund> {
    bank.enter(&format!("paid {cents} for {charge}"))?;
    if cx.attempt() == 1 {
        std::process::abort(); // the money is gone, and nobody was told
    }
    Ok(Refund { id: format!("re_{charge}") })
}

/// Claims a refund back.
#[tool(external, approve)]
async fn claim_back(
    /// Refund id
    refund: String,
    bank: &Bank,
) -> io::Result<String> {
    bank.enter(&format!("claimed {refund} back"))?;
    Ok(format!("{refund} is back"))
}
// [/readme]

fn desk(place: &Path) -> Result<Haft, Failed> {
    let haft = Haft::builder()
        .tool(refund::tool())
        .tool(claim_back::tool())
        .service(Bank { ledger: place.join("ledger") });
    Ok(haft.start(Store::open_sqlite(place)?)?)
}

fn yes() -> Response {
    Response::Approve { arguments: None, note: None, grant: None }
}

/// The first life: a refund is asked for, ann and bob agree, and the process dies in it.
async fn first_life(place: &Path) -> Result<(), Failed> {
    let haft = desk(place)?;
    let config = Config { driver: Driver::Caller, ..Config::default() };
    let session = haft.open(Tenant::new("shop")?, config, user("carla")).await?;
    let arguments = object(json!({"charge": "ch_1", "cents": 90_000}));
    let call = haft.propose(session, "refund", arguments).await?;
    fs::write(place.join("call"), format!("{session}\n{call}\n"))?;
    haft.wait(session, call).await?;
    println!("carla asks for a refund; it waits for two people");
    for who in ["ann", "ann", "bob"] {
        match haft.resolve(session, call, user(who), yes()).await {
            Ok(Reply::Endorsed) => println!("{who} says yes; it waits for another person"),
            Ok(_) => println!("{who} says yes; it runs"),
            Err(error) => println!("{who} tries again: {error}"),
        }
    }
    haft.wait(session, call).await?;
    Ok(())
}

fn asked(place: &Path) -> Result<(SessionId, CallId), Failed> {
    let text = fs::read_to_string(place.join("call"))?;
    let (session, call) = text.trim().split_once('\n').ok_or("no call was asked for")?;
    Ok((session.parse()?, call.parse()?))
}

/// The second life: what happened is not known, until somebody looks at the bank.
async fn second_life(place: &Path) -> Result<(), Failed> {
    let haft = desk(place)?;
    let bank = Bank { ledger: place.join("ledger") };
    let (session, call) = asked(place)?;
    let Answer::InDoubt(_) = haft.wait(session, call).await? else {
        return Err("expected a call in doubt".into());
    };
    println!("the refund is in doubt; the bank says: {}", bank.entries());
    let happened = Verdict::Happened { value: Some(json!({"id": "re_ch_1"})) };
    haft.resolve(session, call, user("ann"), Response::Settle(happened)).await?;
    haft.wait(session, call).await?;
    println!("ann settles it: it happened; the bank says: {}", bank.entries());

    let Answer::Waiting(undo) = haft.undo(session, call, user("bob")).await? else {
        return Err("expected that taking it back asks too".into());
    };
    println!("bob takes it back; {} waits for a yes", undo.tool);
    haft.resolve(undo.session, undo.call, user("ann"), yes()).await?;
    haft.wait(undo.session, undo.call).await?;
    println!("ann says yes; the bank says: {}", bank.entries());
    haft.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    if let Some(place) = std::env::args_os().nth(1) {
        return first_life(Path::new(&place)).await;
    }
    let place = tempfile::tempdir()?;
    let first = Command::new(std::env::current_exe()?).arg(place.path()).status()?;
    println!("the process died: {first}");
    second_life(place.path()).await
}
