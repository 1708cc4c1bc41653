//! From `tracing` spans to what is exported.
//!
//! A run keeps its trace over suspension, restart and change of node, because its ids follow from
//! the run: what one process did of it is a span of its own; the first is the root, and those that
//! went on with it are below that.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haft_core::Digest;
use haft_runtime::fresh_bits;
use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{Ended, Value};

/// What makes a span one of ours to export.
const OPERATION: &str = "gen_ai.operation.name";
const CONVERSATION: &str = "gen_ai.conversation.id";
/// Which run of which session, and whether another span began it; both are for ids only.
const RUN: &str = "haft.run";
const RESUMED: &str = "haft.resumed";

/// A layer that hands ended spans over. What nobody takes in time is dropped and counted.
#[derive(Debug)]
pub struct Spans {
    ended: mpsc::Sender<Ended>,
    n_dropped: AtomicU64,
}

impl Spans {
    pub(super) const fn new(ended: mpsc::Sender<Ended>) -> Self {
        Self { ended, n_dropped: AtomicU64::new(0) }
    }

    fn hand_over(&self, mut ended: Ended) {
        ended.end = now();
        if self.ended.try_send(ended).is_err() {
            let n = self.n_dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if n.is_power_of_two() {
                tracing::warn!(n, "spans are dropped: the collector does not keep up");
            }
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if fields.get(OPERATION).is_none() {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let above = span.scope().skip(1).find_map(|above| {
            above.extensions().get::<Ended>().map(|above| (above.trace, above.span))
        });
        let ended = fields.begin(attributes.metadata().name(), above);
        span.extensions_mut().insert(ended);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(ended) = span.extensions_mut().get_mut::<Ended>() {
            let mut fields = Fields::default();
            values.record(&mut fields);
            ended.attributes.extend(fields.0);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let ended = context.span(&id).and_then(|span| span.extensions_mut().remove::<Ended>());
        if let Some(ended) = ended {
            self.hand_over(ended);
        }
    }
}

/// The fields of a span.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find_map(|(known, value)| (*known == name).then_some(value))
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }

    fn take_text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::Text(text) => Some(text),
            Value::Bool(_) | Value::Int(_) | Value::Texts(_) => None,
        }
    }

    fn begin(mut self, name: &str, above: Option<([u8; 16], [u8; 8])>) -> Ended {
        let name = self.take_text("otel.name").unwrap_or_else(|| name.to_owned());
        let is_client = self.take_text("otel.kind").is_some_and(|kind| kind == "client");
        let run = self.take_text(RUN);
        let is_resumed = self.take(RESUMED) == Some(Value::Bool(true));
        let fresh = fresh_bits(haft_core::Timestamp::from_ms(0)).unwrap_or_default().to_be_bytes();
        let fresh = <[u8; 8]>::try_from(&fresh[8..]).unwrap_or_default();
        let (trace, span, parent) = match (above, run) {
            (Some((trace, parent)), _) => (trace, fresh, Some(parent)),
            (None, Some(run)) => {
                let (trace, root) = ids(&run);
                if is_resumed { (trace, fresh, Some(root)) } else { (trace, root, None) }
            }
            (None, None) => {
                let session = self.get(CONVERSATION);
                let session = session.map_or_else(String::new, |session| format!("{session:?}"));
                (ids(&session).0, fresh, None)
            }
        };
        let start = now();
        Ended { trace, span, parent, name, is_client, start, end: start, attributes: self.0 }
    }
}

/// The trace of a run, and its root.
fn ids(run: &str) -> ([u8; 16], [u8; 8]) {
    let digest = Digest::of_bytes(run.as_bytes());
    let (trace, rest) = digest.as_bytes().split_at(16);
    let trace = <[u8; 16]>::try_from(trace).unwrap_or_default();
    (trace, <[u8; 8]>::try_from(&rest[..8]).unwrap_or_default())
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Value::Bool(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Value::Int(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = match field.name() {
            // The one attribute that is a list.
            "gen_ai.response.finish_reasons" => Value::Texts(vec![value.to_owned()]),
            _ => Value::Text(value.to_owned()),
        };
        self.0.push((field.name(), value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
