-- Which store this is, and how many commits it has made: `haft.mark` beside the file says the same,
-- so that commits that went missing are noticed.
CREATE TABLE mark (
    store BLOB NOT NULL,
    commits INTEGER NOT NULL
) STRICT;
INSERT INTO mark (store, commits) VALUES (randomblob(16), 0);
