-- Whether anyone still refers to a blob is asked whenever content is erased.
CREATE INDEX versions_by_digest ON versions (digest);
CREATE INDEX artifacts_by_digest ON artifacts (digest);
