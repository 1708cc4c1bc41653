//! The names of OpenTelemetry's GenAI conventions, all in one place because they still move.

use haft_core::SessionId;
use haft_runtime::ModelError;
use tracing::Span;
use tracing::field::Empty;

use crate::name::Vendor;
use crate::provider::Reply;

/// A span around one question to a model.
pub(crate) fn chat(vendor: Vendor, model: &str, session: SessionId) -> Span {
    tracing::info_span!(
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = vendor.as_str(),
        gen_ai.request.model = model,
        gen_ai.conversation.id = %session,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        error.type = Empty,
    )
}

/// Adds what came of it.
pub(crate) fn record(span: &Span, answered: &Result<Reply, ModelError>) {
    let reply = match answered {
        Ok(reply) => reply,
        Err(error) => {
            span.record("error.type", error.failure.class.code());
            return;
        }
    };
    let text = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            span.record(name, value);
        }
    };
    text("gen_ai.response.id", reply.id.as_deref());
    text("gen_ai.response.model", reply.model.as_deref());
    text("gen_ai.response.finish_reasons", reply.stop.as_ref().map(|stop| stop.word()));
    let count = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            span.record(name, value);
        }
    };
    count("gen_ai.usage.input_tokens", reply.usage.input);
    count("gen_ai.usage.output_tokens", reply.usage.output);
    count("gen_ai.usage.cache_read.input_tokens", reply.usage.cache_read);
}
