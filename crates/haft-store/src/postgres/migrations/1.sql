-- Ids are 16 bytes and hashes 32; times are milliseconds since 1970; JSON is text, because hashes
-- cover its bytes.
--
-- No table refers to `sessions` by a foreign key: rows are written under the lock of their session's
-- row, and checking each of them again costs about a tenth of the throughput.

CREATE TABLE sessions (
    id bytea NOT NULL PRIMARY KEY,
    tenant text NOT NULL,
    head_seq bigint NOT NULL,
    head_hash bytea NOT NULL,
    epoch bigint NOT NULL,
    owner text,
    status text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX sessions_by_tenant ON sessions (tenant, id);
CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;

CREATE TABLE events (
    session bytea NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    format bigint NOT NULL,
    hash bytea NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session, seq)
);

-- Apart from the session's row, which every append rewrites.
CREATE TABLE snapshots (
    session bytea NOT NULL PRIMARY KEY,
    seq bigint NOT NULL,
    format bigint NOT NULL,
    body text NOT NULL
);

CREATE TABLE calls (
    session bytea NOT NULL,
    call bytea NOT NULL,
    tool text NOT NULL,
    stage text NOT NULL,
    class text,
    decided text,
    updated_at bigint NOT NULL,
    PRIMARY KEY (session, call)
);

-- The open suspensions, and only those.
CREATE TABLE waits (
    session bytea NOT NULL,
    call bytea NOT NULL,
    round bigint NOT NULL,
    kind text NOT NULL,
    tenant text NOT NULL,
    expires_at bigint NOT NULL,
    since bigint NOT NULL,
    claimed_until bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (session, call)
);
CREATE INDEX waits_by_deadline ON waits (expires_at, session, call);
CREATE INDEX waits_by_tenant ON waits (tenant, expires_at, session, call);

-- The retries that are to be made.
CREATE TABLE timers (
    session bytea NOT NULL,
    call bytea NOT NULL,
    due_at bigint NOT NULL,
    claimed_until bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (session, call)
);
CREATE INDEX timers_by_time ON timers (due_at);

-- The sessions to look at.
CREATE TABLE wakes (
    session bytea NOT NULL PRIMARY KEY,
    seq bigint NOT NULL,
    claimed_until bigint NOT NULL DEFAULT 0
);

CREATE TABLE nodes (
    node text NOT NULL PRIMARY KEY,
    lease_until bigint NOT NULL
);

CREATE TABLE blobs (
    digest bytea NOT NULL PRIMARY KEY,
    body bytea NOT NULL
);

CREATE TABLE artifacts (
    id bytea NOT NULL PRIMARY KEY,
    tenant text NOT NULL,
    session bytea,
    digest bytea NOT NULL REFERENCES blobs (digest),
    bytes bigint NOT NULL,
    media_type text NOT NULL,
    title text,
    at bigint NOT NULL
);

CREATE TABLE versions (
    tenant text NOT NULL,
    space text NOT NULL,
    key text NOT NULL,
    number bigint NOT NULL,
    digest bytea REFERENCES blobs (digest),
    author text NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (tenant, space, key, number)
);

CREATE TABLE documents (
    tenant text NOT NULL,
    space text NOT NULL,
    key text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    at bigint NOT NULL,
    -- Bounded, because a tsvector holds at most a megabyte.
    words tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', left(title, 10000)), 'A')
        || to_tsvector('simple', left(body, 200000))
    ) STORED,
    PRIMARY KEY (tenant, space, key)
);
CREATE INDEX documents_words ON documents USING gin (words);

-- Rows that come and go: dead ones slow down every look for work until they are cleaned away.
ALTER TABLE sessions SET (fillfactor = 80);
ALTER TABLE waits SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE timers SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE wakes SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
