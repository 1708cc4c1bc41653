-- Who is told of what, and what became of each telling. A delivery is written in the transaction of
-- the event that it tells of, for everyone who wants to hear of that kind.
CREATE TABLE webhooks (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    url text NOT NULL,
    sealed bytea NOT NULL,
    author text NOT NULL,
    at bigint NOT NULL
);

CREATE TABLE webhook_kinds (
    tenant text NOT NULL,
    kind text NOT NULL,
    webhook text NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, kind, webhook)
);
CREATE INDEX webhook_kinds_by_webhook ON webhook_kinds (webhook);

CREATE TABLE deliveries (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    session bytea NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    at bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    -- When the next attempt is due; none when it is over.
    due_at bigint,
    claimed_until bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'pending',
    -- What became of the latest attempt.
    attempted_at bigint,
    status bigint,
    error text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX deliveries_due ON deliveries (webhook, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_over ON deliveries (attempted_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_by_webhook ON deliveries (webhook, key);
