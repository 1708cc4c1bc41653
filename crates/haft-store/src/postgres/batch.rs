//! Many appends as few statements: each table's changes as arrays, one array per column.

use std::sync::atomic::{AtomicBool, Ordering};

use haft_core::SessionId;
use haft_core::journal::Head;
use tokio_postgres::error::SqlState;

use super::given;
use super::link::{Connected, Values};
use crate::append::{Fence, FollowedBy, Prepared, SNAPSHOT_FORMAT};
use crate::key::{id_bytes, number};
use crate::rows::{CallChange, CallStage, RetryChange, SessionStatus, WaitChange, word};

type Bytes = Vec<u8>;

pub(super) fn id(bits: u128) -> Bytes {
    id_bytes(bits).to_vec()
}

/// Declares the columns of one kind of change and the statement that carries them out.
macro_rules! changes {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $kind:ty),* $(,)? } $sql:literal) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name {
            $($column: Vec<$kind>,)*
        }

        impl $name {
            pub(super) const SQL: &'static str = $sql;

            fn push(&mut self, row: ($($kind,)*)) {
                let ($($column,)*) = row;
                $(self.$column.push($column);)*
            }

            /// Sends the changes, or nothing at all when there are none.
            pub(super) async fn send(
                &self,
                connected: &Connected,
            ) -> Result<(), tokio_postgres::Error> {
                let values: Values<'_> = &[$(&self.$column),*];
                if self.session.is_empty() {
                    return Ok(());
                }
                connected.execute(Self::SQL, values).await.map(|_| ())
            }
        }
    };
}

changes! {
    /// Where the logs end from here on, and where they must have ended until now, in which epoch.
    /// When one of them did not, the statement fails, and the whole transaction with it.
    Heads {
        session: Bytes, seq: i64, hash: Bytes, status: Option<&'static str>, at: i64,
        expected_seq: i64, expected_hash: Bytes, epoch: Option<i64>, config_seq: Option<i64>,
    }
    "WITH moved AS (
       UPDATE sessions SET head_seq = t.seq, head_hash = t.hash,
         status = coalesce(t.status, sessions.status), updated_at = t.at,
         config_seq = coalesce(t.config_seq, sessions.config_seq)
       FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[],
         $7::bytea[], $8::bigint[], $9::bigint[])
         AS t(session, seq, hash, status, at, expected_seq, expected_hash, epoch, config_seq)
       WHERE sessions.id = t.session AND sessions.head_seq = t.expected_seq
         AND sessions.head_hash = t.expected_hash AND sessions.epoch = coalesce(t.epoch, sessions.epoch)
       RETURNING 1)
     SELECT 1 / (count(*) = cardinality($1::bytea[]))::int FROM moved"
}

changes! {
    Events { session: Bytes, seq: i64, at: i64, format: i64, hash: Bytes, body: String }
    "INSERT INTO events (session, seq, at, format, hash, body)
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[],
       $6::text[])"
}

changes! {
    Snapshots { session: Bytes, seq: i64, format: i64, body: String }
    "INSERT INTO snapshots (session, seq, format, body)
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[])
     ON CONFLICT (session) DO UPDATE
     SET seq = excluded.seq, format = excluded.format, body = excluded.body"
}

changes! {
    NewCalls {
        session: Bytes, call: Bytes, tool: String, stage: &'static str, class: Option<String>,
        decided: Option<String>, at: i64, told: Option<String>, custom: Option<bool>,
    }
    "INSERT INTO calls (session, call, tool, stage, class, decided, updated_at, told, custom)
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::text[], $5::text[],
       $6::text[], $7::bigint[], $8::text[], $9::boolean[])
     ON CONFLICT (session, call) DO UPDATE SET
       stage = excluded.stage, class = excluded.class, updated_at = excluded.updated_at,
       told = excluded.told, custom = excluded.custom"
}

changes! {
    MovedCalls {
        session: Bytes, call: Bytes, stage: Option<&'static str>, class: Option<String>,
        decided: Option<String>, at: i64, told: Option<String>, custom: Option<bool>,
    }
    "UPDATE calls SET stage = coalesce(t.stage, calls.stage), class = t.class,
       decided = coalesce(t.decided, calls.decided), updated_at = t.at,
       custom = coalesce(t.custom, calls.custom),
       told = CASE WHEN t.stage = 'settled' THEN NULL WHEN t.told IS NULL THEN calls.told
         ELSE coalesce(calls.told || ',', '') || t.told END
     FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::bigint[],
       $7::text[], $8::boolean[])
       AS t(session, call, stage, class, decided, at, told, custom)
     WHERE calls.session = t.session AND calls.call = t.call"
}

changes! {
    ClosedWaits { session: Bytes, call: Bytes }
    "DELETE FROM waits USING unnest($1::bytea[], $2::bytea[]) AS t(session, call)
     WHERE waits.session = t.session AND waits.call = t.call"
}

