//! An append has one moment: what a session's state says of time is what its log says.

use std::time::Duration;

use haft_core::session::{Config, Driver as DrivenBy, Returned};
use haft_core::tool::{Definition, Gate, Mutates, Schema};
use haft_core::{Actor, CallResult, Millis, Output, Timestamp};
use haft_runtime::{Answer, Clock, FunctionTool, Haft, ManualClock, Tool};
use haft_store::{Store, Tenant, audit_sqlite};
use serde_json::{Map, json};

/// A tool that leaves no trace, and while which time passes.
fn slow_look(clock: &ManualClock) -> impl Tool {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new("look".parse().unwrap(), "Looks.", schema);
    definition.facets.mutates = Some(Mutates::None);
    definition.gate = Gate::Auto;
    let clock = clock.clone();
    FunctionTool::new(definition, move |_, _| {
        clock.advance(Millis(7));
        async { Ok(Returned::from(CallResult::Ok(Output::of_value(json!(true))))) }
    })
}

// Found by the fault table: the audit said of sound stores that a snapshot differs from its log.
#[tokio::test]
async fn time_that_passes_during_a_step_makes_no_difference_between_state_and_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let clock = ManualClock::at(Timestamp::from_ms(1_800_000_000_000));
    let builder = Haft::builder().clock(Clock::Manual(clock.clone())).tool(slow_look(&clock));
    let haft = builder.start(store.clone()).unwrap();
    let config = Config { driver: DrivenBy::Caller, ..Config::default() };
    let tenant = Tenant::new("acme").unwrap();
    let session = haft.open(tenant, config, Actor::system()).await.unwrap();
    // So many that the state is stored, too.
    for _ in 0..40 {
        let answer = haft.call(session, "look", Map::new()).await.unwrap();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }
    haft.shutdown(Duration::from_secs(5)).await;
    drop((haft, store));
    let report = audit_sqlite(directory.path()).unwrap();
    assert_eq!(report.findings, []);
}
