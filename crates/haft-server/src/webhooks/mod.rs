//! Telling others what happens: signed, at least once, by whichever node is alive.
//!
//! What is to be told is in the store since the moment it happened. A node claims what is due,
//! one attempt at a time; what it does not settle is another attempt of whoever comes next.

mod message;
mod reachable;
mod schedule;
mod secret;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use haft_core::Millis;
use haft_http::{Client, Endpoint, HttpError, NoRootsError, Reach, Timeouts, Trust};
use haft_runtime::{Outage, fresh_bits};
use haft_store::{Attempted, ClaimedDelivery, Moment, NextAttempt};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) use self::message::id as message_id;
pub(crate) use self::reachable::{Remedy, require_reachable};
pub(crate) use self::secret::Secret;
use crate::app::App;

/// How webhooks are delivered.
#[derive(Debug, Clone, Copy)]
pub struct WebhookSettings {
    /// How far deliveries may go.
    pub reach: Reach,
    /// For how long a delivery is tried.
    pub give_up_after: Millis,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self { reach: Reach::Public, give_up_after: Millis::from_secs(24 * 3600) }
    }
}

/// How long each stage of an attempt may take; together less than [`HOLD`].
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(15),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};

/// For how long a claimed delivery is left to its claimer.
const HOLD: Millis = Millis::from_secs(40);

/// How many attempts are under way on a node.
const AT_ONCE: usize = 64;

/// For how long what is over can be looked at, and how often that is seen to.
const KEPT_FOR: Millis = Millis::from_secs(7 * 24 * 3600);
const FORGET_EVERY: Duration = Duration::from_secs(600);

/// Delivers until the server stops. What is under way then is another attempt of the next node.
pub(crate) async fn deliver(app: App) {
    let settings = app.webhooks();
    let shutdown = app.shutdown().clone();
    let courier = Courier { app, settings, trust: Trust::of_the_system(), done: Notify::new() };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = Arc::new(courier).run() => {}
    }
}

struct Courier {
    app: App,
    settings: WebhookSettings,
    trust: Result<Trust, NoRootsError>,
    done: Notify,
}

/// What a receiver made of an attempt.
enum Heard {
    Status(u16),
    Nothing(String),
    /// It can never be delivered.
    Hopeless(String),
}

impl Courier {
    async fn run(self: Arc<Self>) {
        let mut changes = self.app.store().changes();
        let mut forgetting = tokio::time::interval(FORGET_EVERY);
        let mut attempts = JoinSet::new();
        let mut outage = Outage::of("deliveries cannot be claimed");
        loop {
            while attempts.try_join_next().is_some() {}
            match self.begin(&mut attempts).await {
                Ok(()) => outage.over(),
                Err(error) => outage.failed(&error),
            }
            tokio::select! {
                () = changes.changed() => {}
                () = self.done.notified() => {}
                _ = forgetting.tick() => self.forget().await,
            }
        }
    }

    async fn begin(self: &Arc<Self>, attempts: &mut JoinSet<()>) -> Result<(), haft_store::Error> {
        let free = AT_ONCE.saturating_sub(attempts.len()) as u32;
        if free == 0 {
            return Ok(());
        }
        for delivery in self.app.store().claim_deliveries(Moment::Clock, HOLD, free).await? {
            attempts.spawn(Arc::clone(self).attempt(delivery));
        }
        Ok(())
    }

    async fn attempt(self: Arc<Self>, delivery: ClaimedDelivery) {
        let heard = tokio::time::timeout(TIMEOUTS.total, self.send(&delivery)).await;
        let heard = heard.unwrap_or_else(|_| {
            Heard::Nothing(format!("no answer within {} s", TIMEOUTS.total.as_secs()))
        });
        let attempted = self.judge(&delivery, heard);
        self.app.metrics().attempted(attempted.next);
        let webhook = &delivery.webhook;
        if let (NextAttempt::GivenUp, error) = (attempted.next, &attempted.error) {
            let (session, seq) = (delivery.session, delivery.seq);
            tracing::warn!(%webhook, %session, seq, ?error, "a delivery is given up");
        }
        // What is not recorded is attempted again: at least once is what was promised.
        if let Err(error) = self.app.store().settle_delivery(delivery.claim, &attempted).await {
            tracing::warn!(%webhook, %error, "an attempt cannot be recorded");
        }
        self.done.notify_one();
    }

