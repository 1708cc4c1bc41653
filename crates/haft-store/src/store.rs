//! The handle: one set of verbs over two databases.
//!
//! An enum and no trait: there are exactly two backends, both ours, and no caller is generic over
//! them. Arguments are values that a backend can send to its own thread or connection.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::journal::{Entry, Head};
use haft_core::session::Event;
use haft_core::{Actor, ArtifactId, CallId, Digest, Millis, SessionId, Timestamp};
use tokio::sync::watch;

use crate::append::{Append, AppendError, CreateError, Created, NewSession, Prepared};
use crate::client::ClientNote;
use crate::content::{
    ArtifactError, Document, Erasure, Hit, NewArtifact, Place, Put, PutError, Query,
    StoredArtifact, StoredVersion, VersionInfo, Which,
};
use crate::error::Error;
use crate::health::Health;
use crate::measure::{Measures, Standing};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
#[cfg(feature = "postgres")]
use crate::postgres::Postgres;
use crate::request::Request;
use crate::session::{
    AcquireError, FoundCall, Lease, ListedSession, Loaded, RawSession, SessionFilter, StoredCall,
    VerifyError,
};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::shared::Shared;
#[cfg(feature = "sqlite")]
use crate::sqlite::Sqlite;
use crate::watch::{ChangedBy, NodeHere, Watch, Watches};
use crate::work::{
    Abandoned, AbandonedCursor, Due, Looked, Moment, Pending, PendingCursor, PendingFilter, Wake,
};

/// How long without a hint before whoever waits for [`Changes`] looks anyway.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// How many entries [`Store::verify`] holds in memory at a time.
const VERIFY_CHUNK: u32 = 1_000;

/// A store, cheap to clone; the database is closed with the last clone.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Backend,
    measures: Arc<Measures>,
    health: Health,
    watches: Watches,
}

#[derive(Debug, Clone)]
enum Backend {
    #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
    Absent(Absent),
    #[cfg(feature = "postgres")]
    Postgres(Arc<Postgres>),
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<Sqlite>),
}

/// Stands for a backend in a program that has none. There are no values of it: such a program can
/// open no store.
#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
#[derive(Debug, Clone)]
struct Absent(std::convert::Infallible);

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
impl Absent {
    /// Returns whatever any verb returns, for it is never called.
    fn returns<T>(&self, _arguments: impl Sized) -> T {
        match self.0 {}
    }
}

/// Passes a call on to whichever backend there is.
macro_rules! on_backend {
    ($store:expr, $verb:ident($($argument:expr),*)) => {
        match &$store.backend {
            #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
            Backend::Absent(absent) => absent.returns(($($argument,)*)),
            #[cfg(feature = "postgres")]
            Backend::Postgres(postgres) => postgres.$verb($($argument),*).await,
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(sqlite) => sqlite.$verb($($argument),*).await,
        }
    };
}

mod erasures;
mod health;
mod notices;
mod requests;

pub use erasures::COPY_MARK;

#[haft_macros::boxed]
impl Store {
    /// Opens the embedded store in a directory, which is created if there is none. Needs the
    /// feature `sqlite`.
    ///
    /// # Errors
    ///
    /// When another process has it, it holds something else, a newer Haft wrote it, or it cannot
    /// be written to. [`ErrorKind::NotCompiled`](crate::ErrorKind::NotCompiled) without the
    /// feature.
    pub fn open_sqlite(directory: &Path) -> Result<Self, Error> {
        #[cfg(feature = "sqlite")]
        {
            let shared = Shared::new();
            let sqlite = Sqlite::open(directory, &shared)?;
            Ok(Self::over(Backend::Sqlite(Arc::new(sqlite)), shared))
        }
        #[cfg(not(feature = "sqlite"))]
        Err(Error::not_compiled(
            &format!("the directory `{}` needs SQLite", directory.display()),
            "sqlite",
        ))
    }