changes! {
    OpenedWaits {
        session: Bytes, call: Bytes, round: i64, kind: String, expires_at: i64, since: i64,
    }
    "INSERT INTO waits
       (session, call, round, kind, tenant, opened_by, expires_at, since, unattended_since)
     SELECT t.session, t.call, t.round, t.kind, sessions.tenant, sessions.opened_by, t.expires_at,
       t.since, CASE WHEN t.kind = 'client_exec' AND NOT calls.custom THEN t.since END
     FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
       AS t(session, call, round, kind, expires_at, since)
     JOIN sessions ON sessions.id = t.session
     LEFT JOIN calls ON calls.session = t.session AND calls.call = t.call
     ON CONFLICT (session, call) DO UPDATE SET round = excluded.round, kind = excluded.kind,
       expires_at = excluded.expires_at, since = excluded.since,
       unattended_since = excluded.unattended_since, claimed_until = 0"
}

changes! {
    OverTimers { session: Bytes, call: Bytes }
    "DELETE FROM timers USING unnest($1::bytea[], $2::bytea[]) AS t(session, call)
     WHERE timers.session = t.session AND timers.call = t.call"
}

changes! {
    DueTimers { session: Bytes, call: Bytes, due_at: i64 }
    "INSERT INTO timers (session, call, due_at)
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])
     ON CONFLICT (session, call) DO UPDATE SET due_at = excluded.due_at, claimed_until = 0"
}

changes! {
    Wakes { session: Bytes, seq: i64, hold: i64, now: Option<i64> }
    "INSERT INTO wakes (session, seq, claimed_until)
     SELECT session, seq, CASE WHEN hold = 0 THEN 0 ELSE
       hold + coalesce(now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) END
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[]) AS t(session, seq, hold, now)
     ON CONFLICT (session) DO UPDATE
     SET seq = greatest(wakes.seq, excluded.seq), claimed_until = excluded.claimed_until"
}

changes! {
    /// A delivery for everyone who wants to hear of it.
    Notices { session: Bytes, seq: i64, kind: &'static str, at: i64 }
    "INSERT INTO deliveries (webhook, session, seq, kind, at, due_at)
     SELECT webhook, t.session, t.seq, t.kind, t.at, t.at
     FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[]) AS t(session, seq, kind, at)
     JOIN sessions ON sessions.id = t.session
     JOIN webhook_kinds ON webhook_kinds.tenant = sessions.tenant AND webhook_kinds.kind = t.kind"
}

/// Everything that a batch of accepted appends changes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    heads: Heads,
    events: Events,
    snapshots: Snapshots,
    new_calls: NewCalls,
    moved_calls: MovedCalls,
    closed_waits: ClosedWaits,
    opened_waits: OpenedWaits,
    over_timers: OverTimers,
    due_timers: DueTimers,
    wakes: Wakes,
    notices: Notices,
    hints: bool,
}

impl Batch {
    /// Every statement of a batch, to be prepared before the first one is sent.
    pub(super) const STATEMENTS: [&'static str; 11] = [
        Heads::SQL,
        Events::SQL,
        Snapshots::SQL,
        NewCalls::SQL,
        MovedCalls::SQL,
        ClosedWaits::SQL,
        OpenedWaits::SQL,
        OverTimers::SQL,
        DueTimers::SQL,
        Wakes::SQL,
        Notices::SQL,
    ];

    pub(super) fn add(&mut self, prepared: &Prepared) {
        let (head, at) = (prepared.head, prepared.at.ms());
        if prepared.opening.is_none() {
            let status = prepared.rows.status.map(SessionStatus::as_str);
            let hash = head.hash.as_bytes().to_vec();
            let Head { seq: expected, hash: expected_hash } = prepared.expected;
            let epoch = match prepared.fence {
                Fence::Owner { epoch } => Some(number(epoch)),
                Fence::Anyone => None,
            };
            self.heads.push((
                key(prepared.session),
                number(head.seq),
                hash,
                status,
                at,
                number(expected),
                expected_hash.as_bytes().to_vec(),
                epoch,
                prepared.config_seq().map(number),
            ));
        }
        for entry in &prepared.entries {
            let hash = entry.hash.as_bytes().to_vec();
            let (seq, format, body) =
                (number(entry.seq), i64::from(entry.format), entry.body.clone());
            self.events.push((key(prepared.session), seq, entry.at.ms(), format, hash, body));
        }
        if let Some(body) = &prepared.snapshot {
            let (seq, format) = (number(head.seq), i64::from(SNAPSHOT_FORMAT));
            self.snapshots.push((key(prepared.session), seq, format, body.clone()));
        }
        for change in &prepared.rows.calls {
            self.add_call(prepared, change);
        }
        for notice in &prepared.rows.notices {
            let seq = number(prepared.seq_of(notice));
            self.notices.push((key(prepared.session), seq, notice.kind.as_str(), at));
        }
        if prepared.wakes() {
            let (hold, now) = match prepared.followed_by {
                FollowedBy::Anyone => (0, None),
                FollowedBy::Appender { now, hold } => (number(hold.0), given(now)),
            };
            self.wakes.push((key(prepared.session), number(head.seq), hold, now));
        }
        self.hints |= prepared.hints();
    }

