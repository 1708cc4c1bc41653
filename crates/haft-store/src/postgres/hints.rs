//! Hints between nodes that there is something to look at.
//!
//! A notification inside a transaction makes every commit wait for every other one, which was
//! measured to cost two thirds of the throughput. So the hint follows the commit, on a connection
//! of its own, at most once in a while, and may be lost: whoever waits looks every second anyway.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use super::address::Address;
use super::link::{Link, trouble};
use crate::error::{Error, ErrorKind};

/// How many commits share one notification.
const GATHER: Duration = Duration::from_millis(10);

const RECONNECT: Duration = Duration::from_secs(1);

/// A listener says nothing by itself, so that a dead connection looks like a quiet one.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// The channel is the schema's, so that two installations in one database leave each other alone.
const CHANNEL: &str = "SELECT quote_ident('haft_' || current_schema())";

#[derive(Debug)]
pub(super) struct Hints {
    local: watch::Sender<u64>,
    told: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl Hints {
    pub(super) fn start(address: &Address) -> Self {
        let local = watch::Sender::new(0);
        let told = Arc::new(Notify::new());
        let teller = tokio::spawn(tell(Link::new(address), Arc::clone(&told)));
        let listener = tokio::spawn(listen(address.clone(), local.clone()));
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

async fn listen(address: Address, local: watch::Sender<u64>) {
    loop {
        // Without a listener the poll alone finds everything, so that trouble is only waited out.
        drop(listen_once(&address, &local).await);
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_once(address: &Address, local: &watch::Sender<u64>) -> Result<(), Error> {
    let (client, mut connection) = address.connect().await?;
    let messages = async {
        while let Some(message) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notification(_) = message.map_err(|error| trouble(&error))? {
                local.send_modify(|count| *count += 1);
            }
        }
        Ok(())
    };
    let subscribe = async {
        let set = client.batch_execute(&address.settings()).await;
        set.map_err(|error| trouble(&error))?;
        subscribe(&client).await.map_err(|error| trouble(&error))?;
        // What came between the last connection and this one was not heard.
        local.send_modify(|count| *count += 1);
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let asked = tokio::time::timeout(address.answer_max(), client.batch_execute(""));
            let silent = || Error::new(ErrorKind::Gone, "PostgreSQL: it does not answer any more");
            asked.await.map_err(|_| silent())?.map_err(|error| trouble(&error))?;
        }
    };
    tokio::select! {
        ended = messages => ended,
        failed = subscribe => failed,
    }
}

async fn subscribe(client: &tokio_postgres::Client) -> Result<(), tokio_postgres::Error> {
    let row = client.query_one(CHANNEL, &[]).await?;
    let channel: String = row.get(0);
    client.batch_execute(&format!("LISTEN {channel}")).await
}
