-- The record of authority: an entry for every version of what gives power, each chained to the one
-- before by its hash.
CREATE TABLE authority (
    number bigint NOT NULL PRIMARY KEY,
    tenant text NOT NULL,
    space text NOT NULL,
    key text NOT NULL,
    version bigint NOT NULL,
    digest bytea,
    author text NOT NULL,
    at bigint NOT NULL,
    hash bytea NOT NULL,
    UNIQUE (tenant, space, key, version)
);
