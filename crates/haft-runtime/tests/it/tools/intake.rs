//! What comes from outside is masked, checked, judged and bounded alike, whoever says it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_core::session::{Config, Event, Preview, ProviderResult, Refusal, Returned, Stale};
use haft_core::tool::{Executor, Hook, Mode};
use haft_core::{
    CallId, CallResult, Digest, Directives, ErrorClass, Failure, Outcome, Output, ProviderCallId,
};
use haft_runtime::testing::{TestNode, object, user};
use haft_runtime::{
    Answer, AskedCall, HaftBuilder, InputError, Invocation, Judgement, ModelAnswer, ResolveError,
    Response, SealingKey, Tool, ToolArguments, ToolContext, ToolError, ToolFuture, Verifier,
};
use serde_json::json;

use super::kit::{
    asks, builder, definition, done, eventually, failure, function, node, ok, schema, script,
};

const SECRET: &str = "hunter2-CANARY";

/// Will not pass a result that says `poison`.
struct NoPoison;

impl Verifier for NoPoison {
    fn judge<'a>(
        &'a self,
        call: Invocation<'a>,
        output: &'a Output,
    ) -> ToolFuture<'a, Result<Judgement, ToolError>> {
        let poisoned = format!("{output:?}").contains("poison");
        let why = format!("poisoned, given {:?}", call.arguments);
        Box::pin(async move { Ok(if poisoned { Judgement::Block(why) } else { Judgement::Pass }) })
    }
}

fn guarded() -> HaftBuilder {
    builder().verifier(NoPoison).secret(SECRET)
}

fn client() -> HaftBuilder {
    guarded().declare(definition("locate", |definition| {
        definition.executor = Executor::Client;
        definition.max_result_bytes = 2_000;
    }))
}

async fn proposed(node: &TestNode, tool: &str) -> (haft_core::SessionId, CallId) {
    let session = node.session().await;
    let call = node.haft().propose(session, tool, object(json!({}))).await.unwrap();
    assert!(matches!(node.haft().wait(session, call).await.unwrap(), Answer::Waiting(_)));
    (session, call)
}

async fn client_says(result: CallResult, directives: Directives) -> Outcome {
    let node = node(client());
    let (session, call) = proposed(&node, "locate").await;
    let response = Response::Result { result, directives };
    node.haft().resolve(session, call, user("tab"), response).await.unwrap();
    let outcome = done(node.haft().wait(session, call).await.unwrap());
    let log = format!("{:?}", node.record(session).await);
    assert!(!log.contains(SECRET), "{log}");
    assert!(log.len() < 100_000, "{} bytes are in the log", log.len());
    outcome
}

// D22, S4-28: a client's word passes the same judges as a tool's.
#[tokio::test]
async fn d22_a_clients_result_is_judged_masked_and_bounded() {
    let poison = CallResult::Ok(Output::of_value(json!("poison")));
    let withheld = client_says(poison, Directives::default()).await;
    let CallResult::Err(failure) = withheld.result else { panic!("it was passed on") };
    assert_eq!(failure.class, ErrorClass::Policy);
    assert!(failure.message.contains("withheld"), "{}", failure.message);

    let large = SECRET.repeat(10_000);
    let directives = Directives {
        next_action: Some(large.clone()),
        user_message: Some(large.clone()),
        ..Directives::default()
    };
    client_says(CallResult::Ok(Output::of_text(large.clone())), directives.clone()).await;
    let failure = Failure {
        debug: Some(large.clone()),
        partial: Some(json!(large)),
        ..Failure::new(ErrorClass::ToolError, large.clone())
    };
    client_says(CallResult::Err(failure), directives).await;
}

// D22: what a person says is judged too; they may say something else.
#[tokio::test]
async fn d22_a_persons_answer_is_judged_and_masked() {
    let ask_user = definition("ask_user", |definition| definition.executor = Executor::Human);
    let node = node(guarded().declare(ask_user));
    let (session, call) = proposed(&node, "ask_user").await;
    let answer = |text: &str| Response::Answer { value: json!(text) };
    let haft = node.haft();
    let refused = haft.resolve(session, call, user("ann"), answer("poison")).await.unwrap_err();
    assert!(refused.to_string().contains("withheld"), "{refused}");
    haft.resolve(session, call, user("ann"), answer(&format!("it is {SECRET}"))).await.unwrap();
    let outcome = done(haft.wait(session, call).await.unwrap());
    assert_eq!(outcome.result, CallResult::Ok(Output::of_value(json!("it is [redacted]"))));
}

