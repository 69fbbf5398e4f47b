-- What a command has come to that was given here: why it cannot go out, and how often operators took some back.
ALTER TABLE fleet_outbox ADD COLUMN refusal TEXT;  -- why the relay could not publish it; NULL as long as nothing is known
ALTER TABLE fleet ADD COLUMN withdrawals INTEGER NOT NULL DEFAULT 0;
