//! The writers: each a task with a connection of its own, and transactions that are shared.
//!
//! Whatever has queued up while a transaction was under way goes into the next one. As a rule all
//! of a batch may go through: then it is one exchange with the server, from the beginning to the
//! commit, in which a head that has moved makes everything fail. Only then are the rows locked, in
//! the order of their ids (so that two nodes cannot wait for each other in a circle), heads and
//! epochs read under those locks, and the changes of those that may go through sent along with the
//! commit.
//!
//! A connection that is lost during the commit leaves open whether it happened. Then the sessions
//! are locked again, which waits for whatever the lost connection left running, and the log itself
//! says which entries are there. Only what is not there is tried again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use haft_core::SessionId;
use haft_core::journal::Head;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Row;

use super::address::Address;
use super::batch::{Batch, id};
use super::hints::Teller;
use super::link::{Connected, Link, Values, is_lost, trouble};
use crate::append::{AppendError, Found, Prepared};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, number, unsigned};
use crate::measure::Measures;
use crate::rows::{Rows, SessionStatus};

/// As many appends as a node's sessions may have under way; whoever comes when it is full waits.
const QUEUE_LEN: usize = 1_024;

/// Measured: past 64 sessions in a transaction, throughput does not grow and latency does.
const BATCH_LEN_MAX: usize = 64;

/// How long the outcome of a lost commit is asked for before its callers are told that it is not
/// known.
const ASK_FOR: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(500);

const CREATE: &str = "
    INSERT INTO sessions
      (id, tenant, head_seq, head_hash, epoch, owner, status, created_at, updated_at, agent, parent,
       opened_by)
    SELECT session, tenant, seq, hash, epoch, owner, status, at, at, agent, parent, opened_by
    FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::text[],
      $7::text[], $8::bigint[], $9::text[], $10::bytea[], $11::text[])
      AS t(session, tenant, seq, hash, epoch, owner, status, at, agent, parent, opened_by)
    ORDER BY session
    ON CONFLICT (id) DO NOTHING RETURNING id";

const LOCK: &str = "
    SELECT id, epoch, head_seq, head_hash FROM sessions
    WHERE id = ANY($1) ORDER BY id FOR UPDATE";

const STORED: &str = "
    SELECT events.session FROM events
    JOIN unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS t(session, seq, hash)
    ON events.session = t.session AND events.seq = t.seq AND events.hash = t.hash";

type Verdict = Result<Head, AppendError>;

struct Job {
    prepared: Prepared,
    answer: oneshot::Sender<Verdict>,
}

/// Takes appends to a writer's task, which ends with the handle.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job({})", self.prepared.session)
    }
}

impl Writer {
    pub(super) fn start(address: &Address, hints: Teller, measures: Arc<Measures>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_LEN);
        let link = Link::new(&address.with_options(PLANS));
        let transactions = Transactions { link, hints, measures };
        // Ends when the last handle is gone and the queue is empty.
        drop(tokio::spawn(transactions.run(queue)));
        Self { jobs }
    }

    pub(super) async fn append(&self, prepared: Prepared) -> Verdict {
        let gone = || Error::new(ErrorKind::Stopped, "the writer has stopped");
        let (answer, verdict) = oneshot::channel();
        self.jobs.send(Job { prepared, answer }).await.map_err(|_| gone())?;
        verdict.await.map_err(|_| gone())?
    }
}

/// A batch always finds its few rows by their keys. Left to itself the planner reads whole tables
/// that it has no statistics of yet, and plans every statement of every batch anew.
const PLANS: &str = "-cplan_cache_mode=force_generic_plan -cenable_seqscan=off \
     -cenable_hashjoin=off -cenable_mergejoin=off";

/// Why a transaction did not go through.
enum Failed {
    /// It certainly did not, because of the data.
    Refused(Error),
    /// It certainly did not, because the database was away.
    NotReached(Error),
    /// It may have.
    Unknown,
}

struct Transactions {
    link: Link,
    hints: Teller,
    measures: Arc<Measures>,
}

