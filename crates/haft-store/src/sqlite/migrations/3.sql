-- Who is told of what, and what became of each telling. A delivery is written in the transaction of
-- the event that it tells of, for everyone who wants to hear of that kind.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    url TEXT NOT NULL,
    sealed BLOB NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_kinds (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, kind, webhook)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_kinds_by_webhook ON webhook_kinds (webhook);

CREATE TABLE deliveries (
    key INTEGER PRIMARY KEY,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    -- When the next attempt is due; none when it is over.
    due_at INTEGER,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'pending',
    -- What became of the latest attempt.
    attempted_at INTEGER,
    status INTEGER,
    error TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (webhook, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_over ON deliveries (attempted_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_by_webhook ON deliveries (webhook, key);
