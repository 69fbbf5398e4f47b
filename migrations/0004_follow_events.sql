-- The event before it of the same breaker: who follows one breaker sees by it whether events were
-- trimmed before they were read. The numbers of all events together have no gaps.
ALTER TABLE event ADD COLUMN previous INTEGER;
UPDATE event SET previous =
  (SELECT max(id) FROM event AS earlier WHERE earlier.name = event.name AND earlier.id < event.id);