    async fn send(&self, delivery: &ClaimedDelivery) -> Heard {
        let secret = self.app.haft().open_secret(&delivery.webhook, &delivery.sealed);
        let (secret, endpoint) = match (secret, Endpoint::exactly(&delivery.url)) {
            (Ok(secret), Ok(endpoint)) => (Secret::new(secret), endpoint),
            (Err(error), _) => return Heard::Nothing(error.to_string()),
            (_, Err(error)) => return Heard::Hopeless(error.to_string()),
        };
        let client = Client::reaching(self.settings.reach, endpoint, TIMEOUTS, &self.trust);
        let client = match client {
            Ok(client) => client,
            Err(error) => return Heard::Nothing(error.to_string()),
        };
        let body = match message::of(self.app.store(), delivery).await {
            Ok(body) => body,
            Err(error) => return Heard::Nothing(error),
        };
        let at = self.app.now().ms() / 1000;
        let id = message::id(delivery.session, delivery.seq);
        let signature = secret.sign(&id, at, &body);
        let headers = [("webhook-id", id), ("webhook-timestamp", at.to_string())];
        let mut headers: Vec<_> = headers
            .into_iter()
            .chain([("webhook-signature", signature)])
            .filter_map(|(name, value)| {
                let value = HeaderValue::from_str(&value).ok()?;
                Some((HeaderName::from_static(name), value))
            })
            .collect();
        let agent = HeaderValue::from_static(concat!("haft/", env!("CARGO_PKG_VERSION")));
        headers.push((axum::http::header::USER_AGENT, agent));
        match client.post(&headers, body.into_bytes()).await {
            Ok(answer) => Heard::Status(answer.status.as_u16()),
            Err(error @ HttpError::NotPublic { .. }) => Heard::Hopeless(error.to_string()),
            Err(error) => Heard::Nothing(error.to_string()),
        }
    }

    fn judge(&self, delivery: &ClaimedDelivery, heard: Heard) -> Attempted {
        let at = self.app.now();
        let again = || {
            // Without randomness the receiver is only met by everyone at the same moment.
            let chance = fresh_bits(at).map_or(0, |bits| bits as u32);
            let (attempt, give_up) = (delivery.claim.attempt, self.settings.give_up_after);
            schedule::next(delivery.at, at, attempt, give_up, chance)
        };
        match heard {
            Heard::Status(status @ 200..=299) => {
                Attempted { next: NextAttempt::Delivered, status: Some(status), error: None, at }
            }
            // The receiver says that it will never take it.
            Heard::Status(status @ 410) => {
                let error = Some("the receiver is gone".to_owned());
                Attempted { next: NextAttempt::GivenUp, status: Some(status), error, at }
            }
            Heard::Status(status) => {
                let error = Some(refused(status));
                Attempted { next: again(), status: Some(status), error, at }
            }
            Heard::Nothing(error) => {
                Attempted { next: again(), status: None, error: Some(error), at }
            }
            Heard::Hopeless(error) => {
                Attempted { next: NextAttempt::GivenUp, status: None, error: Some(error), at }
            }
        }
    }

    async fn forget(&self) {
        let kept = i64::try_from(KEPT_FOR.0).unwrap_or(i64::MAX);
        let before = haft_core::Timestamp::from_ms(self.app.now().ms().saturating_sub(kept));
        if let Err(error) = self.app.store().forget_deliveries(before).await {
            tracing::warn!(%error, "old deliveries are kept on");
        }
    }
}

fn refused(status: u16) -> String {
    match status {
        300..=399 => format!("the receiver answered {status}; redirects are not followed"),
        _ => format!("the receiver answered {status}; expected 200 to 299"),
    }
}
