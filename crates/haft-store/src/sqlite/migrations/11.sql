-- The record of authority: an entry for every version of what gives power, each chained to the one
-- before by its hash.
CREATE TABLE authority (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest BLOB,
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (tenant, space, key, version)
) STRICT;