impl Transactions {
    async fn run(self, mut queue: mpsc::Receiver<Job>) {
        let mut waiting = VecDeque::new();
        let mut arrived = Vec::with_capacity(BATCH_LEN_MAX);
        loop {
            if waiting.is_empty() && queue.recv_many(&mut arrived, BATCH_LEN_MAX).await == 0 {
                return;
            }
            while arrived.len() < BATCH_LEN_MAX {
                let Ok(job) = queue.try_recv() else { break };
                arrived.push(job);
            }
            waiting.extend(arrived.drain(..));
            let batch = next_batch(&mut waiting);
            self.settle(batch).await;
        }
    }

    async fn settle(&self, batch: Vec<Job>) {
        let mut failed = self.transact(&batch).await;
        if let Err(Failed::NotReached(_)) = failed {
            // A connection from before the database was away; the second one says how it is.
            failed = self.transact(&batch).await;
        }
        match failed {
            Ok(verdicts) => {
                self.measures.batch_size.observe(batch.len() as f64);
                answer(batch, verdicts);
            }
            Err(Failed::Refused(error)) if batch.len() == 1 => {
                answer(batch, vec![Err(error.into())]);
            }
            // One of them cannot be stored: each alone, so that it fails alone.
            Err(Failed::Refused(_)) => {
                for job in batch {
                    Box::pin(self.settle(vec![job])).await;
                }
            }
            Err(Failed::NotReached(error)) => {
                let verdicts = batch.iter().map(|_| Err(error.clone().into())).collect();
                answer(batch, verdicts);
            }
            Err(Failed::Unknown) => self.find_out(batch).await,
        }
    }

    async fn transact(&self, batch: &[Job]) -> Result<Vec<Verdict>, Failed> {
        let connected = self.connected().await.map_err(Failed::NotReached)?;
        // A session that is to be created has no head yet that could be expected.
        let all_exist = batch.iter().all(|job| job.prepared.opening.is_none());
        match all_exist && self.transact_at_once(&connected, batch).await? {
            true => Ok(batch.iter().map(|job| Ok(job.prepared.head)).collect()),
            false => self.transact_one_by_one(&connected, batch).await,
        }
    }

    /// Appends all of them, or none; returns whether it could.
    async fn transact_at_once(&self, connected: &Connected, batch: &[Job]) -> Result<bool, Failed> {
        let mut in_order: Vec<_> = batch.iter().map(|job| &job.prepared).collect();
        in_order.sort_unstable_by_key(|prepared| prepared.session);
        let mut changes = Batch::default();
        in_order.into_iter().for_each(|prepared| changes.add(prepared));
        match changes.transact(connected).await {
            Ok(()) => {
                if changes.hints() {
                    self.hints.tell();
                }
                Ok(true)
            }
            Err(error) if is_lost(&error) => Err(Failed::Unknown),
            Err(error) => {
                // The commit has ended it already, unless something before could not be sent.
                drop(connected.run("ROLLBACK").await);
                if Batch::is_beaten(&error) {
                    return Ok(false);
                }
                Err(Failed::Refused(trouble(&error)))
            }
        }
    }

    /// One transaction: lock, judge, change, commit.
    async fn transact_one_by_one(
        &self,
        connected: &Connected,
        batch: &[Job],
    ) -> Result<Vec<Verdict>, Failed> {
        // Nothing has been committed before the commit was sent, whatever became of the rest.
        let not_committed = |error: tokio_postgres::Error| {
            if is_lost(&error) {
                return Failed::NotReached(trouble(&error));
            }
            Failed::Refused(trouble(&error))
        };
        let locked = lock(connected, batch).await.map_err(not_committed);
        let locked = locked.and_then(|rows| read_locked(rows).map_err(Failed::Refused));
        let (created, found) = match locked {
            Ok(sessions) => sessions,
            Err(failed) => {
                // When the connection is lost there is nothing to end.
                drop(connected.run("ROLLBACK").await);
                return Err(failed);
            }
        };
        let mut changes = Batch::default();
        let mut verdicts = Vec::with_capacity(batch.len());
        for Job { prepared, .. } in batch {
            let verdict = judge(prepared, &created, &found);
            if verdict.is_ok() {
                changes.add(prepared);
            }
            verdicts.push(verdict.map(|()| prepared.head));
        }
        match changes.commit(connected).await {
            Ok(()) => {}
            Err(error) if is_lost(&error) => return Err(Failed::Unknown),
            Err(error) => {
                // What could not even be sent has kept the commit from being sent, too: left open,
                // the transaction would take in the next batch and be committed along with it.
                drop(connected.run("ROLLBACK").await);
                return Err(Failed::Refused(trouble(&error)));
            }
        }
        if changes.hints() {
            self.hints.tell();
        }
        Ok(verdicts)
    }

