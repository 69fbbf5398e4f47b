-- What proves that the relay of its host has told a command, as 'mode=1700000000000:0123456789abcdef:...'; NULL in a
-- fleet without a key, and for a command that was given here.
ALTER TABLE fleet_command ADD COLUMN seals TEXT;
ALTER TABLE fleet_outbox ADD COLUMN seals TEXT;

-- Many commands may wait while a host cannot reach the others, and each new one looks for those that it overtakes.
CREATE INDEX fleet_outbox_breaker ON fleet_outbox (breaker);
CREATE INDEX fleet_outbox_refused ON fleet_outbox (id) WHERE refusal IS NOT NULL;
