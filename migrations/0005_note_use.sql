-- When the row was last written. Successes alone do not write it, but are counted beside the file: a
-- breaker whose counters have not moved since was last used then. NULL if nobody has noted it yet.
ALTER TABLE breaker ADD COLUMN used_at_ms INTEGER;
