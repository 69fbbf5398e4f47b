-- The event before it of the same breaker: who follows one breaker sees by it whether events were
-- trimmed before they were read. The numbers of all events together have no gaps.
ALTER TABLE event ADD COLUMN previous INTEGER;
UPDATE event SET previous =
  (SELECT max(id) FROM event AS earlier WHERE earlier.name = event.name AND earlier.id < event.id);

-- How far the hook of a name has got; one process at a time runs it, for one event after the other.
CREATE TABLE hook (
  name TEXT PRIMARY KEY,
  handled INTEGER NOT NULL,             -- the latest event that is done with; -1 if some were lost
  failures INTEGER NOT NULL,            -- how often it has failed for the one that follows
  claim INTEGER NOT NULL,               -- raised whenever a process begins to run it
  pid INTEGER,                          -- who runs it; NULL if nobody does
  start_ticks INTEGER,
  pid_namespace INTEGER,
  boot INTEGER NOT NULL,                -- the boot that the next one belongs to
  until_ns INTEGER NOT NULL             -- no one else may begin before
) STRICT, WITHOUT ROWID;