    /// Connects to a PostgreSQL database and brings its schema up to date. Needs the feature
    /// `postgres`, and `tls` for an address that asks for an encrypted connection.
    ///
    /// # Errors
    ///
    /// When it does not answer, or a newer Haft wrote it.
    /// [`ErrorKind::NotCompiled`](crate::ErrorKind::NotCompiled) without the features.
    pub async fn connect_postgres(url: &str) -> Result<Self, Error> {
        #[cfg(feature = "postgres")]
        {
            let shared = Shared::new();
            let postgres = Postgres::connect(url, &shared).await?;
            Ok(Self::over(Backend::Postgres(Arc::new(postgres)), shared))
        }
        // The rest of an address may hold a password.
        #[cfg(not(feature = "postgres"))]
        Err(Error::not_compiled(
            &match url.split_once("://") {
                Some((scheme, _)) => format!("the address `{scheme}://…` needs PostgreSQL"),
                None => "the address of a database needs PostgreSQL".to_owned(),
            },
            "postgres",
        ))
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn over(backend: Backend, shared: Shared) -> Self {
        let Shared { measures, health, watches } = shared;
        Self { backend, measures, health, watches }
    }

    /// Creates a session along with its first events.
    ///
    /// # Errors
    ///
    /// [`CreateError::Exists`] when there is one with this id.
    pub async fn create_session(&self, new: &NewSession) -> Result<Created, CreateError> {
        let prepared = Prepared::create(new)?;
        let epoch = u64::from(new.owner.is_some());
        match self.append_prepared(prepared, &new.events).await {
            Ok(head) => Ok(Created { head, epoch }),
            // A session that is there already has a head that has moved from the empty one, or
            // another epoch.
            Err(
                AppendError::HeadMoved { .. }
                | AppendError::Fenced { .. }
                | AppendError::UnknownSession,
            ) => Err(CreateError::Exists),
            Err(AppendError::Store(error)) => Err(error.into()),
        }
    }

    /// Appends events and everything derived from them, durably, and returns where the log ends.
    ///
    /// # Errors
    ///
    /// [`AppendError::Fenced`] or [`AppendError::HeadMoved`] when someone else was first.
    pub async fn append(&self, append: &Append) -> Result<Head, AppendError> {
        let prepared = Prepared::append(append)?;
        self.append_prepared(prepared, &append.events).await
    }

    async fn append_prepared(
        &self,
        prepared: Prepared,
        events: &[Event],
    ) -> Result<Head, AppendError> {
        let started = Instant::now();
        let appended: Result<Head, AppendError> = on_backend!(self, append(prepared));
        if appended.is_ok() {
            self.measures.append_seconds.observe_time(started.elapsed());
            self.measures.count(events);
        }
        appended
    }

    /// Returns whether no other process can open it while this one has it.
    pub fn is_of_one_process(&self) -> bool {
        match &self.backend {
            #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
            Backend::Absent(absent) => absent.returns(()),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => false,
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => true,
        }
    }

    /// Returns what this handle and its clones have done so far.
    pub fn measures(&self) -> &Measures {
        &self.measures
    }

    /// Counts what waits, over all nodes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn standing(&self) -> Result<Standing, Error> {
        on_backend!(self, standing())
    }

    /// Loads a session: its latest snapshot and what was appended since.
    ///
    /// # Errors
    ///
    /// When what is stored is not what was written.
    pub async fn load(&self, session: SessionId) -> Result<Option<Loaded>, Error> {
        self.measures.count_load();
        let read: Result<Option<RawSession>, Error> =
            on_backend!(self, read_session(session, Whole::FromSnapshot));
        let Some(raw) = read? else { return Ok(None) };
        if let Some(loaded) = raw.fold()? {
            return Ok(Some(loaded));
        }
        let read: Result<Option<RawSession>, Error> =
            on_backend!(self, read_session(session, Whole::Log));
        match read? {
            Some(raw) => raw.fold(),
            None => Ok(None),
        }
    }

