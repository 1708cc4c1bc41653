//! What a call costs, declared beside its function, and held against a limit.

use haft::definition::{Cost, Spend, Told};
use haft::{
    Actor, ActorId, Allowance, Answer, CallError, Config, Driver, Haft, Store, Tenant, Tool, Value,
    json, tool,
};
use serde::Deserialize;

/// Pays a bill. Use when one is due.
#[tool(external, approve = never, cost(amount = cents, unit = currency))]
fn pay(cents: u32, #[tool(name = "cur/rency")] currency: String) -> Value {
    json!({"paid": cents, "in": currency})
}

#[derive(Deserialize, haft::JsonSchema)]
struct Order {
    cents: u32,
}

/// Orders something. Use when stock is low.
#[tool(external, approve = never, cost(amount = argument("/order/cents"), unit = "EUR"))]
fn order(order: Order) -> u32 {
    order.cents
}

/// Sends a text message. Use when someone must be told at once.
#[tool(external, approve = never, cost(amount = 0.25, unit = "EUR"))]
fn text_message(to: String) -> String {
    to
}

fn cost(tool: &impl Tool) -> Cost {
    let definition = tool.definition();
    assert_eq!(definition.facets.spend, Some(Spend::Possible));
    definition.cost.unwrap()
}

#[test]
fn the_price_is_found_where_the_attribute_says() {
    let Cost { amount, unit } = cost(&pay::tool());
    assert_eq!(amount, Told::Field("/cents".parse().unwrap()));
    assert_eq!(unit, Told::Field("/cur~1rency".parse().unwrap()));
    assert_eq!(cost(&order::tool()).amount, Told::Field("/order/cents".parse().unwrap()));
    let Cost { amount, unit } = cost(&text_message::tool());
    assert_eq!(amount, Told::Always("0.25".parse().unwrap()));
    assert_eq!(unit, Told::Always("EUR".parse().unwrap()));
}

#[tokio::test]
async fn a_limit_is_held_against_what_calls_cost_by_their_declaration() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let haft = Haft::builder().tool(pay::tool()).tool(order::tool()).tool(text_message::tool());
    let haft = haft.start(store).unwrap();
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    let allowed = [("EUR".parse().unwrap(), "10".parse().unwrap())];
    config.limits.spend_per_session = Some(Allowance::from_iter(allowed));
    let ann = Actor::user(ActorId::new("ann").unwrap());
    let session = haft.open(Tenant::new("acme").unwrap(), config, ann).await.unwrap();
    let call = async |tool: &str, arguments: Value| {
        haft.call(session, tool, arguments.as_object().cloned().unwrap()).await
    };
    let done = |answer: Result<Answer, CallError>| matches!(answer, Ok(Answer::Done(_)));
    assert!(done(call("pay", json!({"cents": 6, "cur/rency": "EUR"})).await));
    let dearer = call("order", json!({"order": {"cents": 4}})).await;
    assert!(done(dearer), "6 and 4 of 10");
    let over = call("text_message", json!({"to": "bob"})).await.unwrap_err().to_string();
    assert!(over.contains("EUR"), "{over}");
    let other = call("pay", json!({"cents": 1, "cur/rency": "USD"})).await.unwrap_err();
    assert!(other.to_string().contains("USD"), "{other}");
}