/// An answer whose provider searched several times, with these results.
fn searched(results: Vec<CallResult>) -> ModelAnswer {
    let id = |n: usize| ProviderCallId::new(format!("s{n}")).unwrap();
    let asked = |n| AskedCall {
        provider_id: id(n),
        name: "web_search".into(),
        arguments: format!(r#"{{"n":{n}}}"#),
    };
    let calls = (0..results.len()).map(asked).collect();
    let meta = Some(json!({"trace": SECRET.repeat(1_000)}));
    let results = results.into_iter().enumerate();
    let provider_results = results.map(|(n, result)| ProviderResult {
        provider_id: id(n),
        result,
        meta: meta.clone(),
    });
    ModelAnswer { calls, provider_results: provider_results.collect(), ..ModelAnswer::default() }
}

// D22, S4-7: a provider's result too.
#[tokio::test]
async fn d22_a_providers_result_is_judged_masked_and_bounded() {
    let search = definition("web_search", |definition| {
        definition.executor = Executor::Provider;
        definition.mode = Some(Mode::External);
        definition.max_result_bytes = 2_000;
        definition.output_schema = Some(schema(&json!({"type": "string"})));
    });
    let said = |value| CallResult::Ok(Output::of_value(value));
    let large = json!(SECRET.repeat(10_000));
    let model =
        script().answers(searched(vec![said(json!("poison")), said(json!(7)), said(large)]));
    let node = node(guarded().declare(search).model(model));
    let session = node.session_with(Config::default()).await;
    let content = vec![haft_core::ContentBlock::Text { text: "go".into() }];
    node.haft().say(session, user("ann"), content).await.unwrap();
    let outcomes = eventually(|| async {
        let events = node.record(session).await.events().to_vec();
        let finished: Vec<Outcome> = events
            .into_iter()
            .filter_map(|event| match event {
                Event::CallFinished { outcome } => Some(outcome),
                _ => None,
            })
            .collect();
        (finished.len() == 3).then_some(finished)
    })
    .await;
    let CallResult::Err(blocked) = &outcomes[0].result else { panic!("{:?}", outcomes[0]) };
    assert_eq!(blocked.class, ErrorClass::Policy);
    let CallResult::Err(misfit) = &outcomes[1].result else { panic!("{:?}", outcomes[1]) };
    assert!(misfit.message.contains("not what it declares"), "{}", misfit.message);
    let log = format!("{:?}", node.record(session).await);
    assert!(!log.contains(SECRET) && log.len() < 60_000, "{} bytes", log.len());
}

/// Shows more than anyone reads, and hangs when it is told to.
struct Edit {
    hangs: bool,
    stopped: Arc<AtomicBool>,
}

impl Tool for Edit {
    fn definition(&self) -> haft_core::tool::Definition {
        definition("edit", |definition| {
            asks(definition);
            definition.hooks.insert(Hook::Preview);
        })
    }

    fn call(
        &self,
        _: ToolArguments,
        _: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async { ok(json!("edited")) })
    }

    fn preview(
        &self,
        _: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        Box::pin(async move {
            if self.hangs {
                context.stop().cancelled().await;
                self.stopped.store(true, Ordering::SeqCst);
            }
            let targets = vec![SECRET.repeat(1_000); 1_000];
            let diff = Some(SECRET.repeat(100_000));
            Ok(Preview { fingerprint: Digest::of_bytes(b"1"), targets, diff, trouble: None })
        })
    }
}

#[tokio::test]
async fn a_preview_is_masked_and_bounded() {
    let node = node(guarded().tool(Edit { hangs: false, stopped: Arc::default() }));
    let (session, call) = proposed(&node, "edit").await;
    let Some(Answer::Waiting(waiting)) = node.haft().answer(session, call).await.unwrap() else {
        panic!("it waits")
    };
    let preview = waiting.preview.unwrap();
    assert!(preview.targets.last().unwrap().contains("744 more"), "{:?}", preview.targets.last());
    assert!(preview.diff.as_ref().unwrap().contains("the whole is artifact"));
    let shown = format!("{preview:?}");
    assert!(!shown.contains(SECRET) && shown.len() < 400_000, "{} bytes", shown.len());
}

