-- What a host of a fleet knows: which fleet it is, what its operators have said to all hosts, and what has
-- yet to be told to the others. The relay of the host writes most of it.

-- The fleet that the host belongs to: one row, or none.
CREATE TABLE fleet (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  fleet TEXT NOT NULL,
  host TEXT NOT NULL,                           -- what the fleet calls this host
  stamp INTEGER NOT NULL DEFAULT 0,             -- the highest stamp of a command that was seen here
  epoch TEXT,                                   -- the stream, and how far it was read; NULL if it never was
  number INTEGER,
  entry TEXT,
  is_connected INTEGER NOT NULL DEFAULT 0,      -- what the relay noted last
  changed_at_ms INTEGER,
  problem TEXT
) STRICT;

-- The latest command about each aspect of a breaker. It names breakers, so that it outlives them.
CREATE TABLE fleet_command (
  breaker TEXT NOT NULL,
  aspect TEXT NOT NULL,                         -- 'state', 'mode', or 'policy:' with a key of the policy
  stamp INTEGER NOT NULL,                       -- of two commands, the one with the higher stamp is later,
  host TEXT NOT NULL,                           -- or else the one of the host with the greater name
  action TEXT NOT NULL,                         -- 'trip', 'reset', 'force' or 'policy'
  mode INTEGER,
  length_ns INTEGER,                            -- how long a trip or a mode lasts; NULL if nobody said
  policy_set TEXT,                              -- as 'open-for=1m probes=2'
  policy_unset TEXT,                            -- as 'max-failures jitter'
  reason TEXT,
  author TEXT NOT NULL,
  boot INTEGER NOT NULL,                        -- the boot that the next one belongs to
  given_at_ns INTEGER NOT NULL,                 -- when it was given, on this host's clocks
  given_at_ms INTEGER NOT NULL,
  is_in_force INTEGER NOT NULL,                 -- 0 while a value fits no policy of this host
  PRIMARY KEY (breaker, aspect)
) STRICT, WITHOUT ROWID;

-- The commands that were given here and that the relay has yet to publish, in order.
CREATE TABLE fleet_outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  breaker TEXT NOT NULL,
  stamp INTEGER NOT NULL,
  host TEXT NOT NULL,
  action TEXT NOT NULL,
  mode INTEGER,
  length_ns INTEGER,
  policy_set TEXT,
  policy_unset TEXT,
  reason TEXT,
  author TEXT NOT NULL,
  boot INTEGER NOT NULL,
  given_at_ns INTEGER NOT NULL,
  given_at_ms INTEGER NOT NULL
) STRICT;

-- When other hosts last made the breaker half-open, on the clock of the row's boot.
ALTER TABLE breaker ADD COLUMN suspected_at_ns INTEGER;

-- Whether an operator, or a failure that named its time, has set the open time, so that no other host ends
-- it. Nobody has noted it for those that are open now, so theirs stay as they are.
ALTER TABLE breaker ADD COLUMN is_open_time_named INTEGER NOT NULL DEFAULT 0;
UPDATE breaker SET is_open_time_named = 1 WHERE state = 1;

-- The host of the fleet that a change came from; NULL for this host.
ALTER TABLE event ADD COLUMN origin TEXT;
