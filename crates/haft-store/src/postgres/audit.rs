//! Checks the whole of a PostgreSQL database, as it is at one moment.

use std::collections::BTreeMap;

use haft_core::journal::{Entry, Head};
use haft_core::{CallId, Digest, SessionId};
use tokio_postgres::Row;

use super::address::{Address, Setting};
use super::batch::id;
use super::erasures::erased_session;
use super::link::{Connected, Link, Values, trouble};
use super::{authority, column, schema};
use crate::audit::{AuditReport, CallRow, Damage, Fold, LogFault, StoredSession, WaitRow};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, moment, number, small, unsigned};
use crate::session::RawSnapshot;

/// How many rows of a table are held in memory at a time.
const SESSIONS: i64 = 200;
const ENTRIES: i64 = 1_000;
const BLOBS: i64 = 50;

/// The session's transaction is as long as the whole check.
const PATIENT: &[Setting] = &[("idle_in_transaction_session_timeout", "0")];

const SESSION: &str = "
    SELECT id, tenant, head_seq, head_hash, status, agent, parent, snapshots.seq, format, body,
      opened_by
    FROM sessions LEFT JOIN snapshots ON session = id WHERE id = $1";

const PAGE: &str = "
    SELECT id FROM sessions WHERE $1::bytea IS NULL OR id > $1 ORDER BY id LIMIT $2";

const CALLS: &str = "
    SELECT coalesce(calls.call, waits.call, timers.call), coalesce(tool, ''), coalesce(stage, ''),
      class, decided, coalesce(updated_at, 0), tenant, round, kind, since, expires_at, due_at,
      waits.opened_by, told, custom
    FROM (SELECT * FROM calls WHERE session = $1) AS calls
    FULL JOIN (SELECT * FROM waits WHERE session = $1) AS waits ON waits.call = calls.call
    FULL JOIN (SELECT * FROM timers WHERE session = $1) AS timers
      ON timers.call = coalesce(calls.call, waits.call)";

/// What is read in one transaction of one connection.
pub(super) struct Reading<'a>(pub(super) &'a Connected);

