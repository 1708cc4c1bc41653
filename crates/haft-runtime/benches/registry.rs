//! What finding, checking and offering tools costs, beside a floor in the same run.
//!
//! The floor of admitting a call is the same schema crate's check of the same value.

#![expect(clippy::print_stdout, reason = "the ratios are what a reader wants")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use divan::Bencher;
use haft_core::permission::Exposure;
use haft_core::session::Returned;
use haft_core::tool::{Definition, Schema};
use haft_runtime::registry::Registry;
use haft_runtime::{FunctionTool, ToolArguments, ToolContext, ToolError};
use serde_json::{Map, Value, json};

fn main() {
    divan::main();
    // Tests run this once, unoptimised, to see that it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city"],
        "additionalProperties": false,
    })
}

fn arguments() -> Map<String, Value> {
    let value = json!({"city": "Oslo", "unit": "celsius", "days": 3});
    value.as_object().cloned().unwrap_or_default()
}

/// Registers so many tools; the last one is `get_x{count}`.
fn registry(count: usize) -> Registry {
    let registry = Registry::new();
    let schema = Schema::from_value(&schema()).unwrap_or_else(|error| panic!("{error}"));
    for n in 1..=count {
        let name = format!("get_x{n}").parse().unwrap_or_else(|error| panic!("{error}"));
        let description = format!("Current weather of region {n}. Use when asked about it.");
        let definition = Definition::new(name, description, schema.clone());
        let tool = FunctionTool::new(definition, |_: ToolArguments, _: ToolContext| async {
            Err::<Returned, _>(ToolError::new("never run"))
        });
        registry.register(tool).unwrap_or_else(|error| panic!("{error}"));
    }
    registry
}

fn last(count: usize) -> String {
    format!("get_x{count}")
}

#[divan::bench]
fn floor_validate(bencher: Bencher) {
    let validator = jsonschema::validator_for(&schema()).unwrap_or_else(|error| panic!("{error}"));
    let value = Value::Object(arguments());
    bencher.bench_local(|| validator.is_valid(black_box(&value)));
}

#[divan::bench]
fn check(bencher: Bencher) {
    let registry = registry(1);
    let tool = registry.get("get_x1").unwrap_or_else(|| panic!("registered above"));
    let value = Value::Object(arguments());
    bencher.bench_local(|| tool.input().check(black_box(&value)));
}

#[divan::bench]
fn admit(bencher: Bencher) {
    let registry = registry(1);
    let tool = registry.get("get_x1").unwrap_or_else(|| panic!("registered above"));
    bencher.with_inputs(arguments).bench_local_values(|arguments| tool.admit(arguments));
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn lookup(bencher: Bencher, count: usize) {
    let (registry, name) = (registry(count), last(count));
    bencher.bench_local(|| registry.get(black_box(&name)));
}

#[divan::bench(args = [10, 1_000, 10_000])]
fn advertise_again(bencher: Bencher, count: usize) {
    let (registry, exposure) = (registry(count), Exposure::default());
    bencher.bench_local(|| registry.advertise(black_box(&exposure)));
}

/// An exposure that was not asked for before: all but one of the tools.
#[divan::bench(args = [10, 1_000, 10_000], sample_count = 30)]
fn advertise_anew(bencher: Bencher, count: usize) {
    let registry = registry(count);
    let mut n = 0;
    bencher
        .with_inputs(|| {
            n = n % count + 1;
            let name = last(n).parse().unwrap_or_else(|error| panic!("{error}"));
            Exposure { deny: [name].into(), ..Exposure::default() }
        })
        .bench_local_refs(|exposure| registry.advertise(exposure));
}

/// The first offer after a tool was registered.
#[divan::bench(args = [10, 1_000, 10_000], sample_count = 30)]
fn advertise_after_a_change(bencher: Bencher, count: usize) {
    let registry = registry(count);
    let one = || registry.remove(&last(count)).and_then(|tool| tool.code().cloned());
    bencher
        .with_inputs(|| {
            let code = one().unwrap_or_else(|| panic!("registered above"));
            registry.register_arc(code).unwrap_or_else(|error| panic!("{error}"));
            Exposure::default()
        })
        .bench_local_refs(|exposure| registry.advertise(exposure));
}

#[divan::bench(args = [1_000, 10_000], sample_count = 30)]
fn search(bencher: Bencher, count: usize) {
    let (registry, exposure) = (registry(count), Exposure::default());
    bencher.bench_local(|| registry.search(black_box("weather of region 77"), &exposure, 10));
}

/// The fastest of many rounds: the machine is noisy, and never makes anything faster.
fn fastest(mut round: impl FnMut()) -> Duration {
    const CALLS: u32 = 1_000;
    let timed = (0..200).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| round());
        start.elapsed() / CALLS
    });
    timed.min().unwrap_or_default()
}

fn ratios() {
    let compiled = jsonschema::validator_for(&schema()).unwrap_or_else(|error| panic!("{error}"));
    let value = Value::Object(arguments());
    let (small, large) = (registry(10), registry(10_000));
    let tool = small.get("get_x1").unwrap_or_else(|| panic!("registered above"));
    let floor = fastest(|| {
        black_box(compiled.is_valid(black_box(&value)));
    });
    let check = fastest(|| drop(black_box(tool.input().check(black_box(&value)))));
    let (first, last) = (last(10), last(10_000));
    let few = fastest(|| drop(black_box(small.get(black_box(&first)))));
    let many = fastest(|| drop(black_box(large.get(black_box(&last)))));
    let exposure = Exposure::default();
    let offer = fastest(|| drop(black_box(large.advertise(black_box(&exposure)))));
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!("check {check:?}, floor {floor:?}: {:.2}×", ratio(check, floor));
    println!("lookup of 10,000 {many:?}, of 10 {few:?}: {:.2}×", ratio(many, few));
    println!("offer of 10,000 remembered: {offer:?}");
}
