//! What the tests of every dialect share: generators of canonical values, and checks.

use std::collections::BTreeSet;

use haft_core::tool::{
    Category, Concurrency, Consequence, DeclaredEffect, Definition, Display, Executor, Facets,
    FsAccess, Gate, Hook, Idempotency, Injected, InjectedKind, InterruptBehavior, Mode, Mutates,
    NotFor, Ownership, Precondition, ProcessUse, Reach, Redaction, Retention, Retry, Routing,
    Schema, Scope, Spend, Status, Streaming, Undo, UndoSource,
};
use haft_core::{
    ArtifactId, ArtifactRef, CallId, CallResult, ContentBlock, Directives, ErrorClass, Failure,
    Millis, Outcome, Output, Provenance, ProviderCallId, RequestedCall, Timestamp, ToolAlias,
    ToolName, Trust,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use crate::{Dialect, Kind, LiftError, Reading, ResultContext};

/// Any text that strict JSON takes.
fn text() -> impl Strategy<Value = String> {
    "[^\u{0}]{0,12}"
}

fn number() -> impl Strategy<Value = Value> {
    const SAFE: i64 = (1 << 53) - 1;
    prop_oneof![
        (-SAFE..=SAFE).prop_map(Value::from),
        any::<f64>().prop_map(|n| if n.is_finite() { Value::from(n) } else { Value::from(0.5) }),
    ]
}

/// Any JSON, with the words that dialects use among its keys.
pub(crate) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let words = [
        "value",
        "error",
        "data",
        "meta",
        "_meta",
        "usage",
        "success",
        "ok",
        "_haft",
        "content",
        "timestamp",
        "provider",
        "type",
        "result",
        "haft/canonical",
    ];
    prop_oneof![3 => select(words.to_vec()).prop_map(str::to_owned), 2 => "[a-z~/]{0,4}"]
}

pub(crate) fn json_object() -> impl Strategy<Value = Map<String, Value>> {
    btree_map(key(), json_value(), 0..4).prop_map(|map| map.into_iter().collect())
}

fn name() -> impl Strategy<Value = ToolName> {
    let start = select(&["", "get_", "delete_", "shell_", "update_"][..]);
    (start, "[a-z][a-z0-9_]{0,9}")
        .prop_map(|(start, rest)| format!("{start}{rest}").parse().unwrap())
}

