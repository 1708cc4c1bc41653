//! A refund that waits for a yes, survives a crash, runs once, and is taken back.
//!
//! `cargo run -q -p haft --example refund`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::atomic::{AtomicU32, Ordering};

use haft::testing::{TestNode, TestPlace, object, user};
use haft::{Answer, Haft, HaftBuilder, Millis, Response, ToolContext, json, tool};
use serde::Serialize;

/// What happened outside.
static PAID: AtomicU32 = AtomicU32::new(0);

// [readme]
#[derive(Serialize)]
struct Refund {
    id: String,
}

/// Refund a charge. Use when a customer asks for money back.
#[tool(external, approve, undo(tool = claim_back, window = "30m", args(refund = result("/id"))))]
async fn refund(
    /// Charge id
    charge: String,
    /// Amount in cents
    #[schemars(range(min = 1))]
    cents: u32,
    cx: &ToolContext, // supplied by the runtime, never in the schema
) -> Refund {
    PAID.fetch_add(cents, Ordering::SeqCst);
    Refund { id: format!("{charge}/{}", cx.attempt()) }
}
// [/readme]

/// Claim a refund back.
#[tool(external, approve)]
async fn claim_back(
    /// Refund id
    refund: String,
) -> String {
    PAID.store(0, Ordering::SeqCst);
    format!("claimed {refund} back")
}

fn desk() -> HaftBuilder {
    Haft::builder().tool(refund::tool()).tool(claim_back::tool())
}

fn yes() -> Response {
    Response::Approve { arguments: None, note: None, grant: None }
}

fn main() {
    let place = TestPlace::new();
    let (session, call) = place.live(desk(), async |node: TestNode| {
        let session = node.session().await;
        let arguments = object(json!({"charge": "ch_1", "cents": 500}));
        let Ok(call) = node.haft().propose(session, "refund", arguments).await else {
            panic!("the call is sound")
        };
        let Ok(Answer::Waiting(waiting)) = node.haft().wait(session, call).await else {
            panic!("it waits for a yes")
        };
        println!("refund waits for {:?}; paid: {}", waiting.kind, PAID.load(Ordering::SeqCst));
        (session, call)
    });
    println!("the process dies; another one opens the same store");
    place.advance(Millis::from_secs(60));
    place.live(desk(), async |node: TestNode| {
        let haft = node.haft();
        for who in ["ann", "bob"] {
            match haft.resolve(session, call, user(who), yes()).await {
                Ok(_) => println!("{who} approves"),
                Err(error) => println!("{who} clicks too: {error}"),
            }
        }
        let Ok(Answer::Done(_)) = haft.wait(session, call).await else { panic!("it ran") };
        println!("done; paid: {}", PAID.load(Ordering::SeqCst));
        let Ok(Answer::Waiting(undo)) = haft.undo(session, call, user("ann")).await else {
            panic!("taking it back asks too")
        };
        println!("{} waits for {:?}", undo.tool, undo.kind);
        let Ok(_) = haft.resolve(undo.session, undo.call, user("ann"), yes()).await else {
            panic!("nobody else decided")
        };
        let Ok(Answer::Done(_)) = haft.undo(session, call, user("ann")).await else {
            panic!("it was taken back")
        };
        println!("taken back; paid: {}", PAID.load(Ordering::SeqCst));
    });
}
