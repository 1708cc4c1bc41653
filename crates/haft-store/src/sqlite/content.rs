//! Artifacts and versions in SQLite.

use std::sync::Arc;

use haft_core::{Actor, ArtifactId, ArtifactRef, Digest, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::erase::erase;
use super::writer::Hint;
use super::{Fault, Sqlite, authority, requests, settled};
use crate::authority::is_recorded;
use crate::content::{
    ArtifactError, Erasure, Latest, NewArtifact, Place, Put, PutError, StoredArtifact,
    StoredVersion, VersionInfo, Which, matching, unrecorded,
};
use crate::error::Error;
use crate::key::{digest, id_bits, id_bytes, moment, number, unsigned};
use crate::name::Tenant;
use crate::page::Page;
use crate::request::{RequestStep, note_of, repeated};

/// A version of what gives power, with its entry in the record and the hash of the one before.
const RECORDED: &str = "
    SELECT versions.number, versions.digest, versions.author, versions.at, body,
      a.number, a.tenant, a.space, a.key, a.version, a.digest, a.author, a.at, a.hash, before.hash,
      (SELECT max(version) FROM authority AS later WHERE later.tenant = versions.tenant
        AND later.space = versions.space AND later.key = versions.key)
    FROM versions LEFT JOIN blobs ON blobs.digest = versions.digest
    LEFT JOIN authority AS a ON a.tenant = versions.tenant AND a.space = versions.space
      AND a.key = versions.key AND a.version = versions.number
    LEFT JOIN authority AS before ON before.number = a.number - 1
    WHERE versions.tenant = ?1 AND versions.space = ?2 AND versions.key = ?3
      AND (?4 IS NULL OR versions.number = ?4)
    ORDER BY versions.number DESC LIMIT 1";

impl Sqlite {
    pub(crate) async fn put_artifact(
        &self,
        new: NewArtifact,
        body: Vec<u8>,
    ) -> Result<Digest, ArtifactError> {
        self.writer
            .write(Hint::Nothing, move |connection| put_artifact(connection, &new, &body))
            .await
    }

    pub(crate) async fn artifact(
        &self,
        tenant: Tenant,
        id: ArtifactId,
    ) -> Result<Option<StoredArtifact>, Error> {
        self.read(move |connection| {
            let sql = "SELECT session, artifacts.digest, bytes, media_type, title, at, body
                       FROM artifacts JOIN blobs ON blobs.digest = artifacts.digest
                       WHERE id = ?1 AND tenant = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![id_bytes(id.bits()), tenant.as_str()])?;
            rows.next()?.map(|row| stored_artifact(row, id)).transpose()
        })
        .await
    }

    pub(crate) async fn put_versions(
        &self,
        puts: Vec<Put>,
        erasures: Vec<Erasure>,
        (by, at): (Actor, Timestamp),
        step: Option<Arc<RequestStep>>,
    ) -> Result<Vec<u64>, PutError> {
        let by = serde_json::to_string(&by).map_err(Error::corrupt)?;
        let hint = if erasures.is_empty() { Hint::Nothing } else { Hint::Erased };
        self.writer
            .write(hint, move |connection| {
                if let Some(step) = step.as_deref()
                    && requests::is_done(connection, step)?
                {
                    return Ok(Err(repeated().into()));
                }
                let numbers = match next_numbers(connection, &puts) {
                    Ok(Ok(numbers)) => numbers,
                    Ok(Err(moved)) => return Ok(Err(moved)),
                    Err(fault) => return settled(Err(fault)),
                };
                if let Err(fault) = write_versions(connection, &puts, &numbers, &by, at) {
                    return settled(Err(fault));
                }
                erase(connection, &erasures)?;
                if let Some(step) = step.as_deref() {
                    let note = match note_of(&puts, &numbers) {
                        Ok(note) => note,
                        Err(error) => return Ok(Err(error.into())),
                    };
                    requests::record(connection, step, Some(&note))?;
                }
                Ok(Ok(numbers))
            })
            .await
    }

    pub(crate) async fn version(
        &self,
        place: Place,
        which: Which,
    ) -> Result<Option<StoredVersion>, Error> {
        self.read(move |connection| {
            let sql = "SELECT number, versions.digest, author, at, body
                       FROM versions LEFT JOIN blobs ON blobs.digest = versions.digest
                       WHERE tenant = ?1 AND space = ?2 AND key = ?3
                         AND (?4 IS NULL OR number = ?4)
                       ORDER BY number DESC LIMIT 1";
            let wanted = match which {
                Which::Latest => None,
                Which::Number(wanted) => Some(number(wanted)),
            };
            let (tenant, space, key) = parts(&place);
            let is_recorded = is_recorded(space);
            let sql = if is_recorded { RECORDED } else { sql };
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![tenant, space, key, wanted])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            if is_recorded && !authority::is_as_recorded(row, which)? {
                return Err(unrecorded(&place).into());
            }
            let info = version_info(row)?;
            let body = match info.digest {
                Some(digest) => Some(matching(digest, row.get(4)?)?),
                None => None,
            };
            Ok(Some(StoredVersion { info, body }))
        })
        .await
    }

    pub(crate) async fn versions(
        &self,
        place: Place,
        page: Page<u64>,
    ) -> Result<Vec<VersionInfo>, Error> {
        self.read(move |connection| {
            let sql = "SELECT number, digest, author, at FROM versions
                       WHERE tenant = ?1 AND space = ?2 AND key = ?3 AND number < ?4
                       ORDER BY number DESC LIMIT ?5";
            let below = page.after.map_or(i64::MAX, number);
            let mut statement = connection.prepare_cached(sql)?;
            let (tenant, space, key) = parts(&place);
            let mut rows = statement.query(params![tenant, space, key, below, page.limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(version_info(row)?);
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn keys(
        &self,
        tenant: Tenant,
        space: String,
        page: Page<String>,
    ) -> Result<Vec<(String, VersionInfo)>, Error> {
        self.read(move |connection| {
            let sql = "SELECT number, digest, author, at, key FROM versions AS latest
                       WHERE tenant = ?1 AND space = ?2 AND key > ?3 AND digest IS NOT NULL
                         AND number = (SELECT max(number) FROM versions AS every
                           WHERE every.tenant = latest.tenant AND every.space = latest.space
                             AND every.key = latest.key)
                       ORDER BY key LIMIT ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let after = page.after.as_deref().unwrap_or_default();
            let mut rows = statement.query(params![tenant.as_str(), space, after, page.limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push((row.get(4)?, version_info(row)?));
            }
            Ok(found)
        })
        .await
    }
}

pub(super) fn parts(place: &Place) -> (&str, &str, &str) {
    (place.tenant().as_str(), place.space(), place.key())
}

/// Empties the contents that nobody refers to any more. The row stays, empty and under no name:
/// SQLite fills the gap of a row that goes with its neighbours, and may leave a copy of them where
/// they were, which nothing could erase.
pub(super) fn blank_blobs(connection: &Connection, digests: &[Vec<u8>]) -> rusqlite::Result<()> {
    let mut unused = connection.prepare_cached(
        "UPDATE blobs SET digest = randomblob(32), body = x'' WHERE digest = ?1
           AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.digest = ?1)
           AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.digest = ?1)",
    )?;
    digests.iter().try_for_each(|digest| unused.execute([digest]).map(drop))
}

pub(super) fn put_blob(connection: &Connection, body: &[u8]) -> rusqlite::Result<Digest> {
    let digest = Digest::of_bytes(body);
    connection
        .prepare_cached("INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![digest.as_bytes(), body])?;
    Ok(digest)
}

fn put_artifact(
    connection: &Connection,
    new: &NewArtifact,
    body: &[u8],
) -> rusqlite::Result<Result<Digest, ArtifactError>> {
    let id = new.reference.id;
    let kept: Option<(String, Vec<u8>)> = connection
        .prepare_cached("SELECT tenant, digest FROM artifacts WHERE id = ?1")?
        .query_row([id_bytes(id.bits())], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((tenant, kept)) = kept {
        let digest = Digest::of_bytes(body);
        let same = kept == digest.as_bytes() && tenant == new.tenant.as_str();
        return Ok(if same { Ok(digest) } else { Err(ArtifactError::Taken { id }) });
    }
    let digest = put_blob(connection, body)?;
    connection
        .prepare_cached(
            "INSERT INTO artifacts (id, tenant, session, digest, bytes, media_type, title, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            id_bytes(id.bits()),
            new.tenant.as_str(),
            new.session.map(|session| id_bytes(session.bits())),
            digest.as_bytes(),
            number(body.len() as u64),
            new.reference.media_type,
            new.reference.title,
            new.at.ms(),
        ])?;
    Ok(Ok(digest))
}

fn stored_artifact(row: &Row<'_>, id: ArtifactId) -> Result<StoredArtifact, Fault> {
    let session: Option<Vec<u8>> = row.get(0)?;
    let session = session.map(|session| id_bits(&session).map(SessionId::from_bits));
    let digest = digest(row.get_ref(1)?.as_blob().map_err(Error::corrupt)?)?;
    let (media_type, title) = (row.get(3)?, row.get(4)?);
    Ok(StoredArtifact {
        reference: ArtifactRef { id, media_type, bytes: unsigned(row.get(2)?)?, title },
        session: session.transpose()?,
        digest,
        at: moment(row.get(5)?),
        body: matching(digest, row.get(6)?)?,
    })
}

/// Checks every expectation before anything is written, in the only transaction there is.
fn next_numbers(
    connection: &Connection,
    puts: &[Put],
) -> Result<Result<Vec<u64>, PutError>, Fault> {
    let mut numbers = Vec::with_capacity(puts.len());
    for put in puts {
        let latest = latest(connection, &put.place)?;
        match put.next_number(latest, &puts[..numbers.len()]) {
            Ok(number) => numbers.push(number),
            Err(moved) => return Ok(Err(moved)),
        }
    }
    Ok(Ok(numbers))
}

fn write_versions(
    connection: &Connection,
    puts: &[Put],
    numbers: &[u64],
    by: &str,
    at: Timestamp,
) -> Result<(), Fault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO versions (tenant, space, key, number, digest, author, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (put, version) in puts.iter().zip(numbers) {
        let digest = put.body.as_deref().map(|body| put_blob(connection, body)).transpose()?;
        let digest = digest.as_ref().map(|digest| &digest.as_bytes()[..]);
        let (tenant, space, key) = parts(&put.place);
        insert.execute(params![tenant, space, key, number(*version), digest, by, at.ms()])?;
        authority::record(connection, (tenant, space, key), *version, digest, (by, at.ms()))?;
    }
    Ok(())
}

fn latest(connection: &Connection, place: &Place) -> Result<Option<Latest>, Fault> {
    let sql = "SELECT number, digest IS NULL FROM versions
               WHERE tenant = ?1 AND space = ?2 AND key = ?3 ORDER BY number DESC LIMIT 1";
    let (tenant, space, key) = parts(place);
    let row: Option<(i64, bool)> = connection
        .prepare_cached(sql)?
        .query_row(params![tenant, space, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, is_gone)) = row else { return Ok(None) };
    Ok(Some(Latest { number: unsigned(number)?, is_gone }))
}

fn version_info(row: &Row<'_>) -> Result<VersionInfo, Fault> {
    let (hash, by): (Option<Vec<u8>>, String) = (row.get(1)?, row.get(2)?);
    Ok(VersionInfo {
        number: unsigned(row.get(0)?)?,
        digest: hash.map(|hash| digest(&hash)).transpose()?,
        by: serde_json::from_str(&by).map_err(Error::corrupt)?,
        at: moment(row.get(3)?),
    })
}
