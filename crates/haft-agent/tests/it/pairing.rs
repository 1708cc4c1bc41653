//! Whatever happened in a session, what a model is shown pairs every call with its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft_agent::provider::Api;
use haft_agent::transcript::{Budget, Ended, History, Item, View};
use haft_agent::{Transcript, messages};
use haft_core::session::{Activity, Check, Event, Phase, Summary};
use haft_core::tool::{Executor, Retention, ToolSpec};
use haft_core::{CallId, ErrorClass, Millis, ProviderCallId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, approve, charge, deny, email, err, ok, question, read, tool};

const APIS: [Api; 3] = [Api::AnthropicMessages, Api::OpenAiChat, Api::OpenAiResponses];

fn tools() -> [ToolSpec; 5] {
    let search = tool("web_search", |definition| definition.executor = Executor::Provider);
    [read(), email(), charge(), question(), search]
}

/// Does something that is possible now; the numbers pick what.
fn perform(world: &mut World, what: u8, pick: u8) {
    let calls: Vec<(CallId, Phase)> =
        world.open().calls().map(|call| (call.id, call.phase.clone())).collect();
    let chosen = calls.get(usize::from(pick) % calls.len().max(1)).cloned();
    let thinks = matches!(world.open().activity, Activity::Thinking { .. });
    // What is refused at this point is refused; the log then does not hold it.
    match (what % 8, chosen) {
        (0, _) => drop(world.say("go on")),
        (1 | 2, _) if thinks => answer(world, pick),
        (3 | 4, Some((call, Phase::Running { .. }))) => {
            let result =
                if pick.is_multiple_of(3) { err(ErrorClass::ToolError) } else { ok("done") };
            drop(world.returns(call, result));
        }
        (3 | 4, Some((call, Phase::Waiting(_)))) => {
            drop(world.resolve(call, if pick.is_multiple_of(3) { deny() } else { approve() }));
        }
        (5, _) if pick.is_multiple_of(4) => drop(world.interrupt()),
        (6, _) if pick.is_multiple_of(3) => world.crash(),
        (7, Some((call, _))) => {
            world.wait(Millis(90_000_000));
            drop(world.expire(call));
        }
        _ => {}
    }
}

fn answer(world: &mut World, pick: u8) {
    let tools = tools();
    let names = tools.iter().map(|tool| tool.name.clone()).collect();
    let mut calls: Vec<_> = tools.iter().enumerate().filter(|(i, _)| pick >> i & 1 == 1).collect();
    let n_first = usize::from(pick) % calls.len().max(1);
    calls.rotate_left(n_first);
    let mut calls: Vec<_> =
        calls.into_iter().map(|(_, tool)| world.proposal(tool, &json!({"n": 1}))).collect();
    for (i, call) in calls.iter_mut().enumerate() {
        match (pick.wrapping_add(i as u8)) % 5 {
            0 => call.check = Check::UnknownTool { message: "no such tool".into() },
            1 => call.check = Check::Malformed { raw: "{\"n\"".into(), message: "cut".into() },
            // An id that was used in every turn.
            2 => call.provider_id = ProviderCallId::new("call_0").unwrap(),
            3 => call.provider_id = ProviderCallId::new("odd id|fc:1").unwrap(),
            _ => {}
        }
    }
    drop(world.answer_with(calls, names));
}

/// The ids of calls and of results, in the order in which they stand.
fn ids(api: Api, messages: &[Value]) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    for message in messages {
        match api {
            Api::AnthropicMessages => {
                for block in message["content"].as_array().unwrap() {
                    match block["type"].as_str().unwrap() {
                        "tool_use" => calls.push(text(block, "id")),
                        "tool_result" => results.push(text(block, "tool_use_id")),
                        _ => {}
                    }
                }
            }
            Api::OpenAiChat => {
                let made = message["tool_calls"].as_array().into_iter().flatten();
                calls.extend(made.map(|call| text(call, "id")));
                if message["role"] == "tool" {
                    results.push(text(message, "tool_call_id"));
                }
            }
            Api::OpenAiResponses => match message["type"].as_str() {
                Some("function_call") => calls.push(text(message, "call_id")),
                Some("function_call_output") => results.push(text(message, "call_id")),
                _ => {}
            },
        }
        if results.len() == calls.len() {
            continue;
        }
        assert!(results.len() < calls.len(), "a result stands before its call");
    }
    (calls, results)
}

fn assert_paired(transcript: &Transcript) {
    for api in APIS {
        let messages = messages(transcript, api);
        let (mut calls, mut results) = ids(api, &messages);
        assert_eq!(calls, results, "every call has its result, in its order");
        calls.sort();
        calls.dedup();
        results.sort();
        assert_eq!(calls, results, "no id stands twice");
        if api == Api::AnthropicMessages {
            let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
            assert!(roles.first().is_none_or(|role| *role == "user"), "{roles:?}");
            assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
        }
    }
}

