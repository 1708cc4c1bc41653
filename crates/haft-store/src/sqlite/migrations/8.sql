-- A session that is deleted is erased: its rows go, the rows of the log stay without content, and
-- this is what is kept of it. Each row is chained to the one before by its hash.
CREATE TABLE erasures (
    number INTEGER PRIMARY KEY,
    session BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    -- Where its log ended.
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- The sessions that are to be erased as soon as they have ended.
CREATE TABLE erasure_requests (
    session BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What belongs to a session, or to one of its calls, has its id as the key.
CREATE INDEX versions_by_key ON versions (tenant, key);
CREATE INDEX artifacts_by_session ON artifacts (session) WHERE session IS NOT NULL;

-- Snapshots stand in the order in which they came, and one that is replaced is emptied. A row that
-- grows where it is makes SQLite move its neighbours, and it may leave a copy of them behind that
-- nothing could erase.
ALTER TABLE sessions ADD COLUMN snapshot INTEGER;
CREATE TABLE ordered_snapshots (
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    format INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
INSERT INTO ordered_snapshots (place, session, seq, format, body)
    SELECT session, session, seq, format, body FROM snapshots ORDER BY session;
UPDATE sessions SET snapshot = key WHERE key IN (SELECT session FROM snapshots);
DROP TABLE snapshots;
ALTER TABLE ordered_snapshots RENAME TO snapshots;