/// Schemas as people write them: any order of keys, any white space.
fn schema() -> impl Strategy<Value = Schema> {
    let fixed = [
        r#"{"type":"object"}"#,
        r#"{ "type" : "object", "properties": {"z":{"type":"string"}, "a":{"enum":["x",1]}}, "required":["z"] }"#,
        r#"{"properties":{"n":{"minimum":1.50,"type":"number"}},"type":"object","additionalProperties":false}"#,
    ];
    let made =
        btree_map("[a-z]{1,4}", select(&["string", "number", "array"][..]), 0..3).prop_map(|map| {
            let members: Vec<_> =
                map.iter().map(|(key, kind)| format!(r#""{key}": {{"type":"{kind}"}}"#)).collect();
            format!(r#"{{"type":"object","properties":{{{}}}}}"#, members.join(","))
        });
    prop_oneof![select(fixed.to_vec()).prop_map(str::to_owned), made]
        .prop_map(|text| Schema::new(&text).unwrap())
}

fn reach() -> impl Strategy<Value = BTreeSet<Reach>> {
    btree_set(select(&[Reach::LocalMachine, Reach::Network, Reach::ExternalService][..]), 0..3)
}

fn fs() -> impl Strategy<Value = FsAccess> {
    let roots = || vec("/[a-z]{1,4}", 0..2);
    prop_oneof![
        Just(FsAccess::None),
        roots().prop_map(|roots| FsAccess::ReadOnly { roots }),
        roots().prop_map(|roots| FsAccess::ReadWrite { roots }),
    ]
}

fn facets() -> impl Strategy<Value = Facets> {
    let effects =
        [DeclaredEffect::SessionRead, DeclaredEffect::MemoryWrite, DeclaredEffect::SandboxExecute];
    (
        of(select(&[Mutates::None, Mutates::Bounded, Mutates::Irreversible][..])),
        of(reach()),
        of(fs()),
        of(select(&[ProcessUse::None, ProcessUse::Starts][..])),
        of(select(&[Spend::None, Spend::Possible][..])),
        of(select(&[Idempotency::Idempotent, Idempotency::Keyed, Idempotency::Unsafe][..])),
        of(select(&[Scope::Session, Scope::Shared][..])),
        btree_set(select(effects.to_vec()), 0..3),
    )
        .prop_map(|(mutates, reach, fs, process, spend, idempotency, scope, effects)| Facets {
            mutates,
            reach,
            fs,
            process,
            spend,
            idempotency,
            scope,
            effects,
        })
}

fn retry() -> impl Strategy<Value = Retry> {
    let on = btree_set(select(&ErrorClass::ALL[..]), 0..3);
    (1u32..5, 0u64..9000, 0u64..9000, on).prop_map(|(max_attempts, backoff, backoff_max, on)| {
        Retry { max_attempts, backoff: Millis(backoff), backoff_max: Millis(backoff_max), on }
    })
}

fn undo() -> impl Strategy<Value = Undo> {
    let source = prop_oneof![
        Just(UndoSource::Argument("/id".parse().unwrap())),
        Just(UndoSource::Result("".parse().unwrap())),
        json_value().prop_map(UndoSource::Literal),
    ];
    (name(), btree_map("[a-z]{1,4}", source, 0..2), 0u64..9000)
        .prop_map(|(tool, arguments, window)| Undo { tool, arguments, window: Millis(window) })
}

fn routing() -> impl Strategy<Value = Routing> {
    let near = (text(), name()).prop_map(|(case, instead)| NotFor { case, instead });
    (text(), text(), vec(near, 0..2), of(text()))
        .prop_map(|(does, use_when, not_for, source)| Routing { does, use_when, not_for, source })
}

/// Who runs a tool, and what stands before a call.
fn execution(base: Definition) -> impl Strategy<Value = Definition> {
    (
        select(&[Ownership::Managed, Ownership::Mcp, Ownership::Custom][..]),
        select(&[Executor::Server, Executor::Human, Executor::Client, Executor::Provider][..]),
        select(&[Gate::Unset, Gate::Auto, Gate::Ask, Gate::AskAlways, Gate::AskTwo][..]),
        btree_set(Just(Precondition::OutcomePass), 0..2),
        select(&[InterruptBehavior::Cancel, InterruptBehavior::Block][..]),
        select(&[Concurrency::Shared, Concurrency::Exclusive][..]),
        select(&[Streaming::Final, Streaming::Progress][..]),
        of(retry()),
        btree_set(select(&[Hook::Preview, Hook::Verify][..]), 0..2),
    )
        .prop_map(
            move |(
                ownership,
                executor,
                gate,
                preconditions,
                interrupt,
                concurrency,
                streaming,
                retry,
                hooks,
            )| {
                Definition {
                    ownership,
                    executor,
                    gate,
                    preconditions,
                    interrupt,
                    concurrency,
                    streaming,
                    retry: retry.unwrap_or_default(),
                    hooks,
                    ..base.clone()
                }
            },
        )
}

/// What a tool does, and how its calls are kept and shown.
fn classified(base: Definition) -> impl Strategy<Value = Definition> {
    let retention = prop_oneof![
        any::<u32>().prop_map(|turns| Retention::Age { turns }),
        any::<u32>().prop_map(|results| Retention::Count { results }),
        Just(Retention::NeverEvict),
    ];
    let secret = vec(select(&["/a", "/b/c", ""][..]), 0..2)
        .prop_map(|all| Redaction { secret: all.iter().map(|p| p.parse().unwrap()).collect() });
    (
        facets(),
        of(select(&Mode::ALL[..])),
        of(select(&[Category::Read, Category::Write, Category::Delete, Category::SideEffect][..])),
        of(select(&[Consequence::Low, Consequence::Medium, Consequence::High][..])),
        (1u64..90_000, 1u64..900_000, 1u64..90_000),
        retention,
        secret,
        (of(text()), of(text())).prop_map(|(label, detail)| Display { label, detail }),
        of(undo()),
    )
        .prop_map(
            move |(
                facets,
                mode,
                category,
                consequence,
                (run, wait, bytes),
                retention,
                redaction,
                display,
                undo,
            )| {
                Definition {
                    facets,
                    mode,
                    category,
                    consequence,
                    exec_timeout: Millis(run),
                    suspend_ttl: Millis(wait),
                    max_result_bytes: bytes,
                    retention,
                    redaction,
                    display,
                    undo,
                    ..base.clone()
                }
            },
        )
}

fn described() -> impl Strategy<Value = Definition> {
    let alias = "[A-Za-z][A-Za-z0-9_.-]{0,12}".prop_map(|text| ToolAlias::new(&text).unwrap());
    let kind = select(&[InjectedKind::State, InjectedKind::Secret, InjectedKind::RunId][..]);
    let injected = ("hidden_[a-z]{1,3}", kind).prop_map(|(name, kind)| Injected { name, kind });
    (
        (name(), text(), schema()),
        of(schema()),
        btree_map(select(&["openai", "anthropic", "mcp"][..]).prop_map(str::to_owned), alias, 0..3),
        select(&["1.0.0", "0.2.13", "3.0.0-beta.1"][..]),
        select(&[Status::Active, Status::Unlisted, Status::Deprecated, Status::Removed][..]),
        vec(text(), 0..3),
        vec(name(), 0..2),
        of(routing()),
        vec(injected, 0..2),
    )
        .prop_map(
            |(
                (name, description, schema),
                output_schema,
                aliases,
                version,
                status,
                tags,
                depends_on,
                routing,
                injected,
            )| {
                Definition {
                    output_schema,
                    aliases,
                    version: version.parse().unwrap(),
                    status,
                    tags,
                    depends_on,
                    routing,
                    injected,
                    ..Definition::new(name, description, schema)
                }
            },
        )
}

/// Any definition at all, sound or not.
pub(crate) fn definition() -> impl Strategy<Value = Definition> {
    described().prop_flat_map(execution).prop_flat_map(classified)
}

/// Any call at all.
pub(crate) fn call() -> impl Strategy<Value = RequestedCall> {
    ("[!-~]{1,20}", text(), json_object()).prop_map(|(id, name, arguments)| RequestedCall {
        provider_id: ProviderCallId::new(id).unwrap(),
        name,
        arguments,
    })
}

fn artifact() -> impl Strategy<Value = ArtifactRef> {
    (any::<u128>(), text(), 0u64..(1 << 53), of(text())).prop_map(
        |(id, media_type, bytes, title)| ArtifactRef {
            id: ArtifactId::from_bits(id),
            media_type,
            bytes,
            title,
        },
    )
}

fn output() -> impl Strategy<Value = Output> {
    let block = prop_oneof![
        3 => text().prop_map(|text| ContentBlock::Text { text }),
        1 => artifact().prop_map(|artifact| ContentBlock::Artifact { artifact }),
    ];
    (vec(block, 0..3), of(json_value()), vec(artifact(), 0..2))
        .prop_map(|(content, value, artifacts)| Output { content, value, artifacts })
}

fn failure() -> impl Strategy<Value = Failure> {
    let message = prop_oneof![
        text(),
        Just("[cancelled]".to_owned()),
        Just("Request was cancelled".to_owned())
    ];
    (select(&ErrorClass::ALL[..]), message, of(text()), of(json_value()))
        .prop_map(|(class, message, debug, partial)| Failure { class, message, debug, partial })
}

fn directives() -> impl Strategy<Value = Directives> {
    (of(any::<bool>()), of(any::<bool>()), of(text()), of(text())).prop_map(
        |(terminal, needs_followup, next_action, user_message)| Directives {
            terminal,
            needs_followup,
            next_action,
            user_message,
        },
    )
}

/// Any outcome at all.
pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    let result =
        prop_oneof![output().prop_map(CallResult::Ok), failure().prop_map(CallResult::Err),];
    let executor =
        select(&[Executor::Server, Executor::Human, Executor::Client, Executor::Provider][..]);
    let trust = select(&[Trust::Trusted, Trust::Untrusted][..]);
    let provenance = (executor, trust).prop_map(|(executor, trust)| Provenance { executor, trust });
    let times = (0i64..4_000_000_000_000, -9i64..90_000);
    (
        any::<u128>(),
        name(),
        any::<u32>(),
        times,
        result,
        directives(),
        provenance,
        of(json_value()),
        json_object(),
    )
        .prop_map(
            |(
                call,
                tool,
                attempt,
                (start, took),
                result,
                directives,
                provenance,
                provider_meta,
                extra,
            )| Outcome {
                call: CallId::from_bits(call),
                tool,
                attempt,
                started_at: Timestamp::from_ms(start),
                finished_at: Timestamp::from_ms(start + took),
                result,
                directives,
                provenance,
                provider_meta,
                extra,
            },
        )
}

/// Puts garbage in the place of one member of a body.
pub(crate) fn with_garbage(mut body: Value, at: proptest::sample::Index, garbage: &Value) -> Value {
    let n_members = body.as_object().map_or(1, |members| members.len().max(1));
    if let Value::Object(members) = &mut body
        && let Some(member) = members.values_mut().nth(at.index(n_members))
    {
        *member = garbage.clone();
    }
    body
}

/// The provider's id of the call that the tests speak of.
pub(crate) fn provider_id() -> ProviderCallId {
    ProviderCallId::new("toolu_1").unwrap()
}

pub(crate) fn artifact_ref() -> ArtifactRef {
    ArtifactRef {
        id: ArtifactId::from_bits(7),
        media_type: "text/plain".into(),
        bytes: 12,
        title: Some("log".into()),
    }
}

/// A result of `get_weather` by an untrusted client, with nothing in it.
pub(crate) fn plain_outcome() -> Outcome {
    Outcome {
        call: CallId::from_bits(1),
        tool: "get_weather".parse().unwrap(),
        attempt: 1,
        started_at: Timestamp::from_ms(1000),
        finished_at: Timestamp::from_ms(1250),
        result: CallResult::Ok(Output::default()),
        directives: Directives::default(),
        provenance: Provenance { executor: Executor::Client, trust: Trust::Untrusted },
        provider_meta: None,
        extra: Map::new(),
    }
}

pub(crate) fn definition_named(name: &str) -> Definition {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    Definition::new(name.parse().unwrap(), "Does something.", schema)
}

/// Reads a foreign definition from text.
pub(crate) fn lift_definition(dialect: Dialect, text: &str) -> Result<Definition, LiftError> {
    dialect.lift_definition(dialect.read(Kind::Definition, text.as_bytes())?, Reading::Foreign)
}

/// Reads a call from text.
pub(crate) fn lift_call(dialect: Dialect, text: &str) -> Result<RequestedCall, LiftError> {
    dialect.lift_call(dialect.read(Kind::Call, text.as_bytes())?)
}

/// Reads from text what an untrusted client returned.
pub(crate) fn lift_foreign(dialect: Dialect, text: &str) -> Result<Outcome, LiftError> {
    let context = ResultContext::of(&plain_outcome(), provider_id());
    dialect.lift_result(dialect.read(Kind::Result, text.as_bytes())?, &context, Reading::Foreign)
}

/// Reads our own projection of an outcome back, through text.
pub(crate) fn lift_own(dialect: Dialect, body: &Value, of: &Outcome) -> Result<Outcome, LiftError> {
    let context = ResultContext::of(of, provider_id());
    let body = dialect.read(Kind::Result, body.to_string().as_bytes())?;
    dialect.lift_result(body, &context, Reading::Own)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(read: Result<T, LiftError>, part: &str) {
    let error = read.unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[track_caller]
pub(crate) fn refused_definition(dialect: Dialect, text: &str, part: &str) {
    refused(lift_definition(dialect, text), part);
}

#[track_caller]
pub(crate) fn refused_call(dialect: Dialect, text: &str, part: &str) {
    refused(lift_call(dialect, text), part);
}

#[track_caller]
pub(crate) fn refused_result(dialect: Dialect, text: &str, part: &str) {
    refused(lift_foreign(dialect, text), part);
}
