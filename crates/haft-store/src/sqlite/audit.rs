//! Checks the whole of a database file.
//!
//! Sessions are read from their table and not by an index, so that a damaged index hides none. One
//! transaction of a reader sees the store as of one commit, whoever writes meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use haft_core::journal::Head;
use haft_core::{CallId, Digest, SessionId};
use rusqlite::{Connection, Row, Rows, Statement, ffi};

use super::connection::{database_error, recognise, schema_known};
use super::erasures::erased_sessions;
use super::journal::Log;
use super::{Fault, authority, examine, mark};
use crate::audit::{AuditReport, CallRow, Damage, Fold, LogFault, StoredSession, WaitRow};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, small, unsigned};
use crate::session::RawSnapshot;

/// How many findings of SQLite's own check are told.
const FINDINGS_MAX: u32 = 100;

/// How many entries are held in memory at a time.
const CHUNK: usize = 1_000;

pub(crate) fn audit(
    directory: &Path,
    seen: &BTreeMap<SessionId, Head>,
) -> Result<AuditReport, Error> {
    let path = directory.join("haft.db");
    if !path.exists() {
        let context = format!("there is no `{}`", path.display());
        return Err(Error::new(ErrorKind::WrongFile, context));
    }
    let connection = examine::open(directory, &path)?;
    let recognised = recognise(&connection, &path).and_then(|()| require_known(&connection, &path));
    if let Err(error) = recognised {
        return damaged(error, AuditReport::default());
    }
    connection.execute_batch("BEGIN").map_err(|error| database_error(&error))?;
    let mut report = AuditReport::against(seen);
    if let Some(context) = mark::missing(&connection, directory)? {
        report.find(Damage::Log, None, context);
    }
    let mut report = look(&connection, report)?;
    report.take_gone();
    Ok(report)
}

/// Checks everything that a connection sees; damage that keeps a part from being read is a finding.
pub(super) fn look(connection: &Connection, mut report: AuditReport) -> Result<AuditReport, Error> {
    for finding in file_findings(connection)? {
        let damage = if is_of_index(&finding) { Damage::Index } else { Damage::File };
        report.find(damage, None, format!("SQLite's integrity_check: {finding}"));
    }
    type Part = fn(&Connection, &mut AuditReport) -> Result<(), Fault>;
    for part in [sessions as Part, orphans, contents, versions, erasures, authority::audit] {
        if let Err(error) = part(connection, &mut report).map_err(Error::from) {
            report = damaged(error, report)?;
        }
    }
    Ok(report)
}

/// Damage is a finding; everything else keeps the audit from being made.
fn damaged(error: Error, mut report: AuditReport) -> Result<AuditReport, Error> {
    match error.kind() {
        ErrorKind::Corrupt => {
            report.find(Damage::File, None, error.to_string());
            Ok(report)
        }
        _ => Err(error),
    }
}

fn require_known(connection: &Connection, path: &Path) -> Result<(), Error> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let version = version.map_err(|error| database_error(&error))?;
    let known = schema_known();
    if version == known {
        return Ok(());
    }
    let context = format!(
        "`{}` has schema version {version}, and this haft checks version {known}; start `haft \
         serve` once, which brings it up to date",
        path.display()
    );
    Err(Error::new(ErrorKind::Invalid, context))
}

/// What SQLite finds wrong with the file, its indexes included.
pub(super) fn file_findings(connection: &Connection) -> Result<Vec<String>, Error> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement =
            connection.prepare(&format!("PRAGMA integrity_check({FINDINGS_MAX})"))?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    let code = |error: &rusqlite::Error| error.sqlite_error().map(|it| it.extended_code & 0xff);
    match read() {
        Ok(findings) if findings == ["ok"] => Ok(Vec::new()),
        Ok(findings) => Ok(findings),
        Err(error) if code(&error) == Some(ffi::SQLITE_CORRUPT) => Ok(vec![error.to_string()]),
        Err(error) => Err(database_error(&error)),
    }
}

/// Whether a finding is about an index only, which can be built anew from its table.
fn is_of_index(finding: &str) -> bool {
    finding.contains(" missing from index ")
        || finding.starts_with("wrong # of entries in index ")
        || finding.starts_with("non-unique entry in index ")
        || finding.contains(" values differ from index ")
}

/// Checks the record of erased sessions.
fn erasures(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    report.take_erasures(&erased_sessions(connection, 0, u32::MAX)?);
    Ok(())
}

