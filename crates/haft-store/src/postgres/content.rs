//! Artifacts and versions in PostgreSQL.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::{Actor, ArtifactId, ArtifactRef, Digest, SessionId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::batch::id;
use super::erase::erase;
use super::link::{Connected, Link, is_lost, trouble};
use super::{Postgres, authority, column, requests};
use crate::authority::is_recorded;
use crate::content::{
    ArtifactError, Erasure, Latest, NewArtifact, Place, Put, PutError, StoredArtifact,
    StoredVersion, VersionInfo, Which, matching, unrecorded,
};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, moment, number, unsigned};
use crate::name::Tenant;
use crate::page::Page;
use crate::request::{RequestStep, note_of, repeated};

/// How long the outcome of a lost commit is asked for before its caller is told that it is not
/// known.
const ASK_FOR: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How often a write that expects nothing in particular is tried against others of its kind.
const TRIES_MAX: u32 = 100;

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
    WHERE versions.tenant = $1 AND versions.space = $2 AND versions.key = $3
      AND ($4::bigint IS NULL OR versions.number = $4)
    ORDER BY versions.number DESC LIMIT 1";

impl Postgres {
    pub(crate) async fn put_artifact(
        &self,
        new: NewArtifact,
        body: Vec<u8>,
    ) -> Result<Digest, ArtifactError> {
        let sql = "WITH blob AS (
                     INSERT INTO blobs (digest, body) VALUES ($4, $9) ON CONFLICT DO NOTHING)
                   INSERT INTO artifacts (id, tenant, session, digest, bytes, media_type, title, at)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
        let digest = Digest::of_bytes(&body);
        let hash = digest.as_bytes().to_vec();
        let (key, tenant) = (id(new.reference.id.bits()), new.tenant.as_str());
        let session = new.session.map(|session| id(session.bits()));
        let (bytes, at) = (number(body.len() as u64), new.at.ms());
        let ArtifactRef { id, media_type, title, .. } = &new.reference;
        let values: super::Values<'_> =
            &[&key, &tenant, &session, &hash, &bytes, media_type, title, &at, &body];
        match self.query(sql, values).await {
            // Bytes that were found here may have been erased before the artifact referred to them,
            // which the foreign key refuses; then they are put again.
            Err(error) if error.kind() == ErrorKind::Invalid => self.query(sql, values).await?,
            put => put?,
        };
        let sql = "SELECT 1 FROM artifacts WHERE id = $1 AND tenant = $2 AND digest = $3";
        let same = self.query(sql, &[&key, &tenant, &hash]).await?;
        if same.is_empty() { Err(ArtifactError::Taken { id: *id }) } else { Ok(digest) }
    }

    pub(crate) async fn artifact(
        &self,
        tenant: Tenant,
        artifact: ArtifactId,
    ) -> Result<Option<StoredArtifact>, Error> {
        let sql = "SELECT session, artifacts.digest, bytes, media_type, title, at, body
                   FROM artifacts JOIN blobs ON blobs.digest = artifacts.digest
                   WHERE id = $1 AND tenant = $2";
        let rows = self.query(sql, &[&id(artifact.bits()), &tenant.as_str()]).await?;
        rows.first().map(|row| stored_artifact(row, artifact)).transpose()
    }

    /// In a task of its own: a caller that goes away must not leave a transaction half done on
    /// the connection.
    pub(crate) async fn put_versions(
        &self,
        puts: Vec<Put>,
        erasures: Vec<Erasure>,
        (by, at): (Actor, Timestamp),
        step: Option<Arc<RequestStep>>,
    ) -> Result<Vec<u64>, PutError> {
        let by = serde_json::to_string(&by).map_err(Error::corrupt)?;
        let exclusive = Arc::clone(&self.exclusive);
        let task = tokio::spawn(async move {
            let link = exclusive.lock().await;
            let writing = Writing { puts: &puts, erasures: &erasures, by: &by, at, step };
            put_versions(&link, &writing).await
        });
        let ended = || Error::new(ErrorKind::Internal, "a write did not come to its end");
        task.await.map_err(|_| ended())?
    }

    pub(crate) async fn version(
        &self,
        place: Place,
        which: Which,
    ) -> Result<Option<StoredVersion>, Error> {
        let sql = "SELECT number, versions.digest, author, at, body
                   FROM versions LEFT JOIN blobs ON blobs.digest = versions.digest
                   WHERE tenant = $1 AND space = $2 AND key = $3
                     AND ($4::bigint IS NULL OR number = $4)
                   ORDER BY number DESC LIMIT 1";
        let wanted = match which {
            Which::Latest => None,
            Which::Number(wanted) => Some(number(wanted)),
        };
        let (tenant, space, key) = parts(&place);
        let is_recorded = is_recorded(space);
        let sql = if is_recorded { RECORDED } else { sql };
        let rows = self.query(sql, &[&tenant, &space, &key, &wanted]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if is_recorded && !authority::is_as_recorded(row, which)? {
            return Err(unrecorded(&place));
        }
        let info = version_info(row)?;
        let body = match info.digest {
            Some(digest) => Some(matching(digest, column(row, 4)?)?),
            None => None,
        };
        Ok(Some(StoredVersion { info, body }))
    }

    pub(crate) async fn versions(
        &self,
        place: Place,
        page: Page<u64>,
    ) -> Result<Vec<VersionInfo>, Error> {
        let sql = "SELECT number, digest, author, at FROM versions
                   WHERE tenant = $1 AND space = $2 AND key = $3 AND number < $4
                   ORDER BY number DESC LIMIT $5";
        let below = page.after.map_or(i64::MAX, number);
        let (tenant, space, key) = parts(&place);
        let limit = i64::from(page.limit);
        let rows = self.query(sql, &[&tenant, &space, &key, &below, &limit]).await?;
        rows.iter().map(version_info).collect()
    }

    pub(crate) async fn keys(
        &self,
        tenant: Tenant,
        space: String,
        page: Page<String>,
    ) -> Result<Vec<(String, VersionInfo)>, Error> {
        // By bytes, as SQLite orders, and not by the database's locale.
        let sql = "SELECT number, digest, author, at, key FROM (
                     SELECT DISTINCT ON (key COLLATE \"C\") number, digest, author, at, key
                     FROM versions WHERE tenant = $1 AND space = $2 AND key COLLATE \"C\" > $3
                     ORDER BY key COLLATE \"C\", number DESC) AS latest
                   WHERE digest IS NOT NULL ORDER BY key COLLATE \"C\" LIMIT $4";
        let after = page.after.unwrap_or_default();
        let limit = i64::from(page.limit);
        let rows = self.query(sql, &[&tenant.as_str(), &space, &after, &limit]).await?;
        rows.iter().map(|row| Ok((column(row, 4)?, version_info(row)?))).collect()
    }
}

pub(super) fn parts(place: &Place) -> (&str, &str, &str) {
    (place.tenant().as_str(), place.space(), place.key())
}

fn stored_artifact(row: &Row, id: ArtifactId) -> Result<StoredArtifact, Error> {
    let session: Option<&[u8]> = column(row, 0)?;
    let session = session.map(|session| id_bits(session).map(SessionId::from_bits));
    let digest = digest(column(row, 1)?)?;
    let (media_type, title) = (column(row, 3)?, column(row, 4)?);
    Ok(StoredArtifact {
        reference: ArtifactRef { id, media_type, bytes: unsigned(column(row, 2)?)?, title },
        session: session.transpose()?,
        digest,
        at: moment(column(row, 5)?),
        body: matching(digest, column(row, 6)?)?,
    })
}

fn version_info(row: &Row) -> Result<VersionInfo, Error> {
    let hash: Option<&[u8]> = column(row, 1)?;
    Ok(VersionInfo {
        number: unsigned(column(row, 0)?)?,
        digest: hash.map(digest).transpose()?,
        by: serde_json::from_str(column(row, 2)?).map_err(Error::corrupt)?,
        at: moment(column(row, 3)?),
    })
}

/// Why a try to write versions came to nothing.
pub(super) enum Failed {
    /// Another writer was faster; whether that matters is seen by looking again.
    Beaten,
    Final(PutError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Final(error.into())
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if *code == SqlState::UNIQUE_VIOLATION => Self::Beaten,
            Some(code) if *code == SqlState::T_R_DEADLOCK_DETECTED => Self::Beaten,
            // The bytes were there when they were put, and erased before they were referred to.
            Some(code) if *code == SqlState::FOREIGN_KEY_VIOLATION => Self::Beaten,
            Some(_) | None => trouble(&error).into(),
        }
    }
}

