//! A session's log in SQLite: a chain of appends, read from its end or from a mark.

use haft_core::SessionId;
use haft_core::journal::Entry;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::Fault;
use crate::append::Prepared;
use crate::error::Error;
use crate::key::{digest, moment, number, small, unsigned};

/// After how many entries an append is marked, so that reading can start there.
const MARK_EVERY: u64 = 64;

const HASH_LEN: usize = 32;
const PART_LEN: usize = HASH_LEN + size_of::<u32>();

/// A log to read: whose it is, and where it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    pub(super) session: SessionId,
    pub(super) key: i64,
    pub(super) tail: Option<i64>,
}

/// What one append stored.
struct Piece {
    previous: Option<i64>,
    last_seq: u64,
    entries: Vec<Entry>,
}

/// The entries of an append as one row, put together by whoever appends and not by the writer.
#[derive(Debug)]
pub(super) struct NewPiece {
    seq: i64,
    mark: Option<i64>,
    at: i64,
    format: u32,
    parts: Vec<u8>,
    body: String,
}

impl NewPiece {
    /// Returns `None` for an append without entries.
    pub(super) fn of(prepared: &Prepared) -> Option<Self> {
        let last = prepared.entries.last()?;
        let mut parts = Vec::with_capacity(prepared.entries.len() * PART_LEN);
        let mut body = String::with_capacity(prepared.entries.iter().map(|it| it.body.len()).sum());
        for entry in &prepared.entries {
            let len = u32::try_from(entry.body.len()).unwrap_or(u32::MAX);
            parts.extend_from_slice(entry.hash.as_bytes());
            parts.extend_from_slice(&len.to_be_bytes());
            body.push_str(&entry.body);
        }
        let mark = last.seq / MARK_EVERY;
        let mark = (mark > prepared.expected.seq / MARK_EVERY).then_some(number(mark));
        let (seq, at, format) = (number(last.seq), last.at.ms(), last.format);
        Some(Self { seq, mark, at, format, parts, body })
    }

    /// Stores it after the session's last one, and returns its place.
    pub(super) fn write(
        &self,
        connection: &Connection,
        session: i64,
        tail: Option<i64>,
    ) -> rusqlite::Result<i64> {
        let Self { seq, mark, at, format, parts, body } = self;
        let sql = "INSERT INTO events (session, seq, previous, mark, at, format, parts, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let values = params![session, seq, tail, mark, at, format, parts, body];
        connection.prepare_cached(sql)?.execute(values)?;
        Ok(connection.last_insert_rowid())
    }
}

impl Log {
    /// Finds a session's log.
    pub(super) fn find(connection: &Connection, session: SessionId) -> Result<Option<Self>, Fault> {
        let sql = "SELECT key, tail FROM sessions WHERE id = ?1";
        let id = crate::key::id_bytes(session.bits());
        let found = connection
            .prepare_cached(sql)?
            .query_row([id], |row| Ok(Self { session, key: row.get(0)?, tail: row.get(1)? }))
            .optional()?;
        Ok(found)
    }

    /// Reads the entries after a place, all of them.
    pub(super) fn after(&self, connection: &Connection, after: u64) -> Result<Vec<Entry>, Fault> {
        self.up_to(connection, after, self.tail)
    }

    /// Reads entries after a place, at most so many, from mark to mark.
    pub(super) fn some_after(
        &self,
        connection: &Connection,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut read_to = after;
        while entries.len() < limit {
            let marked = self.next_mark(connection, read_to)?;
            entries.extend(self.up_to(connection, read_to, marked.or(self.tail))?);
            match (marked, entries.last()) {
                (Some(_), Some(last)) if last.seq > read_to => read_to = last.seq,
                _ => break,
            }
        }
        entries.truncate(limit);
        Ok(entries)
    }