// What nobody waits for any more is told to stop.
#[tokio::test]
async fn cancelling_reaches_a_preview() {
    let stopped = Arc::new(AtomicBool::new(false));
    let node = node(builder().tool(Edit { hangs: true, stopped: Arc::clone(&stopped) }));
    let (session, haft) = (node.session().await, node.haft());
    let call = haft.propose(session, "edit", object(json!({}))).await.unwrap();
    haft.cancel(session, call, user("ann"), None).await.unwrap();
    let cancelled = failure(haft.wait(session, call).await.unwrap());
    assert_eq!(cancelled.class, ErrorClass::Cancelled);
    eventually(|| async { stopped.load(Ordering::SeqCst).then_some(()) }).await;
    haft.shutdown(Duration::from_secs(1)).await;
}

// Nothing of what is said about a call that is not there is looked at, so nothing is recorded.
#[tokio::test]
async fn a_resolution_of_no_call_of_the_turn_is_stale_and_leaves_no_trace() {
    let node = node(builder().tool(function("charge", asks, |_, _| ok(json!(1)))));
    let (session, haft) = (node.session().await, node.haft());
    let before = node.record(session).await.events().len();
    let yes = || Response::Approve { arguments: None, note: None, grant: None };
    let unknown = CallId::from_bits(haft.driver().fresh().unwrap());
    let stale = haft.resolve(session, unknown, user("ann"), yes()).await.unwrap_err();
    let ResolveError::Input(InputError::Refused(Refusal::Stale(Stale::Unknown))) = stale else {
        panic!("{stale}")
    };
    assert_eq!(node.record(session).await.events().len(), before);

    let call = haft.propose(session, "charge", object(json!({}))).await.unwrap();
    haft.wait(session, call).await.unwrap();
    let id = haft_core::ResolutionId::from_bits(haft.driver().fresh().unwrap());
    haft.resolve_as(session, call, None, id, user("ann"), yes()).await.unwrap();
    haft.wait(session, call).await.unwrap();
    for _ in 0..2 {
        haft.propose(session, "charge", object(json!({}))).await.unwrap();
    }
    let again = haft.resolve_as(session, call, None, id, user("ann"), yes()).await.unwrap();
    assert_eq!(again, haft_core::session::Reply::AlreadyRecorded);
    let late = haft.resolve(session, call, user("bob"), yes()).await.unwrap_err();
    assert!(late.to_string().contains("ann"), "{late}");
}

// D17: a number that cannot be read may be a part of a secret.
#[tokio::test]
async fn d17_what_cannot_be_read_is_not_quoted_when_it_may_be_secret() {
    let pay = function(
        "pay",
        |definition| {
            definition.input_schema =
                schema(&json!({"type": "object", "properties": {"card": {"type": "integer"}}}));
            definition.redaction.secret.push("/card".parse().unwrap());
        },
        |_, _| ok(json!("paid")),
    );
    let arguments = r#"{"card": 4111111111111111111111}"#;
    let provider_id = ProviderCallId::new("c1".to_owned()).unwrap();
    let asked = AskedCall { provider_id, name: "pay".into(), arguments: arguments.into() };
    let model =
        script().answers(ModelAnswer { calls: vec![asked], ..ModelAnswer::default() }).says("done");
    let node = node(builder().tool(pay).sealing_key(SealingKey::new([7; 32])).model(model));
    let session = node.session_with(Config::default()).await;
    let content = vec![haft_core::ContentBlock::Text { text: "go".into() }];
    node.haft().say(session, user("ann"), content).await.unwrap();
    let rejected = eventually(|| async {
        let events = node.record(session).await.events().to_vec();
        events.into_iter().find(|event| matches!(event, Event::CallRejected { .. }))
    })
    .await;
    assert!(!format!("{rejected:?}").contains("4111"), "{rejected:?}");
}