fn sessions(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    let mut statement = connection.prepare(CALLS)?;
    let mut calls = Calls::read(&mut statement)?;
    for (stored, log) in stored_sessions(connection)? {
        let mut stored = complete(connection, stored, log.key, &mut calls)?;
        stored.seen = report.notes.seen.get(&stored.session).copied();
        let folded = fold(connection, &stored, &log);
        report.take(&stored, folded);
    }
    Ok(())
}

/// Every session's row, in the order of the table.
pub(super) fn stored_sessions(connection: &Connection) -> Result<Vec<(StoredSession, Log)>, Fault> {
    let sql = "SELECT key, id, tenant, head_seq, head_hash, tail, status, agent, parent, opened_by
               FROM sessions NOT INDEXED ORDER BY key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(stored_session(row)?);
    }
    Ok(found)
}

fn stored_session(row: &Row<'_>) -> Result<(StoredSession, Log), Fault> {
    let session = SessionId::from_bits(id_bits(&row.get::<_, Vec<u8>>(1)?)?);
    let parent: Option<Vec<u8>> = row.get(8)?;
    let parent = parent.map(|parent| id_bits(&parent).map(SessionId::from_bits)).transpose()?;
    let hash: Vec<u8> = row.get(4)?;
    let head = Head { seq: unsigned(row.get(3)?)?, hash: digest(&hash)? };
    let log = Log { session, key: row.get(0)?, tail: row.get(5)? };
    let stored = StoredSession {
        session,
        tenant: row.get(2)?,
        head,
        status: row.get(6)?,
        agent: row.get(7)?,
        parent,
        opened_by: row.get(9)?,
        calls: BTreeMap::new(),
        snapshot: None,
        seen: None,
    };
    Ok((stored, log))
}

/// Reads every call, in the order of their sessions. The rows are sorted before the first is given
/// out, so that they may be changed meanwhile; no index is used, because it may be damaged.
pub(super) const CALLS: &str = "
    SELECT call, tool, stage, class, decided, updated_at, tenant, round, kind, since, expires_at,
      retry_at, session, opened_by, told, custom
    FROM calls NOT INDEXED ORDER BY session";

/// The rows of [`CALLS`], given out a session at a time.
pub(super) struct Calls<'a> {
    rows: Rows<'a>,
    next: Option<(i64, CallId, CallRow)>,
}

impl<'a> Calls<'a> {
    pub(super) fn read(statement: &'a mut Statement<'_>) -> Result<Self, Fault> {
        let mut calls = Self { rows: statement.query([])?, next: None };
        calls.advance()?;
        Ok(calls)
    }

    fn advance(&mut self) -> Result<(), Fault> {
        self.next = match self.rows.next()? {
            None => None,
            Some(row) => {
                let call = CallId::from_bits(id_bits(&row.get::<_, Vec<u8>>(0)?)?);
                Some((row.get(12)?, call, call_row(row)?))
            }
        };
        Ok(())
    }

    /// Returns the calls of a session; the keys that are asked for must rise.
    fn of(&mut self, key: i64) -> Result<BTreeMap<CallId, CallRow>, Fault> {
        let mut found = BTreeMap::new();
        while let Some((session, call, row)) = self.next.take_if(|(session, ..)| *session <= key) {
            if session == key {
                found.insert(call, row);
            }
            self.advance()?;
        }
        Ok(found)
    }
}

/// Adds what stands in other tables.
pub(super) fn complete(
    connection: &Connection,
    mut stored: StoredSession,
    key: i64,
    calls: &mut Calls<'_>,
) -> Result<StoredSession, Fault> {
    stored.calls = calls.of(key)?;
    let sql = "SELECT seq, format, body FROM snapshots
               WHERE place = (SELECT snapshot FROM sessions WHERE key = ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key])?;
    if let Some(row) = rows.next()? {
        let (seq, format) = (unsigned(row.get(0)?)?, small(row.get(1)?)?);
        stored.snapshot = Some(RawSnapshot { seq, format, body: row.get(2)? });
    }
    Ok(stored)
}