proptest! {
    // S3-40: replay never sends an orphan.
    #[test]
    fn s3_40_every_call_is_shown_with_its_result(
        steps in prop::collection::vec(any::<(u8, u8)>(), 1..80),
        tokens in 0..600usize,
    ) {
        let mut world = World::model();
        world.say("start").unwrap();
        for (what, pick) in steps {
            perform(&mut world, what, pick);
        }
        assert_paired(&Transcript::of(world.events()));
        let mut history = History::of(world.events());
        let retention = |_: &str| Retention::Age { turns: 1 };
        let turn = world.open().turn;
        for budget in [Budget { tokens: usize::MAX }, Budget { tokens }] {
            let view = View { turn, budget, retention: &retention };
            let transcript = history.view(&view);
            assert_paired(&transcript);
            assert_eq!(transcript, history.view(&view), "looking changes nothing");
        }
    }
}

proptest! {
    // What is read piece by piece, or from a summary on, is what is read at once.
    #[test]
    fn a_history_is_the_same_however_it_is_read(
        steps in prop::collection::vec(any::<(u8, u8)>(), 1..60),
        cut in any::<prop::sample::Index>(),
        through in any::<prop::sample::Index>(),
    ) {
        let mut world = World::model();
        world.say("start").unwrap();
        for (what, pick) in steps {
            perform(&mut world, what, pick);
        }
        let events: Vec<(u64, Event)> = (1..).zip(world.events()).collect();
        let whole = Transcript::of(world.events());
        let (first, rest) = events.split_at(cut.index(events.len()));
        let mut piecewise = History::default();
        for (seq, event) in first {
            piecewise.take(*seq, event.clone());
        }
        piecewise.view(&View::everything());
        for (seq, event) in rest {
            piecewise.take(*seq, event.clone());
        }
        prop_assert_eq!(piecewise.view(&View::everything()), whole);
        let turn = world.open().turn;
        prop_assume!(turn > 1);
        let through_turn = 1 + through.index(turn as usize - 1) as u32;
        let after_seq = piecewise.after_turn(through_turn);
        let text = "in short".to_owned();
        let summary = Arc::new(Summary { text, through_turn, after_seq, usage: None });
        piecewise.take(piecewise.seq() + 1, Event::ContextSummarised { summary: summary.clone() });
        let mut cold = History::after(summary);
        for (seq, event) in events.into_iter().filter(|(seq, _)| *seq > after_seq) {
            cold.take(seq, event);
        }
        let shown = cold.view(&View::everything());
        assert_paired(&shown);
        prop_assert_eq!(shown, piecewise.view(&View::everything()));
    }
}

/// A session of so many turns, each with one call of a reader.
fn session(turns: usize) -> History {
    let mut world = World::model();
    world.say("look around").unwrap();
    for turn in 1..=turns {
        let calls = world.answer(&[&read()]);
        world.returns(calls[0], ok(&format!("result {turn}"))).unwrap();
    }
    History::of(world.events())
}

fn stubbed(transcript: &Transcript) -> Vec<bool> {
    let calls = transcript.items.iter().filter_map(|item| match item {
        Item::Assistant { calls, .. } => Some(calls),
        Item::User { .. } | Item::LeftOut { .. } | Item::Note { .. } | Item::Summary { .. } => None,
    });
    calls.flatten().map(|call| call.ended == Ended::Stubbed).collect()
}

// S4-37: what is no longer kept is stubbed, and the pair stays.
#[test]
fn s4_37_results_are_stubbed_by_age_and_count_and_never_where_they_must_stay() {
    let cases = BTreeMap::from([
        ("age", (Retention::Age { turns: 2 }, [true, true, true, false, false])),
        ("count", (Retention::Count { results: 1 }, [true, true, true, true, false])),
        ("never", (Retention::NeverEvict, [false; 5])),
    ]);
    for (name, (retention, expected)) in cases {
        let budget = Budget::default();
        let view = View { turn: 6, budget, retention: &|_| retention };
        let transcript = session(5).view(&view);
        assert_eq!(stubbed(&transcript), expected, "{name}");
        assert_paired(&transcript);
        let shown = Value::Array(messages(&transcript, Api::OpenAiChat)).to_string();
        assert_eq!(shown.contains("[result expired]"), expected[0]);
        assert_eq!(shown.contains("result 1"), !expected[0]);
    }
}

#[test]
fn a_history_that_does_not_fit_keeps_the_question_and_the_newest_and_says_so() {
    let mut history = session(40);
    let whole = history.view(&View::everything());
    let fit = |history: &mut History, tokens| {
        let view = View { budget: Budget { tokens }, ..View::everything() };
        history.view(&view)
    };
    let transcript = fit(&mut history, whole.tokens() / 4);
    assert!(transcript.tokens() <= whole.tokens() / 4 + 8);
    assert_paired(&transcript);
    let shown = Value::Array(messages(&transcript, Api::AnthropicMessages)).to_string();
    assert!(shown.contains("look around") && shown.contains("result 40"));
    assert!(!shown.contains("\"result 1\"") && shown.contains("are left out here"));
    assert_eq!(fit(&mut history, whole.tokens()), whole);
}
