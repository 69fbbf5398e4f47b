-- How long a breaker had been in each state, and how often it had come from another one into each,
-- when the state began that it is in. Only a change of state writes them.
ALTER TABLE breaker ADD COLUMN state_since_ns INTEGER;       -- on the clock of state_since_boot
ALTER TABLE breaker ADD COLUMN state_since_boot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN closed_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN open_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN half_open_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN to_closed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN to_open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE breaker ADD COLUMN to_half_open INTEGER NOT NULL DEFAULT 0;

-- When the host booted, as the first process of that boot had it from the wall clock: what is
-- counted from there never goes back, whoever sets the clock later.
ALTER TABLE store ADD COLUMN boot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store ADD COLUMN booted_at_ms INTEGER NOT NULL DEFAULT 0;

-- Breakers that are there already begin with what their history still tells.
WITH change AS (
  SELECT e.name, e.from_word, e.to_word,
    max(0, e.at_ms - lag(e.at_ms) OVER (PARTITION BY e.name ORDER BY e.id)) AS after_ms
  FROM event e JOIN breaker b ON b.name = e.name AND b.created_at_ms <= e.at_ms
  WHERE e.kind IN (0, 2)
), life AS (
  SELECT name,
    1000000 * sum(after_ms) FILTER (WHERE from_word = 'closed') AS closed,
    1000000 * sum(after_ms) FILTER (WHERE from_word = 'open') AS open,
    1000000 * sum(after_ms) FILTER (WHERE from_word = 'half_open') AS half_open,
    count(*) FILTER (WHERE to_word = 'closed' AND from_word <> to_word) AS to_closed,
    count(*) FILTER (WHERE to_word = 'open' AND from_word <> to_word) AS to_open,
    count(*) FILTER (WHERE to_word = 'half_open' AND from_word <> to_word) AS to_half_open
  FROM change GROUP BY name
)
UPDATE breaker SET
  closed_ns = coalesce(life.closed, 0), open_ns = coalesce(life.open, 0),
  half_open_ns = coalesce(life.half_open, 0),
  to_closed = life.to_closed, to_open = life.to_open, to_half_open = life.to_half_open
FROM life WHERE life.name = breaker.name;
