//! Requests that fail, stall and are sent again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_agent::provider::{Api, Provider, ProviderConfig};
use haft_core::{ErrorClass, Failure};
use haft_runtime::CancellationToken;
use serde_json::json;

use crate::fake::{ALL, ANTHROPIC, CHAT, End, Fake, Scene};

async fn ask(config: ProviderConfig) -> Result<haft_agent::provider::Reply, Failure> {
    let provider = Provider::new(config).unwrap();
    provider.ask(&json!({"model": "m"}), &CancellationToken::new()).await
}

#[tokio::test]
async fn every_api_is_asked_at_its_place_with_its_key() {
    let places = ["post /v1/messages ", "post /chat/completions ", "post /responses "];
    for ((api, text), place) in ALL.into_iter().zip(places) {
        let fake = Fake::start([Scene::stream(text)]).await;
        assert_eq!(ask(fake.config(api)).await.unwrap().calls.len(), 2);
        let head = &fake.requests()[0].head;
        assert!(head.starts_with(place), "{head}");
        let key = if api == Api::AnthropicMessages { "x-api-key: " } else { "bearer " };
        assert!(head.contains(&format!("{key}sk-hush")), "{head}");
    }
}

#[tokio::test]
async fn before_the_first_token_a_busy_provider_is_asked_again_as_often_as_allowed() {
    let busy = || Scene::error(529, "retry-after-ms: 1\r\n", "{\"error\":{\"message\":\"busy\"}}");
    let fake = Fake::start([busy(), busy(), Scene::stream(CHAT)]).await;
    assert!(ask(fake.config(Api::OpenAiChat)).await.is_ok());
    assert_eq!(fake.requests().len(), 3);
    let fake = Fake::start([busy(), busy(), busy(), Scene::stream(CHAT)]).await;
    let failure = ask(fake.config(Api::OpenAiChat)).await.unwrap_err();
    assert_eq!((failure.class, fake.requests().len()), (ErrorClass::RateLimited, 3));
    assert!(failure.message.contains("529") && failure.message.contains("busy"));
}

#[tokio::test]
async fn a_provider_that_wants_too_long_a_wait_is_not_waited_for() {
    let busy = Scene::error(429, "retry-after: 3600\r\n", "{}");
    let fake = Fake::start([busy, Scene::stream(CHAT)]).await;
    let failure = ask(fake.config(Api::OpenAiChat)).await.unwrap_err();
    assert_eq!((failure.class, fake.requests().len()), (ErrorClass::RateLimited, 1));
}

#[tokio::test]
async fn a_date_to_wait_for_is_read_by_the_providers_own_clock() {
    let until = |then: &str| {
        let told = format!("date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: {then}\r\n");
        Scene::error(429, &told, "{}")
    };
    for (then, n_requests) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 2),
        ("Sat, 05 Nov 1994 08:49:37 GMT", 2),
        ("Mon, 07 Nov 1994 08:49:37 GMT", 1),
        ("Sunday, whenever", 2),
    ] {
        let fake = Fake::start([until(then), Scene::stream(CHAT)]).await;
        let answer = ask(fake.config(Api::OpenAiChat)).await;
        assert_eq!(
            (answer.is_ok(), fake.requests().len()),
            (n_requests == 2, n_requests),
            "{then}"
        );
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_not_sent_again() {
    for (status, class) in [(401, ErrorClass::Auth), (400, ErrorClass::Upstream)] {
        let fake = Fake::start([Scene::error(status, "", "no"), Scene::stream(CHAT)]).await;
        let failure = ask(fake.config(Api::OpenAiChat)).await.unwrap_err();
        assert_eq!((failure.class, fake.requests().len()), (class, 1));
        assert!(!format!("{failure:?}").contains("sk-hush"));
    }
}

#[tokio::test]
async fn an_overload_reported_before_any_token_is_tried_again_and_after_one_left_to_the_session() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
    let fake = Fake::start([Scene::stream(error), Scene::stream(ANTHROPIC)]).await;
    assert!(ask(fake.config(Api::AnthropicMessages)).await.is_ok());
    let half = &ANTHROPIC[..ANTHROPIC.find("event: content_block_stop").unwrap()];
    for broken in [half.to_owned(), format!("{half}{error}")] {
        let fake = Fake::start([Scene::stream(broken), Scene::stream(ANTHROPIC)]).await;
        assert!(ask(fake.config(Api::AnthropicMessages)).await.is_err());
        assert_eq!(fake.requests().len(), 1, "after the first token that is the session's to do");
    }
}