    /// As [`Log::some_after`], and reads no further append once there are so many bytes.
    pub(super) fn some_within(
        &self,
        connection: &Connection,
        after: u64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut read_to, mut bytes) = (after, 0);
        while entries.len() < limit && bytes < bytes_max {
            let marked = self.next_mark(connection, read_to)?;
            let Some(places) = self.places_up_to(connection, read_to, marked.or(self.tail))? else {
                return Ok(self.search(connection, read_to)?.into_iter().take(limit).collect());
            };
            for place in places {
                if entries.len() >= limit || bytes >= bytes_max {
                    break;
                }
                let Some(piece) = self.piece(connection, place)? else { break };
                let read = entries.len();
                entries.extend(joined(std::iter::once(piece), after));
                bytes += entries.iter().skip(read).map(|entry| entry.body.len()).sum::<usize>();
            }
            match (marked, entries.last()) {
                (Some(_), Some(last)) if last.seq > read_to => read_to = last.seq,
                _ => break,
            }
        }
        entries.truncate(limit);
        Ok(entries)
    }

    /// Finds the first append after a place from which the chain can be followed.
    fn next_mark(&self, connection: &Connection, after: u64) -> Result<Option<i64>, Fault> {
        let sql = "SELECT place FROM events WHERE session = ?1 AND mark > ?2 ORDER BY mark LIMIT 1";
        let next = number(after / MARK_EVERY);
        let mut statement = connection.prepare_cached(sql)?;
        Ok(statement.query_row(params![self.key, next], |row| row.get(0)).optional()?)
    }

    /// Returns the appends between a place and an append, in order, without what is in them;
    /// `None` when a link of the chain is missing.
    fn places_up_to(
        &self,
        connection: &Connection,
        after: u64,
        end: Option<i64>,
    ) -> Result<Option<Vec<i64>>, Fault> {
        let sql = "SELECT seq, previous FROM events WHERE place = ?1 AND session = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let (mut places, mut next) = (Vec::new(), end);
        while let Some(place) = next {
            let found = statement.query_row([place, self.key], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
            });
            let Some((last_seq, previous)) = found.optional()? else { return Ok(None) };
            if unsigned(last_seq)? <= after {
                break;
            }
            places.push(place);
            next = previous;
        }
        places.reverse();
        Ok(Some(places))
    }

    /// Follows the chain backwards from an append to a place.
    fn up_to(
        &self,
        connection: &Connection,
        after: u64,
        end: Option<i64>,
    ) -> Result<Vec<Entry>, Fault> {
        let mut pieces = Vec::new();
        let mut next = end;
        while let Some(place) = next {
            let Some(piece) = self.piece(connection, place)? else {
                return self.search(connection, after);
            };
            if piece.last_seq <= after {
                break;
            }
            next = piece.previous;
            pieces.push(piece);
        }
        Ok(joined(pieces.into_iter().rev(), after))
    }

    /// Empties every row of the log, after `look` has seen what it held. Where the chain has lost a
    /// link, every row there is is looked for. Returns whether all of it could be read; what could
    /// not is erased all the same.
    pub(super) fn erase(
        &self,
        connection: &Connection,
        mut look: impl FnMut(&Entry),
    ) -> Result<bool, Fault> {
        let (mut next, mut is_cut, mut is_whole) = (self.tail, false, true);
        while let Some(place) = next {
            let previous = self.previous(connection, place)?;
            is_cut |= previous.is_none();
            is_whole &= self.clear(connection, place, &mut look)?;
            next = previous.flatten();
        }
        let sql = "SELECT place FROM events WHERE session = ?1 AND mark IS NOT NULL";
        if is_cut || connection.prepare_cached(sql)?.exists([self.key])? {
            let sql = "SELECT place FROM events WHERE session = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let left = statement.query_map([self.key], |row| row.get(0))?;
            for place in left.collect::<rusqlite::Result<Vec<i64>>>()? {
                is_whole &= self.clear(connection, place, &mut look)?;
            }
        }
        Ok(is_whole && !is_cut)
    }

    /// Returns the append before one; nothing where the chain is cut.
    fn previous(
        &self,
        connection: &Connection,
        place: i64,
    ) -> rusqlite::Result<Option<Option<i64>>> {
        let sql = "SELECT previous FROM events WHERE place = ?1 AND session = ?2";
        connection.prepare_cached(sql)?.query_row([place, self.key], |row| row.get(0)).optional()
    }

    /// Empties a row after `look` has seen it; returns whether it could be read.
    fn clear(
        &self,
        connection: &Connection,
        place: i64,
        look: &mut impl FnMut(&Entry),
    ) -> Result<bool, Fault> {
        let is_read = match self.piece(connection, place) {
            Ok(Some(piece)) => {
                piece.entries.iter().for_each(look);
                true
            }
            Ok(None) => return Ok(false),
            Err(Fault::Ours(_)) => false,
            Err(fault) => return Err(fault),
        };
        let sql = "UPDATE events SET session = 0, seq = 0, previous = NULL, mark = NULL,
                     at = 0, format = 0, parts = x'', body = '' WHERE place = ?1";
        connection.prepare_cached(sql)?.execute([place])?;
        Ok(is_read)
    }

    fn piece(&self, connection: &Connection, place: i64) -> Result<Option<Piece>, Fault> {
        let sql = "SELECT seq, previous, at, format, parts, body FROM events
                   WHERE place = ?1 AND session = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([place, self.key])?;
        rows.next()?.map(|row| self.read(row)).transpose()
    }

    /// Looks at every row there is: someone has taken a link out of the chain, and whoever verifies
    /// the log is to be told what is left of it.
    fn search(&self, connection: &Connection, after: u64) -> Result<Vec<Entry>, Fault> {
        let sql = "SELECT seq, previous, at, format, parts, body FROM events
                   WHERE session = ?1 AND seq > ?2 ORDER BY seq";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([self.key, number(after)])?;
        let mut pieces = Vec::new();
        while let Some(row) = rows.next()? {
            pieces.push(self.read(row)?);
        }
        Ok(joined(pieces.into_iter(), after))
    }

    fn read(&self, row: &Row<'_>) -> Result<Piece, Fault> {
        let last_seq = unsigned(row.get(0)?)?;
        let (at, format) = (moment(row.get(2)?), small(row.get(3)?)?);
        let parts = row.get_ref(4)?.as_blob().map_err(Error::corrupt)?;
        let mut body = row.get_ref(5)?.as_str().map_err(Error::corrupt)?;
        let count = parts.len() / PART_LEN;
        let first = (last_seq + 1).checked_sub(count as u64);
        let mut seq = first.ok_or_else(|| Error::corrupt("an append begins before the log"))?;
        let mut entries = Vec::with_capacity(count);
        for (hash, len) in
            parts.chunks_exact(PART_LEN).filter_map(|part| part.split_at_checked(HASH_LEN))
        {
            let len = u32::from_be_bytes(len.try_into().unwrap_or_default()) as usize;
            // Whatever does not fit goes to the last one: its hash will not match, which is how
            // changes are found.
            let is_last = seq == last_seq;
            let (own, rest) = match body.split_at_checked(len) {
                Some(split) if !is_last => split,
                Some(_) | None => (body, ""),
            };
            let (session, hash) = (self.session, digest(hash)?);
            entries.push(Entry { format, session, seq, at, hash, body: own.to_owned() });
            (body, seq) = (rest, seq + 1);
        }
        Ok(Piece { previous: row.get(1)?, last_seq, entries })
    }
}

fn joined(pieces: impl Iterator<Item = Piece>, after: u64) -> Vec<Entry> {
    pieces.flat_map(|piece| piece.entries).filter(|entry| entry.seq > after).collect()
}
