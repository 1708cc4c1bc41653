//! What is told of a server while it runs: its log, and spans for a collector.

use std::collections::BTreeMap;
use std::io;

use haft_server::telemetry::{Exporter, TelemetrySettings, pairs};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// How the log on stderr is written.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
    /// How much is logged: `error`, `warn`, `info`, `debug` (every request) or `trace`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// Where spans go, as OpenTelemetry's SDKs have it; nowhere without.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide = true)]
    otlp_endpoint: Option<String>,
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hide = true)]
    otlp_traces_endpoint: Option<String>,
    #[arg(long, env = "OTEL_EXPORTER_OTLP_HEADERS", hide = true, hide_env_values = true)]
    otlp_headers: Option<String>,
    #[arg(long, env = "OTEL_SERVICE_NAME", hide = true)]
    otel_service_name: Option<String>,
    #[arg(long, env = "OTEL_RESOURCE_ATTRIBUTES", hide = true)]
    otel_resource_attributes: Option<String>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Lines of JSON.
    Json,
    /// For people.
    Text,
}

impl WatchArgs {
    /// Begins to log, and to collect spans for whoever is returned.
    pub(super) fn start(&self) -> anyhow::Result<Option<Exporter>> {
        let (spans, exporter) = match self.telemetry() {
            Some(settings) => {
                let (spans, exporter) = Exporter::new(settings)?;
                let informative =
                    filter_fn(|it| it.is_span() && *it.level() <= tracing::Level::INFO);
                (Some(spans.with_filter(informative)), Some(exporter))
            }
            None => (None, None),
        };
        let log = fmt::layer().with_writer(io::stderr).with_ansi(false);
        let log = match self.log_format {
            LogFormat::Text => log.boxed(),
            LogFormat::Json => log.json().flatten_event(true).boxed(),
        };
        // What rmcp says of every connection is for those who look closely.
        let rmcp = match self.log_level {
            LevelFilter::INFO => LevelFilter::WARN,
            level => level,
        };
        let log =
            log.with_filter(Targets::new().with_default(self.log_level).with_target("rmcp", rmcp));
        tracing_subscriber::registry().with(log).with(spans).init();
        Ok(exporter)
    }

    fn telemetry(&self) -> Option<TelemetrySettings> {
        // The SDKs take an empty variable for none.
        let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        let whole = given(&self.otlp_traces_endpoint);
        let base = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
        let endpoint = whole.or_else(|| given(&self.otlp_endpoint).map(base))?;
        let headers = self.otlp_headers.as_deref().map(pairs).unwrap_or_default();
        let said = self.otel_resource_attributes.as_deref().map(pairs).unwrap_or_default();
        let mut resource = BTreeMap::from_iter(said);
        let name = resource.entry("service.name".to_owned()).or_insert_with(|| "haft".to_owned());
        if let Some(given) = &self.otel_service_name {
            name.clone_from(given);
        }
        resource.insert("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Some(TelemetrySettings { endpoint, headers, resource })
    }
}
