-- Written whenever someone asks whether writes are durable now.
CREATE TABLE probes (
    id smallint PRIMARY KEY,
    at bigint NOT NULL
);
