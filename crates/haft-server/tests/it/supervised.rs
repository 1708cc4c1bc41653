//! Background loops that panic: they are counted, and what they do is done nonetheless.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_runtime::{Boundary, Observer, Settings};
use haft_store::NodeId;
use serde_json::json;

use crate::house::{House, Visitor};
use crate::threads::until;

/// Panics as often as it is told to, where something is decided and not yet durable.
fn faulty(n_faults: &Arc<AtomicU32>) -> Settings {
    let left = Arc::clone(n_faults);
    let mut settings = Settings::new(NodeId::new("node-1").unwrap());
    settings.observer = Observer::new(move |boundary| {
        let less = |n: u32| n.checked_sub(1);
        let is_due = boundary == Boundary::Decided
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        assert!(!is_due, "a fault of this test");
    });
    settings
}

/// How often a loop panicked, by the server's own account.
async fn panics(ann: &Visitor, of: &str) -> u32 {
    let (_, page) = ann.text("GET", "/metrics", "").await;
    let sample = format!("haft_loop_panics_total{{loop=\"{of}\"}} ");
    let n = page.lines().find_map(|line| line.strip_prefix(&sample));
    n.unwrap_or_else(|| panic!("{of} is not counted: {page}")).parse().unwrap()
}

// The request that gives a grant dies, and so does the loop that finishes what it began; the
// loop starts again and finishes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_panics_is_counted_and_started_again() {
    let n_faults = Arc::new(AtomicU32::new(0));
    let house = House::with(|builder| builder.settings(faulty(&n_faults)), &[]).await;
    let ann = house.admin().await;
    for of in ["heartbeat", "settling", "sweeper", "webhooks"] {
        assert_eq!(panics(&ann, of).await, 0, "{of}");
    }
    let (session, call) = ann.call("refund").await;
    n_faults.store(2, Ordering::SeqCst);
    let giver = house.admin().await;
    let giving =
        async move { giver.ask("POST", "/haft/v1/grants", &json!({"tool": "refund"})).await };
    // It may get no answer, which is the point.
    drop(tokio::spawn(giving).await);
    let path = format!("/haft/v1/sessions/{session}/calls/{call}");
    let settled = until(&ann, &path, |known| known["stage"] == "settled").await;
    assert_eq!(settled["decided"]["decision"], "granted", "{settled}");
    assert!(panics(&ann, "settling").await >= 1);
    assert_eq!(n_faults.load(Ordering::SeqCst), 0);
}
