//! Background loops that panic: they are counted and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_runtime::supervise;

use crate::house::{House, Visitor};

/// How often a loop panicked, by the server's own account.
async fn panics(ann: &Visitor, of: &str) -> u32 {
    let (_, page) = ann.text("GET", "/metrics", "").await;
    let sample = format!("haft_loop_panics_total{{loop=\"{of}\"}} ");
    let n = page.lines().find_map(|line| line.strip_prefix(&sample));
    n.unwrap_or_else(|| panic!("{of} is not counted: {page}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_panics_is_counted_and_started_again() {
    let house = House::start().await;
    let ann = house.admin().await;
    for of in ["heartbeat", "settling", "sweeper", "webhooks"] {
        assert_eq!(panics(&ann, of).await, 0, "{of}");
    }
    let n_runs = Arc::new(AtomicU32::new(0));
    let runs = Arc::clone(&n_runs);
    let panics_twice = move || {
        let n_before = runs.fetch_add(1, Ordering::SeqCst);
        async move { assert!(n_before >= 2, "a fault of this test") }
    };
    supervise(house.haft.store().clone(), "a loop of this test", panics_twice).await;
    assert_eq!(n_runs.load(Ordering::SeqCst), 3, "it is started again until it returns");
    assert_eq!(panics(&ann, "a loop of this test").await, 2);
}
