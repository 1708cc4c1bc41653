//! An append, as statements in the writer's transaction.

use haft_core::journal::Head;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::heads::{Heads, Stored};
use super::journal::NewPiece;
use super::notices::{self, Hearers};
use super::time;
use crate::append::{AppendError, FollowedBy, Found, Opening, Prepared, SNAPSHOT_FORMAT};
use crate::error::Error;
use crate::key::{digest, id_bytes, number, unsigned};
use crate::rows::{CallChange, CallStage, RetryChange, SessionStatus, WaitChange, word};

type Verdict = rusqlite::Result<Result<Head, AppendError>>;

pub(super) fn append(
    connection: &Connection,
    heads: &Heads,
    hearers: &Hearers,
    prepared: &Prepared,
    piece: Option<&NewPiece>,
) -> Verdict {
    let stored = match heads.get(prepared.session) {
        Some(stored) => Some(stored),
        None => match stored(connection, prepared)? {
            Ok(stored) => stored,
            Err(error) => return Ok(Err(error.into())),
        },
    };
    let written = match (&prepared.opening, stored) {
        (Some(opening), None) => create(connection, prepared, opening, piece)?,
        (Some(_), Some(stored)) => {
            return Ok(Err(AppendError::HeadMoved { current: stored.found.head }));
        }
        (None, stored) => {
            if let Err(refusal) = prepared.verdict(stored.map(|stored| stored.found)) {
                return Ok(Err(refusal));
            }
            let Some(stored) = stored else {
                return Ok(Err(AppendError::UnknownSession));
            };
            advance(connection, prepared, stored, piece)?
        }
    };
    heads.put(prepared.session, written);
    let key = written.key;
    for change in &prepared.rows.calls {
        write_call(connection, prepared, key, change)?;
    }
    if hearers.may_be_there() {
        notices::tell(connection, prepared, key)?;
    }
    if let Some(snapshot) = &prepared.snapshot {
        cached(
            connection,
            "INSERT INTO snapshots (session, seq, format, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (session) DO UPDATE
             SET seq = excluded.seq, format = excluded.format, body = excluded.body",
        )?
        .execute(params![key, number(prepared.head.seq), SNAPSHOT_FORMAT, snapshot])?;
    }
    if prepared.wakes() {
        let claimed_until = match prepared.followed_by {
            FollowedBy::Anyone => 0,
            FollowedBy::Appender { now, hold } => (time(now) + hold).ms(),
        };
        wake(connection, key, prepared.head.seq, claimed_until)?;
    }
    Ok(Ok(prepared.head))
}

/// Marks a session as one to look at. Whoever holds an earlier wake does not hold this one.
pub(super) fn wake(
    connection: &Connection,
    key: i64,
    seq: u64,
    claimed_until: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO wakes (session, seq, claimed_until) VALUES (?1, ?2, ?3)
               ON CONFLICT (session) DO UPDATE
               SET seq = max(seq, excluded.seq), claimed_until = excluded.claimed_until";
    cached(connection, sql)?.execute(params![key, number(seq), claimed_until]).map(|_| ())
}

fn cached<'a>(connection: &'a Connection, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
    connection.prepare_cached(sql)
}

fn stored(
    connection: &Connection,
    prepared: &Prepared,
) -> rusqlite::Result<Result<Option<Stored>, Error>> {
    let sql = "SELECT key, tail, epoch, head_seq, head_hash FROM sessions WHERE id = ?1";
    let row = cached(connection, sql)?
        .query_row([id_bytes(prepared.session.bits())], |row| Ok(read_stored(row)))
        .optional()?;
    Ok(row.transpose())
}

fn read_stored(row: &Row<'_>) -> Result<Stored, Error> {
    let read = |error: rusqlite::Error| Error::corrupt(error);
    let hash = row.get_ref(4).map_err(read)?.as_blob().map_err(Error::corrupt)?;
    let head = Head { seq: unsigned(row.get(3).map_err(read)?)?, hash: digest(hash)? };
    let found = Found { epoch: unsigned(row.get(2).map_err(read)?)?, head };
    Ok(Stored { key: row.get(0).map_err(read)?, tail: row.get(1).map_err(read)?, found })
}

fn create(
    connection: &Connection,
    prepared: &Prepared,
    opening: &Opening,
    piece: Option<&NewPiece>,
) -> rusqlite::Result<Stored> {
    let status = prepared.rows.status.unwrap_or(SessionStatus::Idle);
    cached(
        connection,
        "INSERT INTO sessions
           (id, tenant, head_seq, head_hash, epoch, owner, status, created_at, updated_at, agent,
            parent, opened_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        id_bytes(prepared.session.bits()),
        opening.tenant.as_str(),
        number(prepared.head.seq),
        prepared.head.hash.as_bytes(),
        number(opening.epoch()),
        opening.owner.as_ref().map(|owner| owner.as_str()),
        status.as_str(),
        prepared.at.ms(),
        prepared.rows.agent.as_deref(),
        prepared.rows.parent.map(|parent| id_bytes(parent.bits())),
        prepared.rows.opened_by.as_deref(),
    ])?;
    let key = connection.last_insert_rowid();
    let tail = piece.map(|piece| piece.write(connection, key, None)).transpose()?;
    let sql = "UPDATE sessions SET tail = ?2 WHERE key = ?1";
    cached(connection, sql)?.execute(params![key, tail])?;
    let found = Found { epoch: opening.epoch(), head: prepared.head };
    Ok(Stored { key, tail, found })
}

