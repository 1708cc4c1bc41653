//! What comes out: bounded, masked, kept, and pointed at.

use std::path::Path;

use haft_core::session::Returned;
use haft_core::tool::Definition;
use haft_core::{CallResult, ContentBlock, ErrorClass, JsonPointer, Output};
use haft_runtime::testing::{TestNode, object, user};
use haft_runtime::{Answer, Response, SealingKey, ToolContext, ToolError};
use serde_json::{Value, json};

use super::kit::{
    Effects, asks, builder, definition, done, echo, failure, function, node, ok, schema, value,
    waiting, yes,
};

fn small(definition: &mut Definition) {
    definition.max_result_bytes = 300;
}

// S3-21: large outputs become artifacts; the ends stay, and the whole can be read.
#[tokio::test]
async fn s3_21_a_large_output_is_bounded_and_kept_whole() {
    let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let whole = text.clone();
    let long = function("long", small, move |_, _| {
        Ok(Returned::from(CallResult::Ok(Output::of_text(text.clone()))))
    });
    let node = node(builder().tool(long));
    let (session, haft) = (node.session().await, node.haft());
    let outcome = done(haft.call(session, "long", object(json!({}))).await.unwrap());
    let CallResult::Ok(output) = outcome.result else { panic!() };
    let shown = output.first_text().unwrap();
    assert!(shown.starts_with("line 0\n") && shown.ends_with("line 999\n"), "{shown}");
    assert!(shown.len() < 500 && shown.contains(&output.artifacts[0].id.to_string()), "{shown}");
    let id = output.artifacts[0].id;
    assert_eq!(haft.artifacts().read(session, id).await.unwrap().body, whole.as_bytes());
    let slice = haft.artifacts().slice(session, id, 500, 2).await.unwrap();
    assert_eq!((slice.lines, slice.n_lines), (vec!["line 499".into(), "line 500".into()], 1000));
    let found = haft.artifacts().grep(session, id, "line 77", 3).await.unwrap();
    let lines: Vec<_> = found.iter().map(|found| found.line).collect();
    assert_eq!(lines, [78, 771, 772]);
    let other = node.session().await;
    assert!(haft.artifacts().read(other, id).await.is_err(), "another session's is unknown");
}

// Every executor: a person's or a client's result is bounded like a tool's.
#[tokio::test]
async fn a_large_answer_is_bounded_too() {
    let ask = definition("ask_user", |definition| {
        small(definition);
        definition.executor = haft_core::tool::Executor::Human;
    });
    let node = node(builder().declare(ask));
    let (session, haft) = (node.session().await, node.haft());
    let call = haft.propose(session, "ask_user", object(json!({}))).await.unwrap();
    haft.wait(session, call).await.unwrap();
    let long = Response::Answer { value: json!("x".repeat(5000)) };
    haft.resolve(session, call, user("ann"), long).await.unwrap();
    let CallResult::Ok(output) = done(haft.wait(session, call).await.unwrap()).result else {
        panic!()
    };
    assert_eq!((output.value, output.artifacts.len()), (None, 1));
    assert!(output.content.iter().filter_map(ContentBlock::as_text).all(|text| text.len() < 500));
}

// Arguments by reference: recorded as the reference, looked up when the call runs.
#[tokio::test]
async fn an_argument_can_point_at_an_output_that_was_kept() {
    let rows = function("rows", small, |_, _| {
        ok(json!({"rows": (0..200).map(|n| json!({"id": n})).collect::<Vec<_>>()}))
    });
    let sum = |definition: &mut Definition| {
        definition.input_schema = schema(&json!({
            "type": "object",
            "properties": {"row": {"type": "object", "required": ["id"]}},
            "required": ["row"],
        }));
    };
    let node = node(builder().tool(rows).tool(echo(&Effects::default(), "one", sum)));
    let (session, haft) = (node.session().await, node.haft());
    let outcome = done(haft.call(session, "rows", object(json!({}))).await.unwrap());
    let CallResult::Ok(output) = outcome.result else { panic!() };
    let id = output.artifacts[0].id;
    let pointer: JsonPointer = "/rows/7".parse().unwrap();
    let pointed = haft.artifacts().pointed(session, id, &pointer).await.unwrap();
    assert_eq!(pointed, json!({"id": 7}));
    let reference = |at: &str| object(json!({"row": {"$ref": format!("{id}#{at}")}}));
    let got = value(haft.call(session, "one", reference("/rows/7")).await.unwrap());
    assert_eq!(got, json!({"row": {"id": 7}}));
    let misfit = failure(haft.call(session, "one", reference("/rows")).await.unwrap());
    assert_eq!(misfit.class, ErrorClass::InvalidArgs);
    let nothing = failure(haft.call(session, "one", reference("/no")).await.unwrap());
    assert!(nothing.message.contains("has nothing at `/no`"), "{nothing:?}");
    let other = node.session().await;
    let foreign = failure(haft.call(other, "one", reference("/rows/7")).await.unwrap());
    assert!(foreign.message.contains("belongs to this session"), "{foreign:?}");
}

