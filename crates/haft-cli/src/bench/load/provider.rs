//! A model that answers at once: it calls a tool until it has seen enough results.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone)]
pub(super) struct Provider {
    pub(super) url: String,
    counts: Arc<Counts>,
}

struct Counts {
    n_calls: usize,
    answers: AtomicUsize,
    unpaired: AtomicUsize,
}

impl Provider {
    pub(super) fn unpaired(&self) -> usize {
        self.counts.unpaired.load(Ordering::Relaxed)
    }
}

pub(super) async fn start(n_calls: usize) -> anyhow::Result<Provider> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (answers, unpaired) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let counts = Arc::new(Counts { n_calls, answers, unpaired });
    let router = Router::new()
        .route("/v1/messages", post(answer))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(Arc::clone(&counts));
    // Ends with the program.
    drop(tokio::spawn(async move { axum::serve(listener, router).await }));
    Ok(Provider { url, counts })
}

async fn answer(State(counts): State<Arc<Counts>>, body: Bytes) -> impl IntoResponse {
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let blocks = || {
        let messages = asked["messages"].as_array().into_iter().flatten();
        messages.filter_map(|message| message["content"].as_array()).flatten()
    };
    let ids = |kind: &str, member: &str| {
        let of_kind = blocks().filter(|block| block["type"] == kind);
        let mut ids: Vec<_> = of_kind.filter_map(|block| block[member].as_str()).collect();
        ids.sort_unstable();
        ids
    };
    let (called, answered) = (ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
    if called != answered {
        counts.unpaired.fetch_add(1, Ordering::Relaxed);
    }
    let nth = counts.answers.fetch_add(1, Ordering::Relaxed);
    let frames = match answered.len() < counts.n_calls {
        true => frames(nth, "tool_use", &call(nth, answered.len())),
        false => frames(nth, "end_turn", &said()),
    };
    ([(CONTENT_TYPE, "text/event-stream")], frames)
}

fn call(nth: usize, n: usize) -> [Value; 2] {
    let block =
        json!({ "type": "tool_use", "id": format!("toolu_{nth}"), "name": "count", "input": {} });
    let delta =
        json!({ "type": "input_json_delta", "partial_json": json!({ "n": n }).to_string() });
    [block, delta]
}

fn said() -> [Value; 2] {
    [json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": "counted" })]
}

fn frames(nth: usize, stop: &str, [block, delta]: &[Value; 2]) -> String {
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let message = json!({
        "id": format!("msg_{nth}"), "type": "message", "role": "assistant", "model": "claude-load",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let frames = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "usage": { "output_tokens": 5 },
            "delta": { "stop_reason": stop, "stop_sequence": null },
        }),
        json!({ "type": "message_stop" }),
    ];
    let mut text = String::new();
    for frame in frames {
        let kind = frame["type"].as_str().unwrap_or_default();
        // Writing to a text cannot fail.
        let _written = write!(text, "event: {kind}\ndata: {frame}\n\n");
    }
    text
}
