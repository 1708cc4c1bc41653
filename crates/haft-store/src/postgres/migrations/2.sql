-- Whose session it is, and which one opened it: both are in its first event.
ALTER TABLE sessions ADD COLUMN agent text;
ALTER TABLE sessions ADD COLUMN parent bytea;
CREATE INDEX sessions_by_agent ON sessions (tenant, agent, id) WHERE agent IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (parent, id) WHERE parent IS NOT NULL;