// However often a large output is pointed at, it does not become a larger argument than is taken.
#[tokio::test]
async fn references_stand_for_no_more_than_a_call_may_carry() {
    let text = "x".repeat(1 << 20);
    let large = function("large", |_| {}, move |_, _| ok(json!({ "text": text })));
    let any = |definition: &mut Definition| {
        definition.input_schema = schema(&json!({"type": "object"}));
    };
    let effects = Effects::default();
    let huge = waiting(
        "huge",
        |_| {},
        |_, context: ToolContext| async move {
            let body = format!("[{}1]", "1,".repeat(9 << 20));
            let kept = context.keep("huge.json", "application/json", body.into_bytes()).await?;
            ok(json!(kept.id))
        },
    );
    let node = node(builder().tool(large).tool(huge).tool(echo(&effects, "take", any)));
    let (session, haft) = (node.session().await, node.haft());
    let outcome = done(haft.call(session, "large", object(json!({}))).await.unwrap());
    let CallResult::Ok(output) = outcome.result else { panic!() };
    let reference = json!({"$ref": format!("{}#/text", output.artifacts[0].id)});
    let pointing = |n: usize| object(json!({ "list": vec![reference.clone(); n] }));
    done(haft.call(session, "take", pointing(8)).await.unwrap());
    let much = failure(haft.call(session, "take", pointing(40)).await.unwrap());
    assert!(much.message.contains("bytes together"), "{}", much.message);
    let id = value(haft.call(session, "huge", object(json!({}))).await.unwrap());
    let whole = object(json!({"it": {"$ref": format!("{}#/0", id.as_str().unwrap())}}));
    let refused = failure(haft.call(session, "take", whole).await.unwrap());
    assert!(refused.message.contains("only in one of at most"), "{}", refused.message);
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_result_that_is_not_what_the_tool_declares_is_not_passed_on() {
    let declared = |definition: &mut Definition| {
        definition.output_schema =
            Some(schema(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})));
    };
    let node = node(builder().tool(function("odd", declared, |_, _| ok(json!({"n": "one"})))));
    let failure = failure(node.call("odd", json!({})).await.unwrap());
    assert_eq!(failure.class, ErrorClass::ToolError);
    assert!(failure.message.contains("the tool ran") && failure.message.contains("/n"));
}

fn login(definition: &mut Definition) {
    asks(definition);
    definition.input_schema = schema(&json!({
        "type": "object",
        "properties": {"user": {"type": "string"}, "token": {"type": "string"}},
    }));
    definition.redaction.secret = vec!["/token".parse().unwrap()];
}

/// Whether any file of the store holds a text.
fn found_in(directory: &Path, needle: &str) -> bool {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().any(|path| match path.is_dir() {
        true => found_in(&path, needle),
        false => {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        }
    })
}

const CANARY: &str = "CANARY-7f3a9c";

fn sealed_node() -> TestNode {
    node(builder().sealing_key(SealingKey::new([7; 32])).secret("known-CANARY-7f3a9c").tool(
        function("login", login, |arguments, cx| {
            let token = arguments["token"].as_str().unwrap().to_owned();
            cx.progress(json!({ "using": "known-CANARY-7f3a9c" }));
            match token.as_str() {
                "edited" => ok(json!({"user": arguments["user"], "length": 6})),
                _ => Err(ToolError::new(format!("{token} is refused"))
                    .with_debug(format!("tried {token}"))
                    .with_partial(json!({ "token": token, "length": token.len() }))),
            }
        }),
    ))
}

// D17, redaction-013: a secret argument runs as it is and is nowhere else.
#[tokio::test]
async fn d17_a_secret_argument_is_in_no_event_no_result_and_no_file() {
    let node = sealed_node();
    let (session, haft) = (node.session().await, node.haft());
    let mut live = haft.live().subscribe();
    let arguments = object(json!({"user": "ann", "token": CANARY}));
    let call = haft.propose(session, "login", arguments).await.unwrap();
    let Answer::Waiting(shown) = haft.wait(session, call).await.unwrap() else { panic!() };
    assert_eq!(Value::Object(shown.arguments), json!({"user": "ann", "token": "[redacted]"}));
    haft.resolve(session, call, user("ann"), yes()).await.unwrap();
    let failure = failure(haft.wait(session, call).await.unwrap());
    assert_eq!(failure.message, "[redacted] is refused");
    assert_eq!(failure.partial.unwrap()["length"], CANARY.len(), "it ran with the real one");
    while let Ok(event) = live.try_recv() {
        assert!(!format!("{event:?}").contains(CANARY), "{event:?}");
    }
    assert!(!found_in(node.place().directory(), CANARY));
    assert!(found_in(node.place().directory(), "is refused"), "the search finds what is there");
}

// What the approver was not shown stays what it was, unless they write something else.
#[tokio::test]
async fn an_edit_keeps_the_secret_that_it_leaves_masked() {
    let node = sealed_node();
    let (session, haft) = (node.session().await, node.haft());
    for (written, expected) in [("[redacted]", None), ("edited", Some(6))] {
        let arguments = object(json!({"user": "ann", "token": CANARY}));
        let call = haft.propose(session, "login", arguments).await.unwrap();
        haft.wait(session, call).await.unwrap();
        let edit = object(json!({"user": "bob", "token": written}));
        let yes = Response::Approve { arguments: Some(edit), note: None, grant: None };
        haft.resolve(session, call, user("ann"), yes).await.unwrap();
        let answer = haft.wait(session, call).await.unwrap();
        match expected {
            Some(length) => assert_eq!(value(answer), json!({"user": "bob", "length": length})),
            None => assert_eq!(failure(answer).partial.unwrap()["length"], CANARY.len()),
        }
    }
}