    async fn connected(&self) -> Result<Arc<Connected>, Error> {
        let connected = self.link.connected().await?;
        let statements = [CREATE, LOCK].into_iter().chain(Batch::STATEMENTS);
        for statement in statements {
            if let Err(error) = connected.prepared(statement).await {
                return Err(trouble(&error));
            }
        }
        Ok(connected)
    }

    /// Asks the log what became of a commit whose answer was lost.
    async fn find_out(&self, mut batch: Vec<Job>) {
        let until = Instant::now() + ASK_FOR;
        while Instant::now() < until {
            let Ok(stored) = self.stored(&batch).await else {
                tokio::time::sleep(ASK_EVERY).await;
                continue;
            };
            let (done, open): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|job| stored.contains(&job.prepared.session));
            let verdicts = done.iter().map(|job| Ok(job.prepared.head)).collect();
            answer(done, verdicts);
            self.hints.tell();
            if open.is_empty() {
                return;
            }
            match self.transact(&open).await {
                Ok(verdicts) => return self.answer_beaten(open, verdicts).await,
                Err(Failed::Refused(error)) => {
                    let verdicts = open.iter().map(|_| Err(error.clone().into())).collect();
                    return answer(open, verdicts);
                }
                Err(Failed::NotReached(_) | Failed::Unknown) => batch = open,
            }
        }
        let error = Error::new(
            ErrorKind::Unknown,
            "the connection was lost during the commit, and the database does not come back",
        );
        let verdicts = batch.iter().map(|_| Err(error.clone().into())).collect();
        answer(batch, verdicts);
    }

    /// A session that did not exist could not be locked, so that its creation may have landed
    /// after the log was asked: whoever was beaten may have been beaten by its own first try.
    async fn answer_beaten(&self, batch: Vec<Job>, verdicts: Vec<Verdict>) {
        let stored = self.stored(&batch).await;
        let own = |(job, verdict): (&Job, Verdict)| match (&stored, verdict) {
            (_, Ok(head)) => Ok(head),
            (Ok(stored), Err(_)) if stored.contains(&job.prepared.session) => Ok(job.prepared.head),
            (Ok(_), Err(beaten)) => Err(beaten),
            // Who was beaten by whom cannot be told: then it is not known, and said to be.
            (Err(error), Err(_)) => Err(Error::new(ErrorKind::Unknown, error.to_string()).into()),
        };
        let verdicts = batch.iter().zip(verdicts).map(own).collect();
        answer(batch, verdicts);
    }

    /// Returns the sessions whose last entry of this batch is in the log.
    async fn stored(&self, batch: &[Job]) -> Result<HashSet<SessionId>, Error> {
        self.link.query(LOCK, &[&ids(batch)]).await?;
        let ends = batch.iter().filter_map(|job| job.prepared.entries.last());
        let (mut sessions, mut seqs, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for entry in ends {
            sessions.push(id(entry.session.bits()));
            seqs.push(number(entry.seq));
            hashes.push(entry.hash.as_bytes().to_vec());
        }
        let rows = self.link.query(STORED, &[&sessions, &seqs, &hashes]).await?;
        let session = |row: &Row| Ok(SessionId::from_bits(id_bits(row.get(0))?));
        rows.iter().map(session).collect()
    }
}

/// Takes a batch off the queue, each session at most once: two appends to one session need two
/// transactions, because the second is judged by what the first has done.
fn next_batch(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let mut sessions = HashSet::new();
    let mut batch = Vec::new();
    let mut later = VecDeque::new();
    while let Some(job) = waiting.pop_front() {
        if batch.len() < BATCH_LEN_MAX && sessions.insert(job.prepared.session) {
            batch.push(job);
        } else {
            later.push_back(job);
        }
    }
    *waiting = later;
    batch
}