#[tokio::test]
async fn a_stalled_stream_is_given_up_and_a_cancelled_one_at_once() {
    let half = &CHAT[..CHAT.find("call_B2").unwrap()];
    let fake = Fake::start([Scene::stream(half).then(End::Stall)]).await;
    let mut config = fake.config(Api::OpenAiChat);
    config.timeouts.idle = Duration::from_millis(30);
    assert_eq!(ask(config).await.unwrap_err().class, ErrorClass::Timeout);
    let fake = Fake::start([Scene::stream(half).then(End::Stall)]).await;
    let provider = Provider::new(fake.config(Api::OpenAiChat)).unwrap();
    let stop = CancellationToken::new();
    let (body, asked) = (json!({}), stop.clone());
    let asking = provider.ask(&body, &asked);
    let (answer, ()) = tokio::join!(asking, async {
        while fake.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    });
    assert_eq!(answer.unwrap_err().class, ErrorClass::Cancelled);
}

#[tokio::test]
async fn a_provider_that_only_says_that_it_lives_is_given_up_too() {
    let fake = Fake::start([Scene::stream("").then(End::KeepAlive)]).await;
    let mut config = fake.config(Api::OpenAiChat);
    // Long enough for the request to arrive on a busy machine.
    config.timeouts.total = Duration::from_secs(3);
    assert_eq!(ask(config).await.unwrap_err().class, ErrorClass::Timeout);
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn nobody_at_the_address_is_an_upstream_failure() {
    let config = ProviderConfig::new(Api::OpenAiChat, "http://127.0.0.1:1/v1");
    let config = ProviderConfig {
        retry: haft_agent::provider::Retry { attempts: 1, ..config.retry },
        ..config
    };
    let failure = ask(config).await.unwrap_err();
    assert_eq!(failure.class, ErrorClass::Upstream);
    assert!(failure.message.contains("127.0.0.1"), "{}", failure.message);
}

#[tokio::test]
async fn every_frame_is_heard_as_it_came() {
    let fake = Fake::start([Scene::stream(CHAT)]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut config = fake.config(Api::OpenAiChat);
    let listener = Arc::clone(&heard);
    config.on_frame = Some(Arc::new(move |frame| listener.lock().unwrap().push(frame.clone())));
    ask(config).await.unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!((heard.len(), heard.last().unwrap().data.as_str()), (11, "[DONE]"));
}

#[tokio::test]
async fn a_provider_over_tls_is_asked_when_it_is_trusted_and_told_nothing_when_not() {
    let (fake, certificate) = Fake::start_tls(Scene::stream(CHAT)).await;
    let mut config = fake.config(Api::OpenAiChat);
    config.more_roots.push(certificate);
    assert_eq!(ask(config).await.unwrap().calls.len(), 2);
    let (fake, stranger) = Fake::start_tls(Scene::stream(CHAT)).await;
    let (other, _) = Fake::start_tls(Scene::stream(CHAT)).await;
    let mut config = other.config(Api::OpenAiChat);
    config.retry.attempts = 1;
    config.more_roots.push(stranger);
    let failure = ask(config).await.unwrap_err();
    assert_eq!(failure.class, ErrorClass::Upstream);
    assert!(failure.message.contains("certificate"), "{}", failure.message);
    assert!(fake.requests().is_empty() && other.requests().is_empty());
}

#[tokio::test]
async fn a_key_is_never_shown() {
    let fake = Fake::start([]).await;
    let provider = Provider::new(fake.config(Api::AnthropicMessages)).unwrap();
    assert!(!format!("{provider:?}").contains("sk-hush"));
    let mut config = fake.config(Api::OpenAiChat);
    config.api_key = Some(haft_agent::provider::ApiKey::new("sk-\nhush"));
    let error = Provider::new(config).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hush"));
}
