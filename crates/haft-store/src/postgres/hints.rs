//! Hints between nodes that there is something to look at, and in which sessions.
//!
//! A notification inside a transaction makes every commit wait for every other one, which was
//! measured to cost two thirds of the throughput. So the hint follows the commit, on a connection
//! of its own, at most once in a while, and may be lost. What is lost is found by a look that each
//! node takes every few seconds, one for all the sessions that someone waits for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use haft_core::SessionId;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use super::address::{Address, Setting};
use super::batch::id;
use super::column;
use super::link::{Link, trouble};
use super::payload::{Change, News, Sessions};
use crate::append::Prepared;
use crate::error::{Error, ErrorKind};
use crate::key::{id_bits, unsigned};
use crate::watch::Watches;

/// How many commits share one notification.
const GATHER: Duration = Duration::from_millis(10);

const RECONNECT: Duration = Duration::from_secs(1);

/// A listener says nothing by itself, so that a dead connection looks like a quiet one.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// How often the sessions that someone waits for are looked at in case a hint was lost, while
/// hints are heard and while they are not.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_EVERY_WHILE_DEAF: Duration = Duration::from_secs(1);

/// How many sessions are looked at in one statement.
const LOOKED_AT_ONCE: usize = 5_000;

/// The channel is the schema's, so that two installations in one database leave each other alone.
const CHANNEL: &str = "SELECT quote_ident('haft_' || current_schema())";

/// A hint that a crash of the database loses is found like any other: nobody waits for the disk.
const HINTS_ARE_NOT_FLUSHED: &[Setting] = &[("synchronous_commit", "off")];

#[derive(Debug)]
pub(super) struct Hints {
    teller: Teller,
    tasks: [AbortHandle; 3],
}

impl Hints {
    pub(super) fn start(address: &Address, watches: &Watches) -> Self {
        let teller = Teller {
            local: watch::Sender::new(0),
            outbox: Arc::new(Outbox { name: fresh_name(), ..Outbox::default() }),
            watches: watches.clone(),
        };
        let listener = Listener { teller: teller.clone(), hears: Arc::default() };
        let link = Link::new(&address.with_settings(HINTS_ARE_NOT_FLUSHED));
        let telling = tokio::spawn(tell(link, Arc::clone(&teller.outbox)));
        let looking = tokio::spawn(listener.clone().look(Link::new(address)));
        let listening = tokio::spawn(listener.listen(address.clone()));
        let tasks = [telling, looking, listening].map(|task| task.abort_handle());
        Self { teller, tasks }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.teller.local.subscribe()
    }

