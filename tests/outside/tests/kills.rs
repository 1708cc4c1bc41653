//! What a user of the library can do to their own tools: kill the node at every boundary.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use haft::testing::{Boundary, TestNode, TestPlace, object};
use haft::{Answer, Haft, Millis, SessionId, json, tool};

static CHARGES: AtomicU32 = AtomicU32::new(0);

/// Charges a card. Use when the user has agreed to the price.
#[tool(delete, approve = never)]
fn charge(
    /// Amount in cents
    cents: u32,
) -> String {
    CHARGES.fetch_add(1, Ordering::SeqCst);
    format!("charged {cents}")
}

// A tool of another crate, run through a death between any two steps of the runtime.
#[test]
fn a_charge_is_never_made_twice_by_itself() {
    for boundary in Boundary::ALL {
        for nth in 1.. {
            CHARGES.store(0, Ordering::SeqCst);
            let (place, opened) = (TestPlace::new(), OnceLock::new());
            let tools = || Haft::builder().tool(charge::tool());
            let lived = place.live_until(tools(), boundary, nth, async |node: TestNode| {
                let session = node.session().await;
                opened.set(session).unwrap();
                node.haft().call(session, "charge", object(json!({"cents": 5}))).await.unwrap();
            });
            place.advance(Millis::from_secs(60)); // until the dead node's lease is over
            let after = opened.get().and_then(|session: &SessionId| {
                place.live(tools(), async |node: TestNode| {
                    let call = *node.record(*session).await.calls().first()?;
                    node.haft().driver().wake(*session);
                    Some(node.haft().wait(*session, call).await.unwrap())
                })
            });
            let charges = CHARGES.load(Ordering::SeqCst);
            match after {
                Some(Answer::Done(outcome)) => assert_eq!((outcome.is_ok(), charges), (true, 1)),
                Some(Answer::InDoubt(_)) => assert!(charges <= 1, "never by itself a second time"),
                Some(Answer::Waiting(_)) => panic!("it asks nobody"),
                None => assert_eq!(charges, 0, "what was not recorded did not run"),
            }
            if lived.is_some() {
                break; // the boundary is not passed that often
            }
        }
    }
}
