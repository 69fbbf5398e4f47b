-- What has become of a command that was given here: why it cannot go out, and how often operators took some back.
ALTER TABLE fleet_outbox ADD COLUMN refusal TEXT;  -- why the relay could not publish it; NULL as long as nothing is known
ALTER TABLE fleet ADD COLUMN withdrawals INTEGER NOT NULL DEFAULT 0;

-- When a recovery on another host last shortened the open time, on the clock of the row's boot.
ALTER TABLE breaker ADD COLUMN recovered_at_ns INTEGER;