pub(crate) async fn audit(
    url: &str,
    seen: &BTreeMap<SessionId, Head>,
) -> Result<AuditReport, Error> {
    let address = Address::parse(url)?.for_migrations().with_settings(PATIENT);
    let link = Link::new(&address);
    let connected = link.connected().await?;
    let begun = connected.run("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
    begun.map_err(|error| trouble(&error))?;
    let reading = Reading(&connected);
    reading.require_known().await?;
    let mut report = AuditReport::against(seen);
    reading.sessions(&mut report).await?;
    reading.orphans(&mut report).await?;
    reading.contents(&mut report).await?;
    reading.versions(&mut report).await?;
    reading.erasures(&mut report).await?;
    authority::audit(&reading, &mut report).await?;
    report.take_gone();
    Ok(report)
}

impl Reading<'_> {
    async fn query(&self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        self.0.query(sql, values).await.map_err(|error| trouble(&error))
    }

    async fn count(&self, sql: &'static str) -> Result<u64, Error> {
        let rows = self.query(sql, &[]).await?;
        unsigned(rows.first().map_or(Ok(0), |row| column(row, 0))?)
    }

    async fn require_known(&self) -> Result<(), Error> {
        let rows = self.query("SELECT to_regclass('haft_schema') IS NOT NULL", &[]).await?;
        let is_ours = rows.first().map_or(Ok(false), |row| column(row, 0))?;
        let version = match is_ours {
            true => self.count("SELECT coalesce(max(version), 0) FROM haft_schema").await?,
            false => 0,
        };
        let known = schema::known();
        if version == u64::from(known) {
            return Ok(());
        }
        let context = format!(
            "the database has schema version {version}, and this haft checks version {known}; \
             start `haft serve` once, which brings it up to date"
        );
        Err(Error::new(ErrorKind::Invalid, context))
    }

    /// Checks the record of erased sessions.
    async fn erasures(&self, report: &mut AuditReport) -> Result<(), Error> {
        let sql = "SELECT number, session, tenant, head_seq, head_hash, author, at, hash
                   FROM erasures ORDER BY number";
        let rows = self.query(sql, &[]).await?;
        let erased: Result<Vec<_>, _> = rows.iter().map(erased_session).collect();
        report.take_erasures(&erased?);
        Ok(())
    }

    async fn sessions(&self, report: &mut AuditReport) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.page(after.take()).await?;
            for session in &page {
                let Some(mut stored) = self.session(*session).await? else { continue };
                stored.seen = report.notes.seen.get(session).copied();
                let folded = self.fold(&stored).await?;
                report.take(&stored, folded);
            }
            match page.last() {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }

    /// Returns the sessions after one, in the order of their ids.
    pub(super) async fn page(&self, after: Option<SessionId>) -> Result<Vec<SessionId>, Error> {
        let after = after.map(|after| id(after.bits()));
        let rows = self.query(PAGE, &[&after, &SESSIONS]).await?;
        rows.iter().map(|row| Ok(SessionId::from_bits(id_bits(column(row, 0)?)?))).collect()
    }

    /// Reads what stands beside a session's log.
    pub(super) async fn session(&self, session: SessionId) -> Result<Option<StoredSession>, Error> {
        let key = id(session.bits());
        let rows = self.query(SESSION, &[&key]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut calls = BTreeMap::new();
        for row in self.query(CALLS, &[&key]).await? {
            calls.insert(CallId::from_bits(id_bits(column(&row, 0)?)?), call_row(&row)?);
        }
        let parent: Option<&[u8]> = column(row, 6)?;
        let parent = parent.map(|parent| id_bits(parent).map(SessionId::from_bits)).transpose()?;
        let snapshot = match column::<Option<i64>>(row, 7)? {
            None => None,
            Some(seq) => Some(RawSnapshot {
                seq: unsigned(seq)?,
                format: small(column(row, 8)?)?,
                body: column(row, 9)?,
            }),
        };
        Ok(Some(StoredSession {
            session,
            tenant: column(row, 1)?,
            head: Head { seq: unsigned(column(row, 2)?)?, hash: digest(column(row, 3)?)? },
            status: column(row, 4)?,
            agent: column(row, 5)?,
            parent,
            opened_by: column(row, 10)?,
            calls,
            snapshot,
            seen: None,
        }))
    }

    /// Reads a session's log from its beginning to its end; what is wrong with it is no error.
    pub(super) async fn fold(
        &self,
        stored: &StoredSession,
    ) -> Result<Result<Fold, LogFault>, Error> {
        let mut fold = Fold::begin(stored);
        loop {
            let entries = self.entries(stored.session, fold.head.seq).await?;
            if entries.is_empty() {
                return Ok(fold.finish(stored));
            }
            for entry in &entries {
                if let Err(fault) = fold.take(entry) {
                    return Ok(Err(fault));
                }
            }
        }
    }

    async fn entries(&self, session: SessionId, after: u64) -> Result<Vec<Entry>, Error> {
        let sql = "SELECT seq, at, format, hash, body FROM events
                   WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let rows = self.query(sql, &[&id(session.bits()), &number(after), &ENTRIES]).await?;
        let entry = |row: &Row| {
            Ok(Entry {
                session,
                seq: unsigned(column(row, 0)?)?,
                at: moment(column(row, 1)?),
                format: small(column(row, 2)?)?,
                hash: digest(column(row, 3)?)?,
                body: column(row, 4)?,
            })
        };
        rows.iter().map(entry).collect()
    }

    /// Finds rows of sessions that are not there.
    async fn orphans(&self, report: &mut AuditReport) -> Result<(), Error> {
        let sql = "SELECT count(*) FROM (SELECT DISTINCT session FROM events) AS logs
                   WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)";
        let n = self.count(sql).await?;
        if n > 0 {
            report.find(Damage::Log, None, format!("{n} logs belong to sessions that are missing"));
        }
        let sql = "SELECT count(*) FROM (
                     SELECT session FROM calls UNION SELECT session FROM waits
                     UNION SELECT session FROM timers UNION SELECT session FROM wakes
                     UNION SELECT session FROM snapshots) AS rows
                   WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)";
        let n = self.count(sql).await?;
        if n > 0 {
            let message = format!("rows of {n} sessions are there, and the sessions are not");
            report.find(Damage::Derived, None, message);
        }
        let sql = "SELECT count(*) FROM deliveries JOIN sessions ON id = session
                   WHERE seq > head_seq";
        let n = self.count(sql).await?;
        if n > 0 {
            let message = format!("{n} deliveries tell of entries that are not in the log");
            report.find(Damage::Derived, None, message);
        }
        Ok(())
    }

    /// Checks all content against its hash, and that what refers to content finds it.
    async fn contents(&self, report: &mut AuditReport) -> Result<(), Error> {
        let sql = "SELECT digest, body FROM blobs WHERE $1::bytea IS NULL OR digest > $1
                   ORDER BY digest LIMIT $2";
        let mut after: Option<Vec<u8>> = None;
        loop {
            let rows = self.query(sql, &[&after, &BLOBS]).await?;
            for row in &rows {
                let expected = digest(column(row, 0)?)?;
                if Digest::of_bytes(column(row, 1)?) != expected {
                    let message = format!("the content kept as {expected} does not match its hash");
                    report.find(Damage::Content, None, message);
                }
            }
            match rows.last() {
                Some(row) => after = Some(column(row, 0)?),
                None => break,
            }
        }
        let sql = "SELECT count(*) FROM artifacts LEFT JOIN blobs USING (digest)
                   WHERE body IS NULL OR length(body) <> bytes";
        let n = self.count(sql).await?;
        if n > 0 {
            report.find(Damage::Content, None, format!("the content of {n} artifacts is missing"));
        }
        report.artifacts = self.count("SELECT count(*) FROM artifacts").await?;
        Ok(())
    }

    /// Checks that every version has its content, and that none before the latest is missing.
    async fn versions(&self, report: &mut AuditReport) -> Result<(), Error> {
        let sql = "SELECT count(*) FROM versions LEFT JOIN blobs USING (digest)
                   WHERE versions.digest IS NOT NULL AND body IS NULL";
        let n = self.count(sql).await?;
        if n > 0 {
            report.find(Damage::Content, None, format!("the content of {n} versions is missing"));
        }
        let sql = "SELECT tenant, space, key FROM versions GROUP BY tenant, space, key
                   HAVING min(number) <> 1 OR max(number) <> count(*)";
        for row in self.query(sql, &[]).await? {
            let (tenant, space, key): (&str, &str, &str) =
                (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
            let message = format!("a version of `{key}` in `{space}` of `{tenant}` is missing");
            report.find(Damage::Content, None, message);
        }
        report.versions = self.count("SELECT count(*) FROM versions").await?;
        Ok(())
    }
}

fn call_row(row: &Row) -> Result<CallRow, Error> {
    let decided: Option<&str> = column(row, 4)?;
    let decided = decided.map(serde_json::from_str).transpose().map_err(Error::corrupt)?;
    let wait = match column::<Option<i64>>(row, 10)? {
        None => None,
        Some(expires_at) => Some(WaitRow {
            tenant: column(row, 6)?,
            opened_by: column(row, 12)?,
            round: small(column(row, 7)?)?,
            kind: column(row, 8)?,
            since: column(row, 9)?,
            expires_at,
        }),
    };
    Ok(CallRow {
        tool: column(row, 1)?,
        stage: column(row, 2)?,
        class: column(row, 3)?,
        decided,
        updated_at: column(row, 5)?,
        wait,
        retry_at: column(row, 11)?,
        told: column(row, 13)?,
        is_custom: column(row, 14)?,
    })
}
