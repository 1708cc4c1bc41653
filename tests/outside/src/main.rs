//! Writes a log, and reads one that the binary `haft` wrote or went on with.
//!
//! This program sorts the members of JSON objects and the binary keeps their order. Each must
//! accept the other's logs.

use std::path::Path;
use std::time::Duration;

use haft::testing::user;
use haft::{
    Answer, CallId, Config, Driver, Haft, Response, SessionId, Store, Tenant, Value, json, tool,
};

type Failure = Box<dyn std::error::Error>;

/// Moves an arm. Use when it stands in the wrong place.
#[tool(external, approve, suspend = "7d")]
fn move_arm(
    /// Target in metres
    z: f64,
    /// Speed in metres per second
    a: f64,
) -> String {
    format!("moved to {z} at {a}")
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ordered = json!({"z": 1, "a": 2}).to_string();
    if ordered != r#"{"a":2,"z":1}"# {
        return Err(format!("`haft` changed the order of this program's JSON: {ordered}").into());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", directory] => write(Path::new(directory)).await,
        ["deny", directory, session, call] => {
            deny(Path::new(directory), session.parse()?, call.parse()?).await
        }
        ["verify", directory, session] => verify(Path::new(directory), session.parse()?).await,
        _ => Err("expected `write DIR`, `deny DIR SESSION CALL` or `verify DIR SESSION`".into()),
    }
}

/// Leaves a call that waits, with floats in its arguments that are easily read wrong.
async fn write(directory: &Path) -> Result<(), Failure> {
    let haft = open(directory)?;
    let config = Config { driver: Driver::Caller, ..Config::default() };
    let session = haft.open(Tenant::new("default")?, config, user("carla")).await?;
    let Value::Object(arguments) = json!({"z": 31.245270191439438, "a": 121.48791951161945}) else {
        return Err("these are arguments".into());
    };
    let Answer::Waiting(wait) = haft.call(session, "move_arm", arguments).await? else {
        return Err("somebody is asked first".into());
    };
    println!("{session} {}", wait.call);
    haft.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Goes on with a session that another program wrote.
async fn deny(directory: &Path, session: SessionId, call: CallId) -> Result<(), Failure> {
    let haft = open(directory)?;
    haft.resolve(session, call, user("ann"), Response::Deny { note: None }).await?;
    haft.shutdown(Duration::from_secs(5)).await;
    drop(haft);
    verify(directory, session).await
}

/// Checks the whole chain, and folds the log into a state, which checks the arguments.
async fn verify(directory: &Path, session: SessionId) -> Result<(), Failure> {
    let store = Store::open_sqlite(directory)?;
    let head = store.verify(session).await?;
    let loaded = store.load(session).await?.ok_or("the session is there")?;
    if loaded.head.seq != head.seq {
        return Err(format!("expected {} entries, folded {}", head.seq, loaded.head.seq).into());
    }
    println!("{} entries, whole", head.seq);
    Ok(())
}

fn open(directory: &Path) -> Result<Haft, Failure> {
    Ok(Haft::builder().tool(move_arm::tool()).start(Store::open_sqlite(directory)?)?)
}
