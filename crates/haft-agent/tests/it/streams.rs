//! What providers stream, cut anywhere.

use haft_agent::provider::{Api, Decoder, Reply, Stop, StreamError, Usage};
use haft_agent::{Frame, SseDecoder};
use haft_core::ErrorClass;
use proptest::prelude::*;
use serde_json::json;

use crate::fake::{ALL, ANTHROPIC, CHAT, WEB_SEARCH};

fn decode<'a>(api: Api, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, StreamError> {
    let (mut sse, mut decoder) = (SseDecoder::default(), Decoder::new(api));
    for piece in pieces {
        for frame in sse.push(piece).unwrap() {
            decoder.take(&frame)?;
        }
    }
    decoder.finish()
}

fn assert_whole(reply: &Reply) {
    let seen: Vec<_> = reply
        .calls
        .iter()
        .map(|call| (call.provider_id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    let expected = [
        ("call_A1", "get_weather", "{\"city\":\"Zürich 🏔\"}"),
        ("call_B2", "get_weather", "{\"city\":\"東京\"}"),
    ];
    assert_eq!(seen, expected);
    assert_eq!(reply.text, "Ich schaue nach – café ☕.");
    assert_eq!(reply.stop, Some(Stop::Done));
    assert_eq!(reply.usage, Usage { input: Some(82), output: Some(34), cache_read: Some(64) });
    assert!(reply.id.is_some() && reply.model.is_some());
}

// provider-001, provider-003
#[test]
fn provider_001_003_calls_are_whole_when_every_byte_comes_alone() {
    for (api, text) in ALL {
        assert_whole(&decode(api, text.as_bytes().chunks(1)).unwrap());
    }
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_answer(
        which in 0..ALL.len(),
        cuts in prop::collection::vec(1..200usize, 1..40),
    ) {
        let (api, text) = ALL[which];
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() { break }
        }
        assert_whole(&decode(api, pieces).unwrap());
    }

    #[test]
    fn a_damaged_stream_is_an_answer_or_an_error_and_nothing_else(
        which in 0..ALL.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (api, text) = ALL[which];
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (mut sse, mut decoder) = (SseDecoder::default(), Decoder::new(api));
        let frames = sse.push(&bytes).unwrap_or_default();
        let taken = frames.iter().try_for_each(|frame| decoder.take(frame));
        if taken.is_ok() && let Ok(reply) = decoder.finish() {
            prop_assert!(reply.stop.is_some());
        }
    }
}

#[test]
fn calls_without_an_index_or_all_with_the_same_are_told_apart_by_their_ids() {
    for index in ["", "\"index\":0,"] {
        let call = |id: &str| {
            format!(
                "{{{index}\"id\":\"{id}\",\"function\":{{\"name\":\"a\",\"arguments\":\"{{}}\"}}}}"
            )
        };
        let calls = format!("{},{}", call("x"), call("y"));
        let chunk = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\n"
        );
        let reply = decode(Api::OpenAiChat, [chunk.as_bytes()]).unwrap();
        let seen: Vec<_> =
            reply.calls.iter().map(|c| (c.provider_id.as_str(), c.arguments.as_str())).collect();
        assert_eq!(seen, [("x", "{}"), ("y", "{}")]);
    }
}

// provider-002: wherever a stream is cut before its end, none of its calls is given.
#[test]
fn provider_002_a_stream_that_was_cut_gives_no_call() {
    for (api, text) in ALL {
        let end = ["\"finish_reason\":\"tool_calls\"", "message_stop", "response.completed"];
        let end = end.iter().filter_map(|word| text.find(word)).min().unwrap();
        for at in 0..end {
            assert_eq!(decode(api, [&text.as_bytes()[..at]]).unwrap_err(), StreamError::Cut);
        }
    }
}

#[test]
fn arguments_that_ran_out_of_tokens_stay_the_text_that_they_are() {
    let cut = CHAT.replace("rich 🏔\\\"}", "rich").replace(":\"tool_calls\"}", ":\"length\"}");
    let reply = decode(Api::OpenAiChat, [cut.as_bytes()]).unwrap();
    assert_eq!(reply.stop, Some(Stop::Length));
    assert_eq!(reply.calls[0].arguments, "{\"city\":\"Zürich");
    let start = ANTHROPIC
        .split("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1")
        .next()
        .unwrap();
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":3}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let reply = decode(Api::AnthropicMessages, [start.as_bytes(), end.as_bytes()]).unwrap();
    assert_eq!(reply.calls[0].arguments, "", "a call that was cut is not one without arguments");
}

#[test]
fn an_error_in_the_stream_is_an_error_with_its_class() {
    let half = &ANTHROPIC[..ANTHROPIC.find("event: content_block_stop").unwrap()];
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let found = decode(Api::AnthropicMessages, [half.as_bytes(), error.as_bytes()]).unwrap_err();
    let message = "overloaded_error: Overloaded".to_owned();
    assert_eq!(found, StreamError::Reported { class: ErrorClass::RateLimited, message });
    let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}}\n\n";
    let found = decode(Api::OpenAiResponses, [failed.as_bytes()]).unwrap_err();
    assert!(matches!(found, StreamError::Reported { class: ErrorClass::Upstream, .. }));
    let chat = "data: {\"error\":{\"message\":\"slow down\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}\n\n";
    let found = decode(Api::OpenAiChat, [chat.as_bytes()]).unwrap_err();
    assert!(matches!(found, StreamError::Reported { class: ErrorClass::RateLimited, .. }));
}

#[test]
fn a_model_that_refuses_asks_for_nothing() {
    let refusal = CHAT
        .replace("\"content\":\"Ich", "\"refusal\":\"I cannot. Ich")
        .replace(":\"tool_calls\"}", ":\"stop\"}");
    let reply = decode(Api::OpenAiChat, [refusal.as_bytes()]).unwrap();
    assert_eq!((reply.stop, reply.calls.len()), (Some(Stop::Refused), 0));
    assert!(reply.text.starts_with("I cannot."));
    let refusal = ANTHROPIC.replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"refusal\"");
    let reply = decode(Api::AnthropicMessages, [refusal.as_bytes()]).unwrap();
    assert_eq!((reply.stop, reply.calls.len()), (Some(Stop::Refused), 0));
}

#[test]
fn what_a_provider_ran_comes_with_its_result_and_its_raw_block() {
    let reply = decode(Api::AnthropicMessages, [WEB_SEARCH.as_bytes()]).unwrap();
    assert_eq!(reply.calls[0].arguments, "{\"query\":\"weather\"}");
    let result = &reply.provider_results[0];
    assert_eq!(result.provider_id, reply.calls[0].provider_id);
    let raw = result.meta.as_ref().unwrap().pointer("/anthropic/content/0/encrypted_content");
    assert_eq!(raw, Some(&json!("Er8")));
    let item = "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\",\"action\":{\"type\":\"search\",\"query\":\"x\"}}}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n";
    let reply = decode(Api::OpenAiResponses, [item.as_bytes()]).unwrap();
    assert_eq!((reply.calls[0].name.as_str(), reply.provider_results.len()), ("web_search", 1));
}

#[test]
fn a_frame_that_is_no_json_is_refused() {
    let frame = Frame { event: None, data: "{oops".into() };
    let error = Decoder::new(Api::OpenAiChat).take(&frame).unwrap_err();
    assert!(matches!(error, StreamError::Unreadable(_)));
}