/// What a transaction writes.
struct Writing<'a> {
    puts: &'a [Put],
    erasures: &'a [Erasure],
    by: &'a str,
    at: Timestamp,
    step: Option<Arc<RequestStep>>,
}

/// The key of the versions' table settles who was first: two that write the same number cannot
/// both commit, and the second looks again.
async fn put_versions(link: &Link, writing: &Writing<'_>) -> Result<Vec<u64>, PutError> {
    let mut connected = link.connected().await?;
    if connected.run("BEGIN").await.is_err() {
        connected = link.fresh(&connected).await?;
        connected.run("BEGIN").await.map_err(|error| trouble(&error))?;
    }
    for _ in 0..TRIES_MAX {
        match try_all(&connected, writing).await {
            Ok(numbers) => {
                return match connected.run("COMMIT").await {
                    Ok(()) => Ok(numbers),
                    Err(error) if is_lost(&error) => find_out(link, writing, numbers).await,
                    Err(error) => Err(trouble(&error).into()),
                };
            }
            Err(Failed::Final(error)) => {
                // A connection that is lost has nothing to roll back.
                drop(connected.run("ROLLBACK").await);
                return Err(error);
            }
            Err(Failed::Beaten) => {
                connected.run("ROLLBACK; BEGIN").await.map_err(|error| trouble(&error))?;
            }
        }
    }
    drop(connected.run("ROLLBACK").await);
    Err(Error::new(ErrorKind::Gone, "other writers were faster every time").into())
}

