//! Hints between nodes that there is something to look at.
//!
//! A notification inside a transaction makes every commit wait for every other one, which was
//! measured to cost two thirds of the throughput. So the hint follows the commit, on a connection
//! of its own, at most once in a while, and may be lost: whoever waits looks every second anyway.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Config, NoTls};

use super::link::Link;

/// How many commits share one notification.
const GATHER: Duration = Duration::from_millis(10);

const RECONNECT: Duration = Duration::from_secs(1);

/// The channel is the schema's, so that two installations in one database leave each other alone.
const CHANNEL: &str = "SELECT quote_ident('haft_' || current_schema())";

#[derive(Debug)]
pub(super) struct Hints {
    local: watch::Sender<u64>,
    told: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl Hints {
    pub(super) fn start(config: &Config) -> Self {
        let local = watch::Sender::new(0);
        let told = Arc::new(Notify::new());
        let teller = tokio::spawn(tell(Link::new(config), Arc::clone(&told)));
        let listener = tokio::spawn(listen(config.clone(), local.clone()));
        let tasks = [teller.abort_handle(), listener.abort_handle()];
        Self { local, told, tasks }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.local.subscribe()
    }

    pub(super) fn sender(&self) -> Teller {
        Teller { local: self.local.clone(), told: Arc::clone(&self.told) }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Tells this node at once and the others soon.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    local: watch::Sender<u64>,
    told: Arc<Notify>,
}

impl Teller {
    pub(super) fn tell(&self) {
        self.local.send_modify(|count| *count += 1);
        self.told.notify_one();
    }
}

async fn tell(link: Link, told: Arc<Notify>) {
    loop {
        told.notified().await;
        tokio::time::sleep(GATHER).await;
        let sql = "SELECT pg_notify('haft_' || current_schema(), '')";
        // A hint that is lost costs a second; the poll finds what it was about.
        drop(link.query(sql, &[]).await);
    }
}

async fn listen(config: Config, local: watch::Sender<u64>) {
    loop {
        // Without a listener the poll alone finds everything, so that trouble is only waited out.
        drop(listen_once(&config, &local).await);
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_once(
    config: &Config,
    local: &watch::Sender<u64>,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let messages = async {
        while let Some(message) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notification(_) = message? {
                local.send_modify(|count| *count += 1);
            }
        }
        Ok(())
    };
    let subscribe = async {
        let row = client.query_one(CHANNEL, &[]).await?;
        let channel: String = row.get(0);
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        // What came between the last connection and this one was not heard.
        local.send_modify(|count| *count += 1);
        std::future::pending::<Result<(), tokio_postgres::Error>>().await
    };
    tokio::select! {
        ended = messages => ended,
        failed = subscribe => failed,
    }
}
