-- Written whenever someone asks whether writes are durable now.
CREATE TABLE probes (
    id integer PRIMARY KEY,
    at bigint NOT NULL
);