    /// Returns whose a session is, without reading its log.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn tenant(&self, session: SessionId) -> Result<Option<Tenant>, Error> {
        on_backend!(self, tenant(session))
    }

    /// Returns a session's entries after a place, in order.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn entries(
        &self,
        session: SessionId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        self.measures.log_read();
        on_backend!(self, entries(session, after, limit))
    }

    /// As [`Store::entries`], and stops after the entry with which their bodies have `bytes_max`
    /// bytes or more; SQLite gives the rest of that entry's append along with it. So there may be
    /// more when there are as many entries or as many bytes as were asked for.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn entries_within(
        &self,
        session: SessionId,
        after: u64,
        limit: u32,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, Error> {
        self.measures.log_read();
        on_backend!(self, entries_within(session, after, limit, bytes_max))
    }

    /// Returns the entries at these places, of whatever sessions, in one read and in no particular
    /// order; those that are not there are left out.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn entries_at(&self, places: Vec<(SessionId, u64)>) -> Result<Vec<Entry>, Error> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        on_backend!(self, entries_at(places))
    }

    /// Checks a session's whole log against its hashes and the session's row.
    ///
    /// # Errors
    ///
    /// When an entry was changed, moved, left out or cut off, and which.
    pub async fn verify(&self, session: SessionId) -> Result<Head, VerifyError> {
        let mut head = Head::EMPTY;
        loop {
            let entries = self.entries(session, head.seq, VERIFY_CHUNK).await?;
            for entry in &entries {
                head.verify(entry)?;
            }
            if !entries.is_empty() {
                continue;
            }
            let stored: Result<Option<Head>, Error> = on_backend!(self, head(session));
            let stored = stored?.ok_or(VerifyError::UnknownSession)?;
            if stored == head {
                return Ok(head);
            }
            // Someone may have appended before the row was read; then there is more to read.
            let more =
                stored.seq > head.seq && !self.entries(session, head.seq, 1).await?.is_empty();
            if !more {
                return Err(VerifyError::Cut { expected: stored.seq, found: head.seq });
            }
        }
    }

    /// Says that a node is alive for a while; returns until when. Nodes that died a day ago and
    /// left nothing behind are forgotten.
    ///
    /// # Errors
    ///
    /// When it cannot be stored; the node must then stop before its lease has run out.
    pub async fn heartbeat(
        &self,
        node: &NodeId,
        now: Moment,
        ttl: Millis,
    ) -> Result<Timestamp, Error> {
        let until: Result<Timestamp, Error> = on_backend!(self, heartbeat(node.clone(), now, ttl));
        if until.is_ok() {
            self.measures.heart_beat();
        }
        until
    }

    /// Takes a session over, if nobody alive owns it. The epoch moves on, so that whoever owned
    /// it can append no more, this very node included.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Held`] when another node that is alive owns it.
    pub async fn acquire(
        &self,
        session: SessionId,
        node: &NodeId,
        now: Moment,
    ) -> Result<Lease, AcquireError> {
        on_backend!(self, acquire(session, node.clone(), now))
    }

    /// Gives a session back, and says that a wake of it has been dealt with; a lease that someone
    /// else has taken over is left alone.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn release(&self, lease: &Lease, finished: Option<Wake>) -> Result<(), Error> {
        on_backend!(self, release(lease.clone(), finished))
    }

    /// Returns the sessions that this node or a dead one owns. Those that nobody works on here were
    /// left behind, with whatever was running. There are as many as are at work, not as are stored.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn owned_or_orphaned(
        &self,
        node: &NodeId,
        now: Moment,
    ) -> Result<Vec<SessionId>, Error> {
        on_backend!(self, owned_or_orphaned(node.clone(), now))
    }

    /// Takes a node out: its sessions are given back and its heartbeat ends.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn retire(&self, node: &NodeId) -> Result<(), Error> {
        on_backend!(self, retire(node.clone()))
    }

    /// Returns what is known about a call, also about one of an earlier turn.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn call(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<StoredCall>, Error> {
        on_backend!(self, call(session, call))
    }

    /// Finds a tenant's calls by their ids, whatever their sessions, the newest first. For people
    /// who have the id of a call and nothing else: PostgreSQL looks at every call for it.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn calls_between(
        &self,
        tenant: &Tenant,
        ids: RangeInclusive<CallId>,
        limit: u32,
    ) -> Result<Vec<FoundCall>, Error> {
        on_backend!(self, calls_between(tenant.clone(), ids, limit))
    }

    /// Lists sessions, the newest first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn sessions(
        &self,
        filter: &SessionFilter,
        page: &Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        on_backend!(self, sessions(filter.clone(), page.clone()))
    }

    /// Lists what waits for someone outside: calls in doubt first, then the nearest deadline.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn pending(
        &self,
        filter: &PendingFilter,
        page: &Page<PendingCursor>,
    ) -> Result<Vec<Pending>, Error> {
        on_backend!(self, pending(filter.clone(), page.clone()))
    }

    /// Claims what is due for `hold`: waits that have run out, which any node can end, and retries
    /// of sessions that the node owns or nobody alive does. It is found again when nothing has come
    /// of it by then.
    ///
    /// # Errors
    ///
    /// When it cannot be read or claimed.
    pub async fn claim_due(
        &self,
        node: &NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Due>, Error> {
        on_backend!(self, claim_due(node.clone(), now, hold, limit))
    }

    /// Returns when the next thing falls due, claimed or not; `None` when nothing will.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        on_backend!(self, next_due())
    }

    /// Claims sessions to look at for `hold`: those that the node owns, and those that nobody
    /// alive owns.
    ///
    /// # Errors
    ///
    /// When they cannot be read or claimed.
    pub async fn claim_wakes(
        &self,
        node: &NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Wake>, Error> {
        on_backend!(self, claim_wakes(node.clone(), now, hold, limit))
    }

    /// Marks a session as one to look at, whoever owns it.
    ///
    /// # Errors
    ///
    /// When there is no such session, or it cannot be stored.
    pub async fn wake(&self, session: SessionId) -> Result<(), Error> {
        on_backend!(self, wake(session))
    }

    /// Says that a wake has been dealt with; one that came later stays.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn finish_wake(&self, wake: Wake) -> Result<(), Error> {
        on_backend!(self, finish_wake(wake))
    }

    /// Says which clients are connected to a node, and which are no more. They count for as long as
    /// the node is alive.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn note_clients(
        &self,
        node: &NodeId,
        notes: Vec<ClientNote>,
        now: Moment,
    ) -> Result<(), Error> {
        on_backend!(self, note_clients(node.clone(), notes, now))
    }

    /// Returns for how long no client for a tool of a session has been connected to any node: zero
    /// while one is, `None` when none has been seen of late.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn client_away_for(
        &self,
        session: SessionId,
        tool: &str,
        now: Moment,
    ) -> Result<Option<Millis>, Error> {
        on_backend!(self, client_away_for(session, tool.to_owned(), now))
    }

    /// Waits for changes of a session from here on, on whatever node they are made. It costs the
    /// store nothing until there is one. A change may be told although nothing is new, and over
    /// PostgreSQL some seconds late when a notice between nodes is lost.
    pub fn watch(&self, session: SessionId, changed_by: ChangedBy) -> Watch {
        self.watches.watch(session, changed_by)
    }

    /// Says that a node works over this handle and its clones, until what is returned is dropped.
    pub fn enter_node(&self) -> NodeHere {
        NodeHere::enter(&self.watches)
    }

    /// Tells whoever watches a session, on whatever node, that something which belongs to it but
    /// not to its log has changed. An append tells them by itself.
    pub fn touch(&self, session: SessionId) {
        self.watches.touched(session);
        match &self.backend {
            #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
            Backend::Absent(absent) => absent.returns(()),
            #[cfg(feature = "postgres")]
            Backend::Postgres(postgres) => postgres.touched(session),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => {}
        }
    }

    /// Returns a count that grows whenever another node says that it changed something, about
    /// whatever session. Over SQLite it stays as it is.
    pub fn other_nodes(&self) -> watch::Receiver<u64> {
        self.watches.others()
    }

    /// Returns calls whose client has been away for `grace` at least, those that have waited longest
    /// first. A call that a client is there for is looked at once and not again before that client
    /// leaves, so that this costs what there is to do and not what waits. Calls that the program of
    /// a session answers for are never among them.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn abandoned(
        &self,
        grace: Millis,
        now: Moment,
        page: &Page<AbandonedCursor>,
    ) -> Result<Vec<Abandoned>, Error> {
        loop {
            let looked: Result<Looked, Error> =
                on_backend!(self, abandoned(grace, now, page.clone()));
            let Looked { abandoned, is_full } = looked?;
            // Those that a client was there for are out of the way: more may stand behind them.
            if !abandoned.is_empty() || !is_full {
                return Ok(abandoned);
            }
        }
    }

    /// Returns hints that there may be wakes to claim.
    pub fn changes(&self) -> Changes {
        let hints = match &self.backend {
            #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
            Backend::Absent(absent) => absent.returns(()),
            #[cfg(feature = "postgres")]
            Backend::Postgres(postgres) => postgres.hints(),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(sqlite) => sqlite.hints(),
        };
        Changes { hints }
    }

    /// Keeps an artifact, and returns the hash of its bytes. The same again changes nothing.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::Taken`] when the id stands for something else.
    pub async fn put_artifact(
        &self,
        new: &NewArtifact,
        body: Vec<u8>,
    ) -> Result<Digest, ArtifactError> {
        on_backend!(self, put_artifact(new.clone(), body))
    }

    /// Reads an artifact of a tenant and checks it against its hash.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not what was kept.
    pub async fn artifact(
        &self,
        tenant: &Tenant,
        id: ArtifactId,
    ) -> Result<Option<StoredArtifact>, Error> {
        on_backend!(self, artifact(tenant.clone(), id))
    }

    /// Writes versions, all or none; returns the number of each.
    ///
    /// # Errors
    ///
    /// [`PutError::Moved`] when a place is not as its writer saw it.
    pub async fn put_versions(
        &self,
        puts: Vec<Put>,
        by: &Actor,
        at: Timestamp,
    ) -> Result<Vec<u64>, PutError> {
        self.write_versions(puts, Vec::new(), by, at).await
    }

    /// Erases the content of versions for ever, and writes others in the same step; returns the
    /// numbers of those that were written. The bytes go unless a version or an artifact that stays
    /// has the same.
    ///
    /// An erased version keeps its number, its author and its time, and reads like one that says
    /// that the content is gone: where it is the latest, there is nothing any more.
    ///
    /// # Errors
    ///
    /// [`PutError::Moved`] when a place is not as its writer saw it; nothing is erased then.
    pub async fn erase(
        &self,
        erasures: Vec<Erasure>,
        puts: Vec<Put>,
        by: &Actor,
        at: Timestamp,
    ) -> Result<Vec<u64>, PutError> {
        self.write_versions(puts, erasures, by, at).await
    }

    /// Reads a version and checks it against its hash.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not what was written.
    pub async fn version(
        &self,
        place: &Place,
        which: Which,
    ) -> Result<Option<StoredVersion>, Error> {
        let before = match which {
            Which::Latest => Request::current().and_then(|request| request.version_before(place)),
            Which::Number(_) => None,
        };
        let Some(before) = before else {
            return on_backend!(self, version(place.clone(), which));
        };
        let seen: Result<Option<StoredVersion>, Error> =
            on_backend!(self, version(place.clone(), Which::Number(before)));
        match seen? {
            // What was erased meanwhile is seen as it is now.
            Some(gone) if gone.body.is_none() => on_backend!(self, version(place.clone(), which)),
            seen => Ok(seen),
        }
    }

    /// Lists the versions of a place, the latest first; a page goes on below a number.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn versions(
        &self,
        place: &Place,
        page: &Page<u64>,
    ) -> Result<Vec<VersionInfo>, Error> {
        on_backend!(self, versions(place.clone(), page.clone()))
    }

    /// Lists the keys of a space that have content, in order, each with its latest version.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn keys(
        &self,
        tenant: &Tenant,
        space: &str,
        page: &Page<String>,
    ) -> Result<Vec<(String, VersionInfo)>, Error> {
        on_backend!(self, keys(tenant.clone(), space.to_owned(), page.clone()))
    }

    /// Makes a document findable by its words.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn index(&self, document: &Document) -> Result<(), Error> {
        on_backend!(self, index(document.clone()))
    }

    /// Takes a document out of the index; none there is fine.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn unindex(&self, place: &Place) -> Result<(), Error> {
        on_backend!(self, unindex(place.clone()))
    }

    /// Finds documents that hold all of the words; none are found for no words.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn search(&self, query: &Query) -> Result<Vec<Hit>, Error> {
        on_backend!(self, search(query.clone()))
    }
}

/// How much of a log a backend reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    FromSnapshot,
    Log,
}

/// Hints that there may be something to claim. They may come too often, and never too late by
/// more than a second: what is true is what [`Store::claim_wakes`] and [`Store::claim_due`] say.
#[derive(Debug)]
pub struct Changes {
    hints: watch::Receiver<u64>,
}

#[haft_macros::boxed]
impl Changes {
    /// Waits until it is worth looking.
    pub async fn changed(&mut self) {
        let hint = async {
            if self.hints.changed().await.is_err() {
                // The store is closed: nothing hints any more, and looking in a loop helps nobody.
                std::future::pending::<()>().await;
            }
        };
        // That a second has passed is as good a reason to look as a hint.
        drop(tokio::time::timeout(POLL_EVERY, hint).await);
    }
}
