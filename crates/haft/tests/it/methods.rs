//! `#[tools]`: the methods of a value as its tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft::{
    CallResult, Output, Preview, Services, Tool, ToolContext, ToolError, json, tool, tools,
};

#[derive(Default)]
struct Desk {
    refunded: AtomicU32,
}

#[tools]
impl Desk {
    /// Refund a charge.
    #[tool(write, approve, preview = Self::refund_preview)]
    async fn refund(
        &self,
        /// Amount in cents
        cents: u32,
        limit: &u32,
    ) -> Result<u32, ToolError> {
        let total = self.refunded.fetch_add(cents, Ordering::Relaxed) + cents;
        if total > *limit { Err(ToolError::new("over the limit")) } else { Ok(total) }
    }

    /// Shows how much was refunded.
    #[tool(read, name = "refunded_total")]
    fn refunded(&self) -> u32 {
        self.refunded.load(Ordering::Relaxed)
    }

    #[cfg(any())]
    /// Is not there at all.
    #[tool(read)]
    fn absent(&self) -> NoSuchType {}

    async fn refund_preview(&self, cents: u32, _limit: &u32) -> Result<Preview, ToolError> {
        let total = self.refunded() + cents;
        let fingerprint = haft::Digest::of_json(&json!(total));
        Ok(Preview { fingerprint, targets: Vec::new(), diff: None, trouble: None })
    }
}

#[tokio::test]
async fn methods_share_their_value() {
    let desk = Arc::new(Desk::default());
    let tools = Desk::tools(Arc::clone(&desk));
    let names: Vec<_> = tools.iter().map(|tool| tool.definition().name.to_string()).collect();
    assert_eq!(names, ["refund", "refunded_total"]);
    let mut services = Services::default();
    services.insert(100u32);
    let context = ToolContext::detached(services).unwrap();
    let arguments = json!({"cents": 70}).as_object().unwrap().clone();
    let [refund, refunded] = &tools[..] else { panic!("two tools") };
    let first = refund.call(arguments.clone(), context.clone()).await.unwrap();
    assert_eq!(first.result, CallResult::Ok(Output::of_value(json!(70))));
    assert!(refund.preview(arguments.clone(), context.clone()).await.is_ok());
    let second = refund.call(arguments, context.clone()).await.unwrap_err();
    assert_eq!(second.to_string(), "over the limit");
    let seen = refunded.call(haft::ToolArguments::new(), context).await.unwrap();
    assert_eq!(seen.result, CallResult::Ok(Output::of_value(json!(140))));
    assert_eq!(desk.refunded(), 140);
}

struct Shelf<T>(Vec<T>);

#[tools(shelf_tools)]
impl<T: Clone + PartialEq + serde::Serialize> Shelf<T> {
    /// Counts how often a thing is on the shelf.
    #[tool(read)]
    fn count(&self, thing: T) -> usize {
        self.0.iter().filter(|held| **held == thing).count()
    }

    /// Shows the first thing.
    #[tool(read)]
    fn first(&self) -> Option<T> {
        self.0.first().cloned()
    }
}

#[tokio::test]
async fn a_generic_value_has_tools_too() {
    let tools = Arc::new(Shelf(vec![1u8, 2, 1])).shelf_tools();
    let [count, first] = &tools[..] else { panic!("two tools") };
    let context = ToolContext::detached(Services::default()).unwrap();
    let arguments = json!({"thing": 1}).as_object().unwrap().clone();
    let counted = count.call(arguments, context.clone()).await.unwrap();
    assert_eq!(counted.result, CallResult::Ok(Output::of_value(json!(2))));
    let first = first.call(haft::ToolArguments::new(), context).await.unwrap();
    assert_eq!(first.result, CallResult::Ok(Output::of_value(json!(1))));
}

#[test]
fn tools_of_functions_and_methods_go_together() {
    /// Ends the day.
    #[tool(write, idempotent)]
    fn close() {}

    let mut all: Vec<Arc<dyn Tool>> = Arc::new(Desk::default()).tools();
    all.push(Arc::new(close::tool()));
    assert_eq!(all.len(), 3);
}
