//! The verbs around webhooks.

use haft_core::{Millis, Timestamp};

use super::{Backend, Store};
use crate::error::Error;
use crate::name::Tenant;
use crate::notice::{Attempted, ClaimedDelivery, DeliveryClaim, StoredDelivery, Webhook};
use crate::page::Page;
use crate::request::{Request, Step};
use crate::work::Moment;

#[haft_macros::boxed]
impl Store {
    /// Keeps someone who wants to hear of what happens from now on.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn add_webhook(&self, webhook: &Webhook) -> Result<(), Error> {
        let step = Request::current().map(|it| it.step(format!("webhook {}", webhook.id), None));
        let step = match step {
            None => None,
            Some(Step::Done(_)) => return Ok(()),
            Some(Step::New(step)) => Some(step),
        };
        on_backend!(self, add_webhook(webhook.clone(), step))
    }

    /// Lists a tenant's webhooks, the newest first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn webhooks(&self, tenant: &Tenant) -> Result<Vec<Webhook>, Error> {
        on_backend!(self, webhooks(tenant.clone()))
    }

    /// Takes a webhook away with all of its deliveries; returns whether there was one.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn remove_webhook(&self, tenant: &Tenant, id: &str) -> Result<bool, Error> {
        on_backend!(self, remove_webhook(tenant.clone(), id.to_owned()))
    }

    /// Claims deliveries that are due, each for one attempt. One that is not settled within `hold`
    /// is found again, as another attempt.
    ///
    /// # Errors
    ///
    /// When they cannot be read or claimed.
    pub async fn claim_deliveries(
        &self,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<ClaimedDelivery>, Error> {
        on_backend!(self, claim_deliveries(now, hold, limit))
    }

    /// Records what became of an attempt; returns whether it was still the latest one.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn settle_delivery(
        &self,
        claim: DeliveryClaim,
        attempted: &Attempted,
    ) -> Result<bool, Error> {
        on_backend!(self, settle_delivery(claim, attempted.clone()))
    }

    /// Lists the deliveries to a webhook, the newest first; a page goes on below a cursor.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn deliveries(
        &self,
        tenant: &Tenant,
        webhook: &str,
        page: &Page<u64>,
    ) -> Result<Vec<StoredDelivery>, Error> {
        on_backend!(self, deliveries(tenant.clone(), webhook.to_owned(), page.clone()))
    }

    /// Forgets deliveries that were over before a moment; returns how many.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error> {
        on_backend!(self, forget_deliveries(before))
    }
}