fn advance(
    connection: &Connection,
    prepared: &Prepared,
    stored: Stored,
    piece: Option<&NewPiece>,
) -> rusqlite::Result<Stored> {
    let Stored { key, tail, found } = stored;
    let tail = match piece {
        Some(piece) => Some(piece.write(connection, key, tail)?),
        None => tail,
    };
    cached(
        connection,
        "UPDATE sessions
         SET head_seq = ?2, head_hash = ?3, status = coalesce(?4, status), updated_at = ?5, tail = ?6,
           config_seq = coalesce(?7, config_seq)
         WHERE key = ?1",
    )?
    .execute(params![
        key,
        number(prepared.head.seq),
        prepared.head.hash.as_bytes(),
        prepared.rows.status.map(SessionStatus::as_str),
        prepared.at.ms(),
        tail,
        prepared.config_seq().map(number),
    ])?;
    let found = Found { head: prepared.head, ..found };
    Ok(Stored { key, tail, found })
}

/// What a call waits for: at most one thing at a time.
#[derive(Default)]
struct Waiting {
    round: Option<u32>,
    kind: Option<String>,
    since: Option<i64>,
    expires_at: Option<i64>,
    retry_at: Option<i64>,
}

/// What a call waits for from here on; `None` when that has not changed.
fn waiting(prepared: &Prepared, change: &CallChange) -> Option<Waiting> {
    match (&change.wait, &change.retry) {
        (None, None) => None,
        (Some(WaitChange::Opened { round, kind, expires_at }), _) => Some(Waiting {
            round: Some(*round),
            kind: Some(word(kind)),
            since: Some(prepared.at.ms()),
            expires_at: Some(expires_at.ms()),
            retry_at: None,
        }),
        (_, Some(RetryChange::Due(due))) => {
            Some(Waiting { retry_at: Some(due.ms()), ..Waiting::default() })
        }
        (Some(WaitChange::Closed), _) | (None, Some(RetryChange::Over)) => Some(Waiting::default()),
    }
}

const NEW_CALL: &str = "
    INSERT INTO calls (session, call, tool, stage, class, decided, updated_at, tenant, opened_by,
      round, kind, since, expires_at, retry_at, told, custom, unattended_since)
    SELECT ?1, ?2, ?12, ?3, ?4, ?5, ?6,
      CASE WHEN ?8 IS NOT NULL THEN tenant END, CASE WHEN ?8 IS NOT NULL THEN opened_by END,
      ?7, ?8, ?9, ?10, ?11, ?13, ?14, CASE WHEN ?8 = 'client_exec' AND ?14 = 0 THEN ?9 END
    FROM sessions WHERE key = ?1
    ON CONFLICT (call, session) DO UPDATE SET
      stage = excluded.stage, class = excluded.class, updated_at = excluded.updated_at,
      tenant = excluded.tenant, opened_by = excluded.opened_by, round = excluded.round,
      kind = excluded.kind, since = excluded.since, expires_at = excluded.expires_at,
      retry_at = excluded.retry_at, told = excluded.told, custom = excluded.custom,
      unattended_since = excluded.unattended_since, claimed_until = 0";

/// What is told of a call is of interest for as long as it is open.
const MOVED_CALL: &str = "
    UPDATE calls SET stage = coalesce(?3, stage), class = ?4, decided = coalesce(?5, decided),
      updated_at = ?6, custom = coalesce(?8, custom),
      told = CASE WHEN ?3 = 'settled' THEN NULL WHEN ?7 IS NULL THEN told
        ELSE coalesce(told || ',', '') || ?7 END
    WHERE call = ?2 AND session = ?1";

const WAITING_CALL: &str = "
    UPDATE calls SET stage = coalesce(?3, stage), class = ?4, decided = coalesce(?5, decided),
      updated_at = ?6,
      tenant = CASE WHEN ?8 IS NOT NULL THEN (SELECT tenant FROM sessions WHERE key = ?1) END,
      opened_by = CASE WHEN ?8 IS NOT NULL THEN (
        SELECT opened_by FROM sessions WHERE key = ?1) END,
      round = ?7, kind = ?8, since = ?9, expires_at = ?10,
      retry_at = ?11, claimed_until = 0, custom = coalesce(?13, custom),
      unattended_since = CASE WHEN ?8 = 'client_exec' AND coalesce(?13, custom) = 0 THEN ?9 END,
      told = CASE WHEN ?3 = 'settled' THEN NULL WHEN ?12 IS NULL THEN told
        ELSE coalesce(told || ',', '') || ?12 END
    WHERE call = ?2 AND session = ?1";

fn write_call(
    connection: &Connection,
    prepared: &Prepared,
    key: i64,
    change: &CallChange,
) -> rusqlite::Result<()> {
    let call = id_bytes(change.call.bits());
    let class = change.class.as_ref().map(word);
    let decided = change.decided.as_ref().map(serde_json::to_string).transpose();
    let decided =
        decided.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let (at, stage) = (prepared.at.ms(), change.stage.map(CallStage::as_str));
    let (told, custom) = (prepared.told(change), change.is_custom);
    match (&change.asked_for, waiting(prepared, change)) {
        (Some(tool), waiting) => {
            let Waiting { round, kind, since, expires_at, retry_at } = waiting.unwrap_or_default();
            // What has come to its end in the append that tells of it for the first time is told
            // of no more.
            let told = told.filter(|_| change.stage != Some(CallStage::Settled));
            cached(connection, NEW_CALL)?.execute(params![
                key, call, stage, class, decided, at, round, kind, since, expires_at, retry_at,
                tool, told, custom
            ])
        }
        (None, None) => cached(connection, MOVED_CALL)?
            .execute(params![key, call, stage, class, decided, at, told, custom]),
        (None, Some(Waiting { round, kind, since, expires_at, retry_at })) => {
            cached(connection, WAITING_CALL)?.execute(params![
                key, call, stage, class, decided, at, round, kind, since, expires_at, retry_at,
                told, custom
            ])
        }
    }
    .map(|_| ())
}
