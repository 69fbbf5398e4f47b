-- A probe keeps its slot until it ends, whatever becomes of the breaker meanwhile. So a lease says in
-- which generation it was given, and a row says how many leases it has: a healthy one costs no query.
ALTER TABLE lease ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN leases INTEGER NOT NULL DEFAULT 0;

-- Until now the leases of a round ended with it, though their rows could stay.
DELETE FROM lease WHERE breaker NOT IN (SELECT id FROM breaker WHERE state = 2);
UPDATE lease SET generation = (SELECT generation FROM breaker WHERE breaker.id = lease.breaker);
UPDATE breaker SET leases = (SELECT count(*) FROM lease WHERE lease.breaker = breaker.id)
WHERE id IN (SELECT breaker FROM lease);

-- When the open time was last set again; NULL if it counts from the opening.
ALTER TABLE breaker ADD COLUMN extended_at_ms INTEGER;

-- The history without its bound on kinds, of which there are more now. Numbers and order stay.
CREATE TABLE event_of_any_kind (
  id INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,                       -- when it happened, which may be before it was written
  name TEXT NOT NULL,
  kind INTEGER NOT NULL,
  from_word TEXT NOT NULL,
  to_word TEXT NOT NULL,
  reason TEXT,
  pid INTEGER NOT NULL,                         -- the process that wrote it
  program TEXT NOT NULL,
  previous INTEGER                              -- the event before it of the same breaker
) STRICT;
INSERT INTO event_of_any_kind
  SELECT id, at_ms, name, kind, from_word, to_word, reason, pid, program, previous FROM event;
DROP TABLE event;
ALTER TABLE event_of_any_kind RENAME TO event;
CREATE INDEX event_by_name ON event (name, id);
