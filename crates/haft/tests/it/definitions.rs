//! What `#[tool]` declares: every option, against a definition written out.

use haft::definition::{Definition, Status, ToolSpec};
use haft::{
    Digest, JsonSchema, Preview, Services, Tool, ToolContext, ToolError, Verification, json, tool,
};
use serde::{Deserialize, Serialize};

/// A client of a weather service.
struct Http;
struct Db;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// In the asked unit
    degrees: f64,
}

/// Current weather for a city. Use when the user asks
/// about weather now.
///
/// # Errors
///
/// For programmers only.
#[tool(read, reach(network), output)]
async fn weather(
    /// City name
    city: String,
    /// Unit of the answer
    #[tool(default)]
    unit: Option<Unit>,
    _http: &Http,
    cx: &ToolContext,
) -> Result<Weather, ToolError> {
    cx.require_going()?;
    let warm = matches!(unit, Some(Unit::Fahrenheit)) || city == "Cairo";
    Ok(Weather { degrees: if warm { 70.0 } else { 21.0 } })
}

/// Cancel a refund.
#[tool(delete, key)]
fn cancel_refund(
    /// The refund
    refund: String,
) -> String {
    refund
}

/// Look up a refund.
#[tool(read, name = "find_refund")]
fn lookup(refund: String) -> String {
    refund
}

/// Refund a charge.
#[tool(
    external,
    approve,
    key,
    preview = refund_preview,
    verify = refund_verify,
    undo(tool = cancel_refund, window = "30m", args(refund = result("/id"), why = "undone")),
    timeout = "1m30s",
    suspend = "7d",
    retry(3, backoff = "1s", backoff_max = "10s", on(upstream, timeout)),
    exclusive,
    progress,
    spend,
    shared,
    consequence = high,
    tags("billing", "money"),
    version = "1.2.0",
    title = "Refund",
    use_when = "a customer is owed money back",
    not_for("looking at a refund" => lookup, "store credit" => "grant_credit"),
    source = "the payment provider",
    depends_on(lookup),
    interrupt = cancel
)]
async fn refund(
    /// Charge id
    charge: String,
    /// Amount in cents
    #[schemars(range(min = 1, max = 500_000))]
    cents: u32,
    /// The customer's card token
    #[tool(secret, name = "card-token")]
    token: String,
    /// Why
    #[tool(default = "requested")]
    reason: String,
    db: &Db,
    http: Option<&Http>,
) -> Result<String, ToolError> {
    drop((cents, token, reason, db, http));
    Ok(charge)
}

async fn refund_preview(
    charge: String,
    cents: u32,
    _token: String,
    _reason: String,
    _db: &Db,
    _http: Option<&Http>,
) -> Result<Preview, ToolError> {
    let fingerprint = Digest::of_json(&json!(charge));
    let diff = Some(format!("-{cents}"));
    Ok(Preview { fingerprint, targets: vec![charge], diff, trouble: None })
}

async fn refund_verify(
    _charge: String,
    _cents: u32,
    _token: String,
    _reason: String,
    _db: &Db,
    _http: Option<&Http>,
) -> Verification {
    Verification::Absent
}

#[track_caller]
fn assert_declares(tool: &impl Tool, golden: &str) {
    let definition = tool.definition();
    ToolSpec::new(definition.clone()).unwrap();
    let found = serde_json::to_string_pretty(&definition).unwrap();
    assert_eq!(found, golden.trim_end(), "{found}");
}

#[test]
fn a_function_declares_its_definition() {
    assert_declares(&weather::tool(), include_str!("../golden/weather.json"));
}

#[test]
fn every_option_stands_in_the_definition() {
    assert_declares(&refund::tool(), include_str!("../golden/refund.json"));
    assert_declares(&cancel_refund::tool(), include_str!("../golden/cancel_refund.json"));
}

#[test]
fn the_name_of_a_tool_can_be_had_without_the_tool() {
    assert_eq!((weather::NAME, lookup::NAME), ("weather", "find_refund"));
    assert_eq!(lookup::tool().definition().name.as_str(), "find_refund");
}

// S3-5, S3-6: what the runtime supplies is declared, and nowhere in the schema.
#[test]
fn s3_5_s3_6_references_are_not_in_the_schema() {
    for definition in [weather::tool().definition(), refund::tool().definition()] {
        assert!(!definition.injected.is_empty());
        for injected in &definition.injected {
            assert!(!definition.input_schema.names_property(&injected.name), "{injected:?}");
        }
    }
}

#[test]
fn a_tool_knows_which_services_it_needs() {
    let needs = refund::tool().needs();
    let mut services = Services::default();
    assert!(!needs.iter().all(|need| services.has(need)));
    services.insert(Db);
    assert!(needs.iter().all(|need| services.has(need)), "{needs:?}");
}

/// Removes everything.
#[tool(delete, approve = always, define = retired)]
fn purge() {}

fn retired(mut definition: Definition) -> Definition {
    definition.status = Status::Deprecated;
    definition
}

#[test]
fn a_function_may_have_the_last_word_on_a_definition() {
    assert_eq!(purge::tool().definition().status, Status::Deprecated);
}

/// Lists a directory.
#[tool(read, approve = never, reach(machine), process, files(read("/srv", "/data")))]
fn list() {}

#[test]
fn files_and_processes_are_facets() {
    let definition = list::tool().definition();
    assert_eq!(
        serde_json::to_value(&definition.facets).unwrap(),
        json!({
            "mutates": "none",
            "reach": ["local_machine"],
            "fs": {"access": "read_only", "roots": ["/srv", "/data"]},
            "process": "starts",
        })
    );
}
