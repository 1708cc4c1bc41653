//! Calls of mounted servers that are slow, many or large: what waits in Haft, what was sent.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::session::Event;
use haft_core::{CallResult, ErrorClass, Millis, SessionId};
use haft_mcp::{Health, MountConfig, MountError};
use haft_runtime::Answer;
use haft_runtime::testing::{TestPlace, user};
use serde_json::json;

use crate::mounts::{Host, name, peer, scratch, text};

/// What the peer did, in order.
fn done(counter: &Path) -> Vec<String> {
    let done = std::fs::read_to_string(counter).unwrap_or_default();
    done.lines().map(str::to_owned).collect()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn names(host: &Host, session: SessionId) -> Vec<&'static str> {
    let entries = host.node.haft().store().entries(session, 0, 100).await.unwrap();
    entries.iter().map(|entry| Event::name(&entry.event().unwrap())).collect()
}

// W3: a server that needs longer to start than the probe of the current revision is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_slowly_is_mounted() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let slow = peer(&counter, &[("START_DELAY", "11.5"), ("TOOLS", "echo")]);
    let report = host.mounts.mount(MountConfig::new(name("slow"), slow), &user("ann")).await;
    assert_eq!(report.unwrap().tools["echo"], name("slow_echo"));
    assert_eq!(host.mounts.find(&name("slow")).unwrap().health, Health::Up);
    let answer = host.answer(host.session, "slow_echo", json!({"text": "at last"})).await;
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    assert_eq!(text(&outcome), "at last");
}

// W3: how long it may take is the mount's to say.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_longer_than_its_mount_allows_is_given_up() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("slow"), peer(&counter, &[("START_DELAY", "60")]));
    config.connect_timeout = Duration::from_secs(1);
    let failed = host.mounts.mount(config, &user("ann")).await;
    let Err(MountError::Unreachable { message, .. }) = failed else { panic!("{failed:?}") };
    assert!(message.contains("`start_timeout`"), "{message}");
}

// E3: 60 calls at once at a server that does one after the other, each with less time than all of
// them take: every one is sent once, within its own time.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_calls_at_once_are_queued_here_and_all_done() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "nap")]));
    config.timeout = Millis::from_secs(3);
    config.max_concurrent = 2;
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let host = Arc::new(host);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let host = Arc::clone(&host);
        calls.spawn(async move {
            let session = host.node.session().await;
            (session, host.answer(session, "peer_nap", json!({"text": "0.12"})).await)
        });
    }
    let pools = host.node.haft().driver().pools();
    until("they are queued, visibly", || {
        pools.loads().iter().any(|load| load.name == "mcp/peer" && load.n_queued > 10)
    })
    .await;
    while let Some(ended) = calls.join_next().await {
        let (session, answer) = ended.unwrap();
        let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(outcome.finished_at.since(outcome.started_at) < Millis::from_secs(3));
        let names = names(&host, session).await;
        assert_eq!(names.iter().filter(|name| **name == "call.started").count(), 1);
    }
    assert_eq!(done(&counter).len(), 60, "each took effect once");
    let load = pools.loads().remove(0);
    assert_eq!((load.n_running, load.n_queued), (0, 0));
}

// E3: a queued call is seen to wait, and one that is cancelled was never sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_call_that_is_cancelled_was_never_sent() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "hold,echo")]));
    config.tool_limits.insert("hold".to_owned(), 1);
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let haft = host.node.haft();
    let first = host.approved(host.session, "peer_hold", json!({"text": "go"})).await;
    until("the first is sent", || done(&counter) == ["hold"]).await;
    let sessions = [host.node.session().await, host.node.session().await];
    let second = host.approved(sessions[0], "peer_hold", json!({"text": "go"})).await;
    let third = host.approved(sessions[1], "peer_hold", json!({"text": "go"})).await;
    let pools = haft.driver().pools();
    until("the third waits behind the second", || {
        pools.place(third).is_some_and(|place| place.n_ahead == 1 && place.pool == "mcp/peer/hold")
    })
    .await;
    assert!(!names(&host, sessions[0]).await.contains(&"call.started"));
    haft.cancel(sessions[0], second, user("ann"), None).await.unwrap();
    let answer = haft.wait(sessions[0], second).await.unwrap();
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    let CallResult::Err(failure) = outcome.result else { panic!("it was cancelled") };
    assert_eq!(failure.class, ErrorClass::Cancelled);
    until("the third moves up", || pools.place(third).is_some_and(|place| place.n_ahead == 0))
        .await;
    std::fs::write(format!("{}.go", counter.display()), "").unwrap();
    for (session, call) in [(host.session, first), (sessions[1], third)] {
        let Answer::Done(outcome) = haft.wait(session, call).await.unwrap() else {
            panic!("it ends")
        };
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    assert_eq!(done(&counter), ["hold", "hold"], "what was cancelled was never sent");
}

