-- Which clients are connected to which node: those that have not left, as long as the node is alive.
CREATE TABLE clients (
    session BLOB NOT NULL,
    tool TEXT NOT NULL,
    node TEXT NOT NULL,
    left_at INTEGER,
    PRIMARY KEY (session, tool, node)
) STRICT, WITHOUT ROWID;
