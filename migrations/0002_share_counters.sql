-- What a row has taken in of the counters that all processes share, beside the file.
-- The key is the one of the counters, 0 if there are none, and negative while every success is written.
ALTER TABLE breaker ADD COLUMN counters_key INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_successes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_unjudged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_ignored INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_rejections INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_slow INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_would_reject INTEGER NOT NULL DEFAULT 0;