// X15: a large result arrives, and all of it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_arrives_as_an_artifact() {
    const BYTES: usize = 24 << 20;
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "big")]));
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let arguments = json!({"text": BYTES.to_string()});
    let Answer::Done(outcome) = host.answer(host.session, "peer_big", arguments).await else {
        panic!("it ends")
    };
    let CallResult::Ok(output) = &outcome.result else { panic!("{outcome:?}") };
    assert!(text(&outcome).len() < 80 << 10, "the model reads a part");
    let [kept] = &*output.artifacts else { panic!("{:?}", output.artifacts) };
    assert_eq!(kept.bytes, BYTES as u64);
}

// X15: what is larger than the mount takes fails its call at once, and the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large_fails_quickly() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "big,echo")]));
    config.max_message_bytes = 1 << 20;
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let begun = Instant::now();
    let arguments = json!({"text": (8 << 20).to_string()});
    let Answer::Done(outcome) = host.answer(host.session, "peer_big", arguments).await else {
        panic!("it ends")
    };
    assert!(begun.elapsed() < Duration::from_secs(30), "not at its timeout");
    assert!(text(&outcome).contains("it ran, but its result was not kept"), "{outcome:?}");
    let arguments = json!({"text": "still there"});
    let Answer::Done(outcome) = host.answer(host.session, "peer_echo", arguments).await else {
        panic!("it ends")
    };
    assert_eq!(text(&outcome), "still there");
}

// E2: what was sent and ran out of time may have been done, so that a person settles it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sent_call_that_runs_out_of_time_is_in_doubt() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "hold")]));
    config.timeout = Millis::from_secs(1);
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let answer = host.answer(host.session, "peer_hold", json!({"text": "never"})).await;
    assert!(matches!(answer, Answer::InDoubt(_)), "{answer:?}");
    assert_eq!(done(&counter), ["hold"]);
}

// E2: what was sent and is cancelled may have been done.
#[tokio::test(flavor = "multi_thread")]
async fn a_sent_call_that_is_cancelled_is_in_doubt() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "hold")]));
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let call = host.approved(host.session, "peer_hold", json!({"text": "never"})).await;
    until("it is sent", || done(&counter) == ["hold"]).await;
    let haft = host.node.haft();
    haft.cancel(host.session, call, user("ann"), None).await.unwrap();
    let answer = haft.wait(host.session, call).await.unwrap();
    assert!(matches!(answer, Answer::InDoubt(_)), "{answer:?}");
}

// E2: a server's own refusal is certain, and so is what was never sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_a_call_that_was_never_sent_are_certain() {
    let (host, (_directory, counter)) = (Host::start(&TestPlace::new()).await, scratch());
    let mut config = MountConfig::new(name("peer"), peer(&counter, &[("TOOLS", "refuse,die")]));
    config.timeout = Millis::from_secs(2);
    host.mounts.mount(config, &user("ann")).await.unwrap();
    let answer = host.answer(host.session, "peer_refuse", json!({})).await;
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    assert!(text(&outcome).contains("not today"), "{outcome:?}");
    let answer = host.answer(host.session, "peer_die", json!({})).await;
    assert!(matches!(answer, Answer::InDoubt(_)), "{answer:?}");
    // It is started again for the next call, and does not come to read it.
    std::fs::write(format!("{}.slow", counter.display()), "").unwrap();
    let other = host.node.session().await;
    let answer = host.answer(other, "peer_refuse", json!({})).await;
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    let CallResult::Err(failure) = &outcome.result else { panic!("{outcome:?}") };
    assert_eq!(failure.class, ErrorClass::Timeout, "{failure:?}");
    assert_eq!(done(&counter), ["refuse", "die"]);
}
