-- Requests that may be sent again. Each durable write of such a request leaves a row in its own
-- transaction, so that the write is recognised when the request comes again; the finished answer is
-- the row with the empty step. Rows are kept for a day or two and then swept.
CREATE TABLE requests (
    -- Follows from tenant, caller and idempotency key, or from the request itself and its time.
    id bytea NOT NULL,
    step text NOT NULL,
    -- The hash of method, path and body.
    digest bytea NOT NULL,
    at bigint NOT NULL,
    -- The session that was written to, if one was: when it is erased, so are these.
    session bytea,
    note text,
    PRIMARY KEY (id, step)
);
CREATE INDEX requests_by_time ON requests (at);
CREATE INDEX requests_by_session ON requests (session) WHERE session IS NOT NULL;

-- Keeps the ids of requests, and of what they make, unguessable for whoever knows the key.
CREATE TABLE request_salt (salt bytea NOT NULL);
INSERT INTO request_salt (salt)
SELECT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
