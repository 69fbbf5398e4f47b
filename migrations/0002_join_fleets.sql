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
  problem TEXT,
  withdrawals INTEGER NOT NULL DEFAULT 0        -- how often operators took commands back
) STRICT;

-- The latest command about each aspect of a breaker. It names breakers, so that it outlives them.
CREATE TABLE fleet_command (
  breaker TEXT NOT NULL,
  aspect TEXT NOT NULL,                         -- 'state', 'hold', 'mode', or 'policy:' with a key of the policy
  stamp INTEGER NOT NULL,                       -- of two commands, the one with the higher stamp is later,
  host TEXT NOT NULL,                           -- or else the one of the host with the greater name
  action TEXT NOT NULL,                         -- 'trip', 'reset', 'end-hold', 'force' or 'policy'
  mode INTEGER,
  length_ns INTEGER,                            -- how long a trip or a mode lasts; NULL if it was not said
  policy_set TEXT,                              -- as 'open-for=1m probes=2'
  policy_unset TEXT,                            -- as 'max-failures jitter'
  reason TEXT,
  author TEXT NOT NULL,
  verified_user TEXT,                           -- whom the relay of its host has seen giving it; NULL if no user
  is_proven INTEGER,                            -- whether a key of the fleet proves that
  seals TEXT,                                   -- what proves that the relay of its host told it, as
                                                -- 'mode=1700000000000:0123456789abcdef:...'; NULL without a key, and
                                                -- for a command that was given here
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
  verified_user TEXT,
  is_proven INTEGER,
  seals TEXT,
  boot INTEGER NOT NULL,
  given_at_ns INTEGER NOT NULL,
  given_at_ms INTEGER NOT NULL,
  refusal TEXT                                  -- why the relay could not publish it; NULL as long as none is known
) STRICT;

-- Many commands may wait while a host cannot reach the others, and each new one looks for those that it overtakes.
CREATE INDEX fleet_outbox_breaker ON fleet_outbox (breaker);
CREATE INDEX fleet_outbox_refused ON fleet_outbox (id) WHERE refusal IS NOT NULL;
