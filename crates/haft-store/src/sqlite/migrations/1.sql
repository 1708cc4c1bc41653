-- Ids are 16 bytes and hashes 32; times are milliseconds since 1970; JSON is text.

-- What is written together should lie together: a commit writes whole pages, and the fewer it touches
-- the more sessions share it. So rows stand in the order in which they came, and other tables name a
-- session by its number. No table refers to `sessions` by a foreign key: the one writer has found the
-- session before it writes anything else.

CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    -- The place of its last append.
    tail INTEGER,
    epoch INTEGER NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_tenant ON sessions (tenant, id);
CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;

-- The log, one row for each append. Each row knows the one before it, and every so often there is a
-- mark from which reading can start: an index of every row would cost a page for each session in
-- each commit.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    -- Of its last entry.
    seq INTEGER NOT NULL,
    previous INTEGER,
    mark INTEGER,
    at INTEGER NOT NULL,
    format INTEGER NOT NULL,
    -- The hash and the length of each entry.
    parts BLOB NOT NULL,
    -- The entries, one after the other.
    body TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_mark ON events (session, mark) WHERE mark IS NOT NULL;

-- Apart from the session's row, which every append rewrites.
CREATE TABLE snapshots (
    session INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    format INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- The calls, with what each waits for: someone outside until `expires_at`, or a retry at `retry_at`.
CREATE TABLE calls (
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    call BLOB NOT NULL,
    tool TEXT NOT NULL,
    stage TEXT NOT NULL,
    class TEXT,
    decided TEXT,
    updated_at INTEGER NOT NULL,
    tenant TEXT,
    round INTEGER,
    kind TEXT,
    since INTEGER,
    expires_at INTEGER,
    retry_at INTEGER,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    -- The call first: new ids are next to each other, whatever their sessions.
    UNIQUE (call, session)
) STRICT;
CREATE INDEX waits_by_deadline ON calls (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX waits_by_tenant ON calls (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX waits_by_session ON calls (session, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX retries_by_time ON calls (retry_at) WHERE retry_at IS NOT NULL;

-- The sessions to look at.
CREATE TABLE wakes (
    session INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE nodes (
    node TEXT NOT NULL PRIMARY KEY,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
    digest BLOB NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE artifacts (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    session BLOB,
    digest BLOB NOT NULL REFERENCES blobs (digest),
    bytes INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    title TEXT,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    digest BLOB REFERENCES blobs (digest),
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, key, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (tenant, space, key)
) STRICT;
CREATE VIRTUAL TABLE documents_text USING fts5 (
    title, body, content = 'documents', content_rowid = 'id', tokenize = 'unicode61'
);
CREATE TRIGGER documents_added AFTER INSERT ON documents BEGIN
    INSERT INTO documents_text (rowid, title, body) VALUES (new.id, new.title, new.body);
END;
CREATE TRIGGER documents_removed AFTER DELETE ON documents BEGIN
    INSERT INTO documents_text (documents_text, rowid, title, body)
    VALUES ('delete', old.id, old.title, old.body);
END;
