//! An append, as statements in the writer's transaction.

use haft_core::journal::Head;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use crate::append::{AppendError, Found, Opening, Prepared, SNAPSHOT_FORMAT};
use crate::error::Error;
use crate::key::{digest, id_bytes, number, unsigned};
use crate::rows::{CallChange, RetryChange, SessionStatus, WaitChange, word};

type Verdict = rusqlite::Result<Result<Head, AppendError>>;

pub(super) fn append(connection: &Connection, prepared: &Prepared) -> Verdict {
    let found = match found(connection, prepared)? {
        Ok(found) => found,
        Err(error) => return Ok(Err(error.into())),
    };
    match (&prepared.opening, found) {
        (Some(opening), None) => create(connection, prepared, opening)?,
        (Some(_), Some(found)) => {
            return Ok(Err(AppendError::HeadMoved { current: found.head }));
        }
        (None, found) => {
            if let Err(refusal) = prepared.verdict(found) {
                return Ok(Err(refusal));
            }
            advance(connection, prepared)?;
        }
    }
    write_entries(connection, prepared)?;
    for change in &prepared.rows.calls {
        write_call(connection, prepared, change)?;
    }
    if let Some(snapshot) = &prepared.snapshot {
        cached(
            connection,
            "INSERT INTO snapshots (session, seq, format, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (session) DO UPDATE
             SET seq = excluded.seq, format = excluded.format, body = excluded.body",
        )?
        .execute(params![
            session(prepared),
            number(prepared.head.seq),
            SNAPSHOT_FORMAT,
            snapshot
        ])?;
    }
    if prepared.wakes() {
        wake(connection, session(prepared), prepared.head.seq)?;
    }
    Ok(Ok(prepared.head))
}

/// Marks a session as one to look at. Whoever holds an earlier wake does not hold this one.
pub(super) fn wake(connection: &Connection, session: [u8; 16], seq: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO wakes (session, seq) VALUES (?1, ?2)
               ON CONFLICT (session) DO UPDATE SET seq = max(seq, excluded.seq), claimed_until = 0";
    cached(connection, sql)?.execute(params![session, number(seq)]).map(|_| ())
}

fn cached<'a>(connection: &'a Connection, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
    connection.prepare_cached(sql)
}

const fn session(prepared: &Prepared) -> [u8; 16] {
    id_bytes(prepared.session.bits())
}

fn found(
    connection: &Connection,
    prepared: &Prepared,
) -> rusqlite::Result<Result<Option<Found>, Error>> {
    let sql = "SELECT epoch, head_seq, head_hash FROM sessions WHERE id = ?1";
    let row = cached(connection, sql)?
        .query_row([session(prepared)], |row| Ok(read_found(row)))
        .optional()?;
    Ok(row.transpose())
}

fn read_found(row: &Row<'_>) -> Result<Found, Error> {
    let read = |error: rusqlite::Error| Error::corrupt(error);
    let hash: Vec<u8> = row.get(2).map_err(read)?;
    Ok(Found {
        epoch: unsigned(row.get(0).map_err(read)?)?,
        head: Head { seq: unsigned(row.get(1).map_err(read)?)?, hash: digest(&hash)? },
    })
}

