//! The model providers: which are configured, and whether they can be reached. No request is sent,
//! and no key.

use std::time::Duration;

use haft_http::{Client, Endpoint, Timeouts};

use super::finding::Finding;
use crate::serve::{ModelArgs, ProviderPlace};

const NAME: &str = "provider";

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

pub(super) async fn examine(models: &ModelArgs) -> Vec<Finding> {
    let places = models.places();
    if places.is_empty() {
        return vec![Finding::warning(
            NAME,
            "no model provider is configured: only the scripted demo agent answers",
            "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL for a server of your own",
        )];
    }
    let mut findings = Vec::new();
    for place in &places {
        findings.push(reached(place).await);
    }
    findings
}

async fn reached(place: &ProviderPlace) -> Finding {
    let ProviderPlace { name, vendor, base_url, has_key } = place;
    let name = *name;
    let timeouts = Timeouts { connect: CONNECT_MAX, ..Timeouts::default() };
    let endpoint = match Endpoint::new(base_url, "") {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let fix = format!("correct {vendor}_BASE_URL");
            return Finding::problem(name, error.to_string(), fix);
        }
    };
    let probed = match Client::new(endpoint, timeouts, &[]) {
        Ok(client) => client.probe().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let key = if *has_key { "a key is set" } else { "no key is set" };
    match probed {
        Ok(()) => Finding::ok(name, format!("{base_url} is reachable; {key}")),
        Err(why) => Finding::problem(
            name,
            format!("{base_url} is not reachable: {why}; {key}"),
            format!("see to the network, or set {vendor}_BASE_URL to where it can be reached"),
        ),
    }
}
