//! What a trace shows of a question to a model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use haft_agent::provider::Api;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::fake::{CHAT, Fake, Scene};
use crate::sessions::answered_once;

/// Keeps the fields of all spans called `chat`.
#[derive(Debug, Clone, Default)]
struct Chats(Arc<Mutex<BTreeMap<String, String>>>);

impl Visit for Chats {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}").trim_matches('"').to_owned();
        self.0.lock().unwrap().insert(field.name().to_owned(), text);
    }
}

impl Subscriber for Chats {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "chat"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_question_is_a_span_with_the_names_of_the_genai_conventions() {
    let chats = Chats::default();
    let _guard = tracing::subscriber::set_default(chats.clone());
    let fake = Fake::start([Scene::stream(CHAT)]).await;
    let session = answered_once(fake.config(Api::OpenAiChat)).await;
    let seen = chats.0.lock().unwrap();
    let session = session.to_string();
    for (name, value) in [
        ("otel.name", "chat the-model"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "the-model"),
        ("gen_ai.conversation.id", &*session),
        ("gen_ai.response.id", "chatcmpl-B1"),
        ("gen_ai.response.model", "gpt-4.1-2025-04-14"),
        ("gen_ai.usage.input_tokens", "82"),
        ("gen_ai.usage.output_tokens", "34"),
        ("gen_ai.usage.cache_read.input_tokens", "64"),
    ] {
        assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!seen.values().any(|value| value.contains("hush") || value.contains("weather")));
}
