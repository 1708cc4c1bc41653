//! Two real processes approve the same call at the same moment, again and again.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use haft_core::session::{
    CallsProposed, Check, Config, Driver as DrivenBy, Input, Opened, PolicyFacts, Proposal,
    SoundCall, State, decide,
};
use haft_core::tool::{Definition, Gate, Mutates, Schema, ToolSpec};
use haft_core::{Actor, ActorId, Arguments, CallId, ProviderCallId, SessionId, Timestamp};
use haft_store::{NewSession, Store, Tenant};
use serde_json::Value;

use crate::cluster::{self, Cluster};

const ROUNDS: u128 = 50;

fn charge() -> ToolSpec {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new("charge".parse().unwrap(), "Charges.", schema);
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.gate = Gate::Ask;
    ToolSpec::new(definition).unwrap()
}

/// Parks one call in a session of its own.
async fn park(store: &Store, bits: u128) -> (SessionId, CallId) {
    let (session, call) = (SessionId::from_bits(bits), CallId::from_bits(bits));
    let milliseconds = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let at = Timestamp::from_ms(i64::try_from(milliseconds).unwrap());
    let config = Config { driver: DrivenBy::Caller, ..Config::default() };
    let by = Actor::user(ActorId::new("nobody").unwrap());
    let opened = Input::Opened(Opened { session, config, by });
    let opened = decide(&State::Unopened, at, opened).unwrap();
    let sound = SoundCall {
        contract: Arc::clone(charge().contract()),
        arguments: Arguments::plain(serde_json::Map::new()),
        policy: PolicyFacts::default(),
        grants: vec![],
    };
    let provider_id = ProviderCallId::new("toolu_1").unwrap();
    let name = "charge".to_owned();
    let proposal = Proposal { id: call, provider_id, name, check: Check::Sound(sound) };
    let proposed = Input::CallsProposed(CallsProposed { calls: vec![proposal] });
    let proposed = decide(&opened.state, at, proposed).unwrap();
    let events = [opened.events, proposed.events].concat();
    let tenant = Tenant::new("acme").unwrap();
    let new = NewSession { session, tenant, at, events, owner: None, request: None };
    store.create_session(&new).await.unwrap();
    (session, call)
}

struct Duellist {
    process: Child,
    told: BufReader<ChildStdout>,
}

impl Duellist {
    fn new(directory: &Path, url: Option<&str>, ids: (SessionId, CallId), by: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.arg("torture-duel").arg("--directory").arg(directory).args(["--by", by]);
        command.args(["--session", &ids.0.to_string(), "--call", &ids.1.to_string()]);
        if let Some(url) = url {
            command.args(["--database-url", url]);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(process.stdout.take().unwrap());
        let mut ready = String::new();
        told.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { process, told }
    }

    fn go(&mut self) {
        self.process.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    fn told(mut self) -> Value {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        assert!(self.process.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

fn fight(directory: &Path, url: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let calls = runtime.block_on(async {
        let store = match url {
            Some(url) => Store::connect_postgres(url).await.unwrap(),
            None => Store::open_sqlite(&directory.join("store")).unwrap(),
        };
        let mut calls = Vec::new();
        for bits in 1..=ROUNDS {
            calls.push(park(&store, bits).await);
        }
        calls
    });
    drop(runtime);
    let mut n_wins = [0, 0];
    for ids in &calls {
        let mut ann = Duellist::new(directory, url, *ids, "ann");
        let mut bob = Duellist::new(directory, url, *ids, "bob");
        ann.go();
        bob.go();
        let told = [ann.told(), bob.told()];
        let winner = told.iter().position(|told| told["told"] == "accepted").expect("a winner");
        let stale = &told[1 - winner];
        assert_eq!(stale["told"], "stale", "{told:?}");
        assert_eq!(stale["by"], ["ann", "bob"][winner], "the other one is told who it was");
        assert_eq!(stale["decision"], "approve");
        assert!(stale["at"].as_str().is_some_and(|at| !at.is_empty()), "and when");
        n_wins[winner] += 1;
    }
    println!("ann won {} times, bob {}", n_wins[0], n_wins[1]);
    let effects = std::fs::read_to_string(directory.join("effects.log")).unwrap();
    let mut effects: Vec<_> = effects.lines().collect();
    effects.sort_unstable();
    let mut expected: Vec<_> = calls.iter().map(|(_, call)| call.to_string()).collect();
    expected.sort_unstable();
    assert_eq!(effects, expected, "one effect each time");
}

// D6: one winner, one who is told who and when, one effect. A directory takes one process at a
// time, so that there the two race for the directory.
#[test]
fn d6_two_processes_that_approve_at_the_same_moment_on_sqlite_run_it_once() {
    let directory = tempfile::tempdir().unwrap();
    fight(directory.path(), None);
}

#[test]
fn d6_two_processes_that_approve_at_the_same_moment_on_postgresql_run_it_once() {
    if cluster::is_left_out() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::private();
    fight(directory.path(), Some(&cluster.url()));
}