    pub(super) fn sender(&self) -> Teller {
        self.teller.clone()
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// What the other nodes have not been told yet.
#[derive(Debug, Default)]
struct Outbox {
    /// Who tells it, so that a node knows its own word.
    name: String,
    news: Mutex<News>,
    is_there: Notify,
}

impl Outbox {
    fn change(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_there.notify_one();
    }

    fn take(&self) -> News {
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells this node at once and the others soon.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    local: watch::Sender<u64>,
    outbox: Arc<Outbox>,
    watches: Watches,
}

impl Teller {
    /// There may be something to claim.
    pub(super) fn wakes(&self) {
        self.local.send_modify(|count| *count += 1);
        self.outbox.change(|news| news.has_wakes = true);
    }

    /// These appends are durable.
    pub(super) fn appended<'a>(&self, appends: impl Iterator<Item = &'a Prepared>) {
        // Nobody can be waiting for a session that nobody else has heard of.
        let grown = appends.filter(|it| it.opening.is_none() && !it.entries.is_empty());
        let (mut has_wakes, mut changes) = (false, Vec::new());
        for prepared in grown {
            has_wakes |= prepared.hints();
            changes.push((prepared.session, prepared.head.seq));
            self.watches.appended(prepared.session, prepared.head.seq);
        }
        if changes.is_empty() {
            return;
        }
        if has_wakes {
            self.local.send_modify(|count| *count += 1);
        }
        self.outbox.change(|news| {
            news.has_wakes |= has_wakes;
            changes.into_iter().for_each(|(session, seq)| news.add(session, Change::Appended(seq)));
        });
    }

    /// Something that belongs to a session but not to its log has changed.
    pub(super) fn touched(&self, session: SessionId) {
        self.outbox.change(|news| news.add(session, Change::Touched));
    }
}

/// A name that no other node has: two that start in the same nanosecond are different processes.
fn fresh_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{:x}-{:x}", since.map_or(0, |since| since.as_nanos()), std::process::id())
}

async fn tell(link: Link, outbox: Arc<Outbox>) {
    let sql = "SELECT pg_notify('haft_' || current_schema(), payload)
               FROM unnest($1::text[]) AS payload";
    loop {
        outbox.is_there.notified().await;
        tokio::time::sleep(GATHER).await;
        let news = outbox.take();
        if news.is_empty() {
            continue;
        }
        if link.query(sql, &[&news.payloads(&outbox.name)]).await.is_err() {
            tokio::time::sleep(RECONNECT).await;
            outbox.change(|since| since.put_back(news));
        }
    }
}

/// Hears what the other nodes tell.
#[derive(Debug, Clone)]
struct Listener {
    teller: Teller,
    /// Whether there is a connection on which the others are heard.
    hears: Arc<AtomicBool>,
}

impl Listener {
    async fn listen(self, address: Address) {
        loop {
            // Without a listener the looks alone find everything, so that trouble is waited out.
            drop(self.listen_once(&address).await);
            self.hears.store(false, Ordering::Relaxed);
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn listen_once(&self, address: &Address) -> Result<(), Error> {
        let (client, mut connection) = address.connect().await?;
        let messages = async {
            while let Some(message) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                let message = message.map_err(|error| trouble(&error))?;
                if let AsyncMessage::Notification(notification) = message {
                    self.hear(notification.payload());
                }
            }
            Ok(())
        };
        let subscribe = async {
            let set = client.batch_execute(&address.settings()).await;
            set.map_err(|error| trouble(&error))?;
            let listen = subscribe(&client).await.map_err(|error| trouble(&error))?;
            self.hears.store(true, Ordering::Relaxed);
            // What came between the last connection and this one was not heard.
            self.teller.local.send_modify(|count| *count += 1);
            self.teller.watches.touched_all();
            loop {
                tokio::time::sleep(ASK_EVERY).await;
                // To listen again changes nothing, and whoever looks at the connections sees whose
                // this is.
                let asked = client.batch_execute(&listen);
                let asked = tokio::time::timeout(address.answer_max(), asked);
                let silent =
                    || Error::new(ErrorKind::Gone, "PostgreSQL: it does not answer any more");
                asked.await.map_err(|_| silent())?.map_err(|error| trouble(&error))?;
            }
        };
        tokio::select! {
            ended = messages => ended,
            failed = subscribe => failed,
        }
    }

    fn hear(&self, payload: &str) {
        let Teller { local, outbox, watches } = &self.teller;
        let Some(news) = News::read(payload, &outbox.name) else { return };
        if news.has_wakes {
            local.send_modify(|count| *count += 1);
        }
        match news.sessions {
            Sessions::Any => watches.touched_all(),
            Sessions::These(these) => {
                for (session, change) in these {
                    match change {
                        Change::Appended(seq) => watches.appended_elsewhere(session, seq),
                        Change::Touched => watches.touched(session),
                    }
                }
                watches.others_spoke();
            }
        }
    }

    /// Looks at the sessions that someone waits for, in case a hint was lost.
    async fn look(self, link: Link) {
        let sql = "SELECT id, head_seq FROM sessions WHERE id = ANY($1)";
        loop {
            let hears = self.hears.load(Ordering::Relaxed);
            tokio::time::sleep(if hears { LOOK_EVERY } else { LOOK_EVERY_WHILE_DEAF }).await;
            let watches = &self.teller.watches;
            for sessions in watches.sessions().chunks(LOOKED_AT_ONCE) {
                let ids: Vec<_> = sessions.iter().map(|session| id(session.bits())).collect();
                // What cannot be looked at now is looked at the next time.
                let Ok(rows) = link.query(sql, &[&ids]).await else { break };
                for row in &rows {
                    let bits = column(row, 0).and_then(id_bits);
                    let seq = column(row, 1).and_then(unsigned);
                    if let (Ok(bits), Ok(seq)) = (bits, seq) {
                        watches.appended_elsewhere(SessionId::from_bits(bits), seq);
                    }
                }
            }
        }
    }
}

/// Begins to listen, and returns the statement for that.
async fn subscribe(client: &tokio_postgres::Client) -> Result<String, tokio_postgres::Error> {
    let row = client.query_one(CHANNEL, &[]).await?;
    let channel: String = row.get(0);
    let listen = format!("LISTEN {channel}");
    client.batch_execute(&listen).await?;
    Ok(listen)
}
