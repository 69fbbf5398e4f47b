-- Calls for which a limit left no room, how many of them were taken in from the counters, and calls that were under
-- way when their process was killed.
ALTER TABLE breaker ADD COLUMN busy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN counted_busy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN lost_calls INTEGER NOT NULL DEFAULT 0;
