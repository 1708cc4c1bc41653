-- Ids are 16 bytes and hashes 32; times are milliseconds since 1970; JSON is text.

CREATE TABLE sessions (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_tenant ON sessions (tenant, id);
CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;

-- With a rowid: entries are long, and appending them at the end of one tree writes fewer pages.
CREATE TABLE events (
    session BLOB NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    format INTEGER NOT NULL,
    hash BLOB NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;

-- Apart from the session's row, which every append rewrites.
CREATE TABLE snapshots (
    session BLOB NOT NULL PRIMARY KEY REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    format INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE calls (
    session BLOB NOT NULL REFERENCES sessions (id),
    call BLOB NOT NULL,
    tool TEXT NOT NULL,
    stage TEXT NOT NULL,
    class TEXT,
    decided TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;

-- The open suspensions, and only those.
CREATE TABLE waits (
    session BLOB NOT NULL REFERENCES sessions (id),
    call BLOB NOT NULL,
    round INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    since INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_deadline ON waits (expires_at, session, call);
CREATE INDEX waits_by_tenant ON waits (tenant, expires_at, session, call);

-- The retries that are to be made.
CREATE TABLE timers (
    session BLOB NOT NULL REFERENCES sessions (id),
    call BLOB NOT NULL,
    due_at INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_by_time ON timers (due_at);

-- The sessions to look at.
CREATE TABLE wakes (
    session BLOB NOT NULL PRIMARY KEY REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

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
