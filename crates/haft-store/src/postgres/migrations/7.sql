-- Who opened a session, so that a list shows each caller their own without reading a log, and the
-- entry that says how the session behaves.
ALTER TABLE sessions ADD COLUMN opened_by text;
ALTER TABLE sessions ADD COLUMN config_seq bigint NOT NULL DEFAULT 1;
UPDATE sessions SET opened_by =
    (body::json -> 'by' ->> 'kind') || ':' || (body::json -> 'by' ->> 'id')
FROM events WHERE session = id AND seq = 1;
CREATE INDEX sessions_by_opener ON sessions (tenant, opened_by, id);

-- The places of the entries that tell of a call, and whether the program that made the session
-- answers for it; unknown for calls of old.
ALTER TABLE calls ADD COLUMN told text;
ALTER TABLE calls ADD COLUMN custom boolean;

ALTER TABLE waits ADD COLUMN opened_by text;
UPDATE waits SET opened_by = sessions.opened_by FROM sessions WHERE id = session;
-- Since when a call for a client may have had none; none while one was seen to be there.
ALTER TABLE waits ADD COLUMN unattended_since bigint;
-- Calls in doubt come first in the inbox.
ALTER TABLE waits ADD COLUMN inbox_rank smallint NOT NULL
    GENERATED ALWAYS AS (CASE WHEN kind = 'settlement' THEN 0 ELSE 1 END) STORED;

DROP INDEX waits_by_tenant;
CREATE INDEX waits_by_tenant ON waits (tenant, inbox_rank, expires_at, session, call);
CREATE INDEX waits_by_opener ON waits (tenant, opened_by, inbox_rank, expires_at, session, call);
CREATE INDEX waits_unattended ON waits (unattended_since) WHERE unattended_since IS NOT NULL;

-- Whether the clients of a node whose lease ran out have been accounted for.
ALTER TABLE nodes ADD COLUMN clients_left boolean NOT NULL DEFAULT false;
CREATE INDEX clients_by_node ON clients (node);