/// Everything but the commit.
async fn try_all(connected: &Connected, writing: &Writing<'_>) -> Result<Vec<u64>, Failed> {
    if let Some(step) = &writing.step
        && requests::is_done(connected, step).await?
    {
        return Err(repeated().into());
    }
    let numbers = try_put(connected, writing.puts, writing.by, writing.at).await?;
    erase(connected, writing.erasures).await?;
    if let Some(step) = &writing.step {
        let note = note_of(writing.puts, &numbers)?;
        requests::record(connected, step, Some(&note)).await?;
    }
    Ok(numbers)
}

/// Asks the database what became of a commit whose answer was lost: nobody is told that it failed
/// when it did not. The row is locked, which waits for whatever the lost connection left running.
async fn find_out(
    link: &Link,
    writing: &Writing<'_>,
    numbers: Vec<u64>,
) -> Result<Vec<u64>, PutError> {
    let context = "the connection was lost during the commit of a version";
    let unknown = || PutError::from(Error::new(ErrorKind::Unknown, context));
    let (Some(put), Some(version)) = (writing.puts.first(), numbers.first()) else {
        return Err(unknown());
    };
    let hash = put.body.as_deref().map(|body| Digest::of_bytes(body).as_bytes().to_vec());
    let (tenant, space, key) = parts(&put.place);
    let (version, at) = (number(*version), writing.at.ms());
    let sql = "SELECT digest IS NOT DISTINCT FROM $5 AND author = $6 AND at = $7 FROM versions
               WHERE tenant = $1 AND space = $2 AND key = $3 AND number = $4";
    let until = Instant::now() + ASK_FOR;
    while Instant::now() < until {
        let values: super::Values<'_> = &[&tenant, &space, &key, &version, &hash, &writing.by, &at];
        let Ok(rows) = link.query(sql, values).await else {
            tokio::time::sleep(ASK_EVERY).await;
            continue;
        };
        return match rows.first().map(|row| column::<bool>(row, 0)).transpose()? {
            Some(true) => Ok(numbers),
            // Another wrote this version: whoever expected none is told to look again.
            Some(false) => {
                let current = unsigned(version)?;
                Err(PutError::Moved { place: put.place.clone(), current })
            }
            None if Instant::now() + ASK_EVERY < until => {
                // The lost connection may still be about to commit.
                tokio::time::sleep(ASK_EVERY).await;
                continue;
            }
            None => Err(unknown()),
        };
    }
    Err(unknown())
}

async fn try_put(
    connected: &Connected,
    puts: &[Put],
    by: &str,
    at: Timestamp,
) -> Result<Vec<u64>, Failed> {
    authority::queue(connected, puts).await?;
    let mut numbers = Vec::with_capacity(puts.len());
    for put in puts {
        let latest = latest(connected, &put.place).await?;
        let number = put.next_number(latest, &puts[..numbers.len()]).map_err(Failed::Final)?;
        numbers.push(number);
    }
    let mut ordered: Vec<_> = puts.iter().zip(&numbers).collect();
    // Two writers of the same places go through them in the same order.
    ordered.sort_by(|(a, m), (b, n)| (&a.place, m).cmp(&(&b.place, n)));
    for (put, version) in ordered {
        let hash = match &put.body {
            Some(body) => Some(put_blob(connected, body).await?),
            None => None,
        };
        let sql = "INSERT INTO versions (tenant, space, key, number, digest, author, at)
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let (tenant, space, key) = parts(&put.place);
        let (number, at) = (number(*version), at.ms());
        connected.execute(sql, &[&tenant, &space, &key, &number, &hash, &by, &at]).await?;
        let place = (tenant, space, key);
        authority::record(connected, place, *version, hash.as_deref(), (by, at)).await?;
    }
    Ok(numbers)
}

async fn put_blob(connected: &Connected, body: &Vec<u8>) -> Result<Vec<u8>, Failed> {
    let hash = Digest::of_bytes(body).as_bytes().to_vec();
    let sql = "INSERT INTO blobs (digest, body) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    connected.execute(sql, &[&hash, body]).await?;
    Ok(hash)
}

async fn latest(connected: &Connected, place: &Place) -> Result<Option<Latest>, Failed> {
    let sql = "SELECT number, digest IS NULL FROM versions
               WHERE tenant = $1 AND space = $2 AND key = $3 ORDER BY number DESC LIMIT 1";
    let (tenant, space, key) = parts(place);
    let rows = connected.query(sql, &[&tenant, &space, &key]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Latest { number: unsigned(column(row, 0)?)?, is_gone: column(row, 1)? }))
}
