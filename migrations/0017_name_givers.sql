-- Whom the relay of a command's host has seen giving it, and whether a key of the fleet proves that. NULL if it has seen
-- nobody: then only the program that gave the command has said who it was.
ALTER TABLE fleet_command ADD COLUMN verified_user TEXT;
ALTER TABLE fleet_command ADD COLUMN is_proven INTEGER;
ALTER TABLE fleet_outbox ADD COLUMN verified_user TEXT;
ALTER TABLE fleet_outbox ADD COLUMN is_proven INTEGER;

-- The same of an event that carried out another host's command, and who the program said it was; the host is its origin.
ALTER TABLE event ADD COLUMN given_by TEXT;
ALTER TABLE event ADD COLUMN verified_user TEXT;
ALTER TABLE event ADD COLUMN is_proven INTEGER;
