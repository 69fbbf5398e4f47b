-- An index of every revision costs each commit a second page. A breaker's era is its revision
-- divided by 64: it seldom changes, and who looks for what came after a revision reads from the
-- revision's era on, which is at most 63 breakers too many.
ALTER TABLE breaker ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
UPDATE breaker SET era = revision / 64;
DROP INDEX breaker_by_revision;
CREATE INDEX breaker_by_era ON breaker (era);

-- As before, but finds the latest revision by its era.
DROP TRIGGER breaker_deleted;
CREATE TRIGGER breaker_deleted AFTER DELETE ON breaker BEGIN
  DELETE FROM lease WHERE breaker = OLD.id;
  DELETE FROM declaration WHERE breaker = OLD.id;
  UPDATE store SET deleted_revision = max(deleted_revision, OLD.revision,
    coalesce((SELECT max(revision) FROM breaker WHERE era = (SELECT max(era) FROM breaker)), 0))
    + 1;
END;
