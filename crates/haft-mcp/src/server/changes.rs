//! Tells clients when what they were shown has changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use tokio_util::sync::CancellationToken;

use super::McpServer;
use super::listing::Shown;

/// Who is told.
pub(super) enum Audience {
    /// A client with a connection, and the resources it wants to hear of.
    Peer(Peer<RoleServer>, Arc<Mutex<BTreeSet<String>>>),
    /// A client that listens.
    Subscription(SubscriptionSink),
}

/// Tells until the client is gone.
pub(super) async fn tell(server: McpServer, audience: Audience, closed: CancellationToken) {
    let mut changes = server.0.haft.registry().changes();
    let mut resources = server.0.resource_changes.subscribe();
    let mut shown = server.shown();
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            uri = resources.recv() => {
                if let Ok(uri) = uri {
                    audience.tell_of_resource(uri).await;
                }
                continue;
            }
            () = closed.cancelled() => return,
        }
        let now = server.shown();
        audience.tell(&shown, &now).await;
        shown = now;
    }
}

impl Audience {
    /// A client that does not want to hear of something, or has gone, is not told.
    async fn tell(&self, before: &Arc<Shown>, now: &Arc<Shown>) {
        if before.tools != now.tools {
            match self {
                Self::Peer(peer, _) => drop(peer.notify_tool_list_changed().await),
                Self::Subscription(sink) => drop(sink.notify_tool_list_changed().await),
            }
        }
        if before.prompts != now.prompts {
            match self {
                Self::Peer(peer, _) => drop(peer.notify_prompt_list_changed().await),
                Self::Subscription(sink) => drop(sink.notify_prompt_list_changed().await),
            }
        }
    }

    async fn tell_of_resource(&self, uri: String) {
        match self {
            Self::Peer(peer, subscribed) => {
                let wanted =
                    subscribed.lock().unwrap_or_else(PoisonError::into_inner).contains(&uri);
                if wanted {
                    let param = ResourceUpdatedNotificationParam::new(uri);
                    drop(peer.notify_resource_updated(param).await);
                }
            }
            Self::Subscription(sink) => drop(sink.notify_resource_updated(uri).await),
        }
    }
}