fn create(connection: &Connection, prepared: &Prepared, opening: &Opening) -> rusqlite::Result<()> {
    let status = prepared.rows.status.unwrap_or(SessionStatus::Idle);
    cached(
        connection,
        "INSERT INTO sessions
           (id, tenant, head_seq, head_hash, epoch, owner, status, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
    )?
    .execute(params![
        session(prepared),
        opening.tenant.as_str(),
        number(prepared.head.seq),
        prepared.head.hash.as_bytes(),
        number(opening.epoch()),
        opening.owner.as_ref().map(|owner| owner.as_str()),
        status.as_str(),
        prepared.at.ms(),
    ])
    .map(|_| ())
}

fn advance(connection: &Connection, prepared: &Prepared) -> rusqlite::Result<()> {
    cached(
        connection,
        "UPDATE sessions
         SET head_seq = ?2, head_hash = ?3, status = coalesce(?4, status), updated_at = ?5
         WHERE id = ?1",
    )?
    .execute(params![
        session(prepared),
        number(prepared.head.seq),
        prepared.head.hash.as_bytes(),
        prepared.rows.status.map(SessionStatus::as_str),
        prepared.at.ms(),
    ])
    .map(|_| ())
}

fn write_entries(connection: &Connection, prepared: &Prepared) -> rusqlite::Result<()> {
    let mut insert = cached(
        connection,
        "INSERT INTO events (session, seq, at, format, hash, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for entry in &prepared.entries {
        insert.execute(params![
            session(prepared),
            number(entry.seq),
            entry.at.ms(),
            entry.format,
            entry.hash.as_bytes(),
            entry.body,
        ])?;
    }
    Ok(())
}

fn write_call(
    connection: &Connection,
    prepared: &Prepared,
    change: &CallChange,
) -> rusqlite::Result<()> {
    let (session, call) = (session(prepared), id_bytes(change.call.bits()));
    let class = change.class.as_ref().map(word);
    let decided = change.decided.as_ref().map(serde_json::to_string).transpose();
    let decided =
        decided.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let at = prepared.at.ms();
    let stage = change.stage.as_str();
    match &change.asked_for {
        Some(tool) => cached(
            connection,
            "INSERT INTO calls (session, call, tool, stage, class, decided, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (session, call) DO UPDATE SET
               stage = excluded.stage, class = excluded.class, updated_at = excluded.updated_at",
        )?
        .execute(params![session, call, tool, stage, class, decided, at])?,
        None => cached(
            connection,
            "UPDATE calls
             SET stage = ?3, class = ?4, decided = coalesce(?5, decided), updated_at = ?6
             WHERE session = ?1 AND call = ?2",
        )?
        .execute(params![session, call, stage, class, decided, at])?,
    };
    write_wait(connection, prepared, change)?;
    match &change.retry {
        None => Ok(()),
        Some(RetryChange::Over) => {
            let sql = "DELETE FROM timers WHERE session = ?1 AND call = ?2";
            cached(connection, sql)?.execute(params![session, call]).map(|_| ())
        }
        Some(RetryChange::Due(due)) => {
            let sql = "INSERT INTO timers (session, call, due_at) VALUES (?1, ?2, ?3)
                       ON CONFLICT (session, call) DO UPDATE
                       SET due_at = excluded.due_at, claimed_until = 0";
            cached(connection, sql)?.execute(params![session, call, due.ms()]).map(|_| ())
        }
    }
}

fn write_wait(
    connection: &Connection,
    prepared: &Prepared,
    change: &CallChange,
) -> rusqlite::Result<()> {
    let (session, call) = (session(prepared), id_bytes(change.call.bits()));
    match &change.wait {
        None => Ok(()),
        Some(WaitChange::Closed) => {
            let sql = "DELETE FROM waits WHERE session = ?1 AND call = ?2";
            cached(connection, sql)?.execute(params![session, call]).map(|_| ())
        }
        Some(WaitChange::Opened { round, kind, expires_at }) => {
            let sql = "INSERT INTO waits (session, call, round, kind, tenant, expires_at, since)
                       SELECT ?1, ?2, ?3, ?4, tenant, ?5, ?6 FROM sessions WHERE id = ?1
                       ON CONFLICT (session, call) DO UPDATE SET round = excluded.round,
                         kind = excluded.kind, expires_at = excluded.expires_at,
                         since = excluded.since, claimed_until = 0";
            let (expires_at, since) = (expires_at.ms(), prepared.at.ms());
            let values = params![session, call, round, word(kind), expires_at, since];
            cached(connection, sql)?.execute(values).map(|_| ())
        }
    }
}