fn call_row(row: &Row<'_>) -> Result<CallRow, Fault> {
    let decided: Option<String> = row.get(4)?;
    let decided =
        decided.map(|it| serde_json::from_str(&it)).transpose().map_err(Error::corrupt)?;
    let wait = match row.get::<_, Option<i64>>(10)? {
        None => None,
        Some(expires_at) => Some(WaitRow {
            tenant: row.get::<_, Option<String>>(6)?.unwrap_or_default(),
            opened_by: row.get(13)?,
            round: small(row.get::<_, Option<i64>>(7)?.unwrap_or_default())?,
            kind: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
            since: row.get::<_, Option<i64>>(9)?.unwrap_or_default(),
            expires_at,
        }),
    };
    Ok(CallRow {
        tool: row.get(1)?,
        stage: row.get(2)?,
        class: row.get(3)?,
        decided,
        updated_at: row.get(5)?,
        wait,
        retry_at: row.get(11)?,
        told: row.get(14)?,
        is_custom: row.get(15)?,
    })
}

/// Reads a session's log from its beginning to its end.
pub(super) fn fold(
    connection: &Connection,
    stored: &StoredSession,
    log: &Log,
) -> Result<Fold, LogFault> {
    let mut fold = Fold::begin(stored);
    loop {
        let entries = log.some_after(connection, fold.head.seq, CHUNK);
        let entries = entries.map_err(|fault| LogFault(Error::from(fault).to_string()))?;
        if entries.is_empty() {
            return fold.finish(stored);
        }
        for entry in &entries {
            fold.take(entry)?;
        }
    }
}

/// Finds rows of sessions that are not there.
fn orphans(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    let absent = "NOT IN (SELECT key FROM sessions NOT INDEXED)";
    let count = |table: &str| {
        // Rows of erased sessions stay, emptied, as those of session 0.
        let sql = format!(
            "SELECT count(DISTINCT session) FROM {table} WHERE session <> 0 AND session {absent}"
        );
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
    };
    let n = count("events")?;
    if n > 0 {
        report.find(Damage::Log, None, format!("{n} logs belong to sessions that are missing"));
    }
    for (table, what) in [("calls", "calls"), ("wakes", "wakes"), ("snapshots", "snapshots")] {
        let n = count(table)?;
        if n > 0 {
            let message = format!("{what} of {n} sessions are there, and the sessions are not");
            report.find(Damage::Derived, None, message);
        }
    }
    let sql = "SELECT count(*) FROM deliveries JOIN sessions ON sessions.id = deliveries.session
               WHERE seq > head_seq";
    let n: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if n > 0 {
        let message = format!("{n} deliveries tell of entries that are not in the log");
        report.find(Damage::Derived, None, message);
    }
    Ok(())
}

/// Checks all content against its hash, and that what refers to content finds it.
fn contents(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    // Content that was erased leaves an empty row to which nothing refers.
    let mut statement = connection.prepare(
        "SELECT digest, body FROM blobs NOT INDEXED WHERE length(body) > 0
           OR digest IN (SELECT digest FROM versions) OR digest IN (SELECT digest FROM artifacts)",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let expected = digest(row.get_ref(0)?.as_blob().map_err(Error::corrupt)?)?;
        let body = row.get_ref(1)?.as_blob().map_err(Error::corrupt)?;
        if Digest::of_bytes(body) != expected {
            let message = format!("the content kept as {expected} does not match its hash");
            report.find(Damage::Content, None, message);
        }
    }
    let sql = "SELECT count(*) FROM artifacts LEFT JOIN blobs ON blobs.digest = artifacts.digest
               WHERE blobs.digest IS NULL OR length(body) <> bytes";
    let n: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if n > 0 {
        report.find(Damage::Content, None, format!("the content of {n} artifacts is missing"));
    }
    let n = connection.query_row("SELECT count(*) FROM artifacts", [], |row| row.get(0))?;
    report.artifacts = unsigned(n)?;
    Ok(())
}

/// Checks that every version has its content, and that none before the latest is missing.
fn versions(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    let sql = "SELECT count(*) FROM versions LEFT JOIN blobs ON blobs.digest = versions.digest
               WHERE versions.digest IS NOT NULL AND blobs.digest IS NULL";
    let n: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if n > 0 {
        report.find(Damage::Content, None, format!("the content of {n} versions is missing"));
    }
    let sql = "SELECT tenant, space, key FROM versions GROUP BY tenant, space, key
               HAVING min(number) <> 1 OR max(number) <> count(*)";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (tenant, space, key): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let message = format!("a version of `{key}` in `{space}` of `{tenant}` is missing");
        report.find(Damage::Content, None, message);
    }
    let n = connection.query_row("SELECT count(*) FROM versions", [], |row| row.get(0))?;
    report.versions = unsigned(n)?;
    Ok(())
}
