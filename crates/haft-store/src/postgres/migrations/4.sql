-- Which clients are connected to which node: those that have not left, as long as the node is alive.
CREATE TABLE clients (
    session bytea NOT NULL,
    tool text NOT NULL,
    node text NOT NULL,
    left_at bigint,
    PRIMARY KEY (session, tool, node)
);