    fn add_call(&mut self, prepared: &Prepared, change: &CallChange) {
        let (session, call) = (key(prepared.session), id(change.call.bits()));
        let (at, told, custom) = (prepared.at.ms(), prepared.told(change), change.is_custom);
        let class = change.class.as_ref().map(word);
        // An actor, an id, a word and a number: there is nothing in it that JSON cannot hold.
        let decided = change.decided.as_ref().and_then(|it| serde_json::to_string(it).ok());
        let both = || (session.clone(), call.clone());
        match &change.wait {
            None => {}
            Some(WaitChange::Closed) => {
                let (session, call) = both();
                self.closed_waits.push((session, call));
            }
            Some(WaitChange::Opened { round, kind, expires_at }) => {
                let ((session, call), kind) = (both(), word(kind));
                let round = i64::from(*round);
                self.opened_waits.push((session, call, round, kind, expires_at.ms(), at));
            }
        }
        match &change.retry {
            None => {}
            Some(RetryChange::Over) => {
                let (session, call) = both();
                self.over_timers.push((session, call));
            }
            Some(RetryChange::Due(due)) => {
                let (session, call) = both();
                self.due_timers.push((session, call, due.ms()));
            }
        }
        match &change.asked_for {
            Some(tool) => {
                let stage = change.stage.unwrap_or(CallStage::Proposed);
                // What has come to its end in the append that tells of it for the first time is
                // told of no more.
                let told = told.filter(|_| stage != CallStage::Settled);
                let (tool, stage) = (tool.clone(), stage.as_str());
                let row = (session, call, tool, stage, class, decided, at, told, custom);
                self.new_calls.push(row);
            }
            None => {
                let stage = change.stage.map(CallStage::as_str);
                self.moved_calls.push((session, call, stage, class, decided, at, told, custom));
            }
        }
    }

    /// Whether anyone is to be told that there is something to look at.
    pub(super) const fn hints(&self) -> bool {
        self.hints
    }

    /// Sends everything as a transaction of its own. It fails with [`is_beaten`] when not all of
    /// the appends may go through.
    ///
    /// [`is_beaten`]: Self::is_beaten
    pub(super) async fn transact(
        &self,
        connected: &Connected,
    ) -> Result<(), tokio_postgres::Error> {
        tokio::try_join!(biased; connected.run("BEGIN"), self.commit(connected)).map(|_| ())
    }

    /// Whether a head was not where it was expected, or in another epoch.
    pub(super) fn is_beaten(error: &tokio_postgres::Error) -> bool {
        error.code() == Some(&SqlState::DIVISION_BY_ZERO)
    }

    /// Sends everything at once, the commit included: the server works through it in order, and
    /// commits nothing when a statement before has failed. When one cannot be sent, neither is the
    /// commit, and the transaction is for the caller to end.
    ///
    /// Every answer is waited for: the first failure says why, all others only that there was one.
    pub(super) async fn commit(&self, connected: &Connected) -> Result<(), tokio_postgres::Error> {
        let failed = &AtomicBool::new(false);
        let sent = tokio::join!(
            biased;
            unless(failed, self.heads.send(connected)),
            unless(failed, self.events.send(connected)),
            unless(failed, self.snapshots.send(connected)),
            unless(failed, self.new_calls.send(connected)),
            unless(failed, self.moved_calls.send(connected)),
            unless(failed, self.closed_waits.send(connected)),
            unless(failed, self.opened_waits.send(connected)),
            unless(failed, self.over_timers.send(connected)),
            unless(failed, self.due_timers.send(connected)),
            unless(failed, self.wakes.send(connected)),
            unless(failed, self.notices.send(connected)),
            unless(failed, connected.run("COMMIT")),
        );
        <[_; 12]>::from(sent).into_iter().collect()
    }
}

/// Sends nothing once something before it has failed.
async fn unless(
    failed: &AtomicBool,
    sending: impl Future<Output = Result<(), tokio_postgres::Error>>,
) -> Result<(), tokio_postgres::Error> {
    if failed.load(Ordering::Relaxed) {
        return Ok(());
    }
    let sent = sending.await;
    failed.fetch_or(sent.is_err(), Ordering::Relaxed);
    sent
}

fn key(session: SessionId) -> Bytes {
    id(session.bits())
}
