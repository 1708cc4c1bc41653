-- What is kept of a session that was erased. Each row is chained to the one before by its hash.
CREATE TABLE erasures (
    number bigint NOT NULL PRIMARY KEY,
    session bytea NOT NULL UNIQUE,
    tenant text NOT NULL,
    -- Where its log ended.
    head_seq bigint NOT NULL,
    head_hash bytea NOT NULL,
    author text NOT NULL,
    at bigint NOT NULL,
    hash bytea NOT NULL
);

-- The sessions that are to be erased as soon as they have ended.
CREATE TABLE erasure_requests (
    session bytea NOT NULL PRIMARY KEY,
    tenant text NOT NULL,
    author text NOT NULL,
    at bigint NOT NULL
);

-- What belongs to a session, or to one of its calls, has its id as the key.
CREATE INDEX versions_by_key ON versions (tenant, key COLLATE "C");
CREATE INDEX artifacts_by_session ON artifacts (session) WHERE session IS NOT NULL;
CREATE INDEX deliveries_by_session ON deliveries (session);
