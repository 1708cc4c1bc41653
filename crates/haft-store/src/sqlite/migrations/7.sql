-- Who opened a session, so that a list shows each caller their own without reading a log, and the
-- entry that says how the session behaves. Sessions that are there already are filled in by
-- `connection::fill_openers`.
ALTER TABLE sessions ADD COLUMN opened_by TEXT;
ALTER TABLE sessions ADD COLUMN config_seq INTEGER NOT NULL DEFAULT 1;
CREATE INDEX sessions_by_opener ON sessions (tenant, opened_by, id);

-- Who opened the session of a call that waits, and the places of the entries that tell of the call.
ALTER TABLE calls ADD COLUMN opened_by TEXT;
ALTER TABLE calls ADD COLUMN told TEXT;
-- Whether the program that made the session answers for the call; unknown for calls of old.
ALTER TABLE calls ADD COLUMN custom INTEGER;
-- Since when a call for a client may have had none; none while one was seen to be there.
ALTER TABLE calls ADD COLUMN unattended_since INTEGER;
-- Calls in doubt come first in the inbox.
ALTER TABLE calls ADD COLUMN inbox_rank INTEGER
    AS (CASE WHEN kind = 'settlement' THEN 0 ELSE 1 END) VIRTUAL;

DROP INDEX waits_by_tenant;
CREATE INDEX waits_by_tenant ON calls (tenant, inbox_rank, expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX waits_by_opener ON calls (tenant, opened_by, inbox_rank, expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX waits_unattended ON calls (unattended_since) WHERE unattended_since IS NOT NULL;

-- Whether the clients of a node whose lease ran out have been accounted for.
ALTER TABLE nodes ADD COLUMN clients_left INTEGER NOT NULL DEFAULT 0;
CREATE INDEX clients_by_node ON clients (node);