fn answer(batch: Vec<Job>, verdicts: Vec<Verdict>) {
    debug_assert_eq!(batch.len(), verdicts.len(), "each job has its verdict");
    for (job, verdict) in batch.into_iter().zip(verdicts) {
        // Whoever asked may have gone away; what was stored stays stored.
        drop(job.answer.send(verdict));
    }
}

fn ids(batch: &[Job]) -> Vec<Vec<u8>> {
    let mut ids: Vec<_> = batch.iter().map(|job| id(job.prepared.session.bits())).collect();
    ids.sort_unstable();
    ids
}

/// The rows of sessions that were created and of those that were locked.
async fn lock(
    connected: &Connected,
    batch: &[Job],
) -> Result<(Vec<Row>, Vec<Row>), tokio_postgres::Error> {
    let ids = ids(batch);
    let locking: Values<'_> = &[&ids];
    let opening = || batch.iter().filter(|job| job.prepared.opening.is_some());
    if opening().next().is_none() {
        let (_, locked) = tokio::try_join!(
            biased;
            connected.run("BEGIN"),
            connected.query(LOCK, locking),
        )?;
        return Ok((Vec::new(), locked));
    }
    let mut columns = Created::default();
    opening().for_each(|job| columns.add(&job.prepared));
    let Created { id, tenant, seq, hash, epoch, owner, status, at, agent, parent, opened_by } =
        &columns;
    let creating: Values<'_> =
        &[id, tenant, seq, hash, epoch, owner, status, at, agent, parent, opened_by];
    let (_, created, locked) = tokio::try_join!(
        biased;
        connected.run("BEGIN"),
        connected.query(CREATE, creating),
        connected.query(LOCK, locking),
    )?;
    Ok((created, locked))
}

#[derive(Default)]
struct Created {
    id: Vec<Vec<u8>>,
    tenant: Vec<String>,
    seq: Vec<i64>,
    hash: Vec<Vec<u8>>,
    epoch: Vec<i64>,
    owner: Vec<Option<String>>,
    status: Vec<&'static str>,
    at: Vec<i64>,
    agent: Vec<Option<String>>,
    parent: Vec<Option<Vec<u8>>>,
    opened_by: Vec<Option<String>>,
}

impl Created {
    fn add(&mut self, prepared: &Prepared) {
        let Some(opening) = &prepared.opening else { return };
        self.id.push(id(prepared.session.bits()));
        self.tenant.push(opening.tenant.as_str().to_owned());
        self.seq.push(number(prepared.head.seq));
        self.hash.push(prepared.head.hash.as_bytes().to_vec());
        self.epoch.push(number(opening.epoch()));
        self.owner.push(opening.owner.as_ref().map(|owner| owner.as_str().to_owned()));
        self.status.push(prepared.rows.status.unwrap_or(SessionStatus::Idle).as_str());
        self.at.push(prepared.at.ms());
        let Rows { agent, parent, opened_by, .. } = &prepared.rows;
        self.agent.push(agent.clone());
        self.opened_by.push(opened_by.clone());
        self.parent.push(parent.map(|parent| id(parent.bits())));
    }
}

type Sessions = (HashSet<SessionId>, HashMap<SessionId, Found>);

fn read_locked((created, locked): (Vec<Row>, Vec<Row>)) -> Result<Sessions, Error> {
    let created = created.iter().map(|row| Ok(SessionId::from_bits(id_bits(row.get(0))?)));
    let mut found = HashMap::with_capacity(locked.len());
    for row in &locked {
        let head = Head { seq: unsigned(row.get(2))?, hash: digest(row.get(3))? };
        let session = SessionId::from_bits(id_bits(row.get(0))?);
        found.insert(session, Found { epoch: unsigned(row.get(1))?, head });
    }
    Ok((created.collect::<Result<_, Error>>()?, found))
}

fn judge(
    prepared: &Prepared,
    created: &HashSet<SessionId>,
    found: &HashMap<SessionId, Found>,
) -> Result<(), AppendError> {
    let found = found.get(&prepared.session).copied();
    match (&prepared.opening, found) {
        (Some(_), _) if created.contains(&prepared.session) => Ok(()),
        (Some(_), Some(found)) => Err(AppendError::HeadMoved { current: found.head }),
        (Some(_), None) => Err(AppendError::UnknownSession),
        (None, found) => prepared.verdict(found),
    }
}
