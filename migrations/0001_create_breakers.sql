-- Times ending in _ns are on the boot clock of the boot named in the row; times ending in _ms are
-- milliseconds since 1970, for people. States, modes and kinds are the numbers of the Concepts guide.

-- The store itself: one row.
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  identity INTEGER NOT NULL,                    -- random; tells this store from every other
  created_at_ms INTEGER NOT NULL,
  deleted_revision INTEGER NOT NULL DEFAULT 0,  -- revision of the latest deletion of a breaker
  recovered_at_ms INTEGER                       -- when a process last came back to this store
) STRICT;

CREATE TABLE migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  applied_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE breaker (
  id INTEGER PRIMARY KEY AUTOINCREMENT,         -- never given twice, so old tokens stay refused
  name TEXT NOT NULL UNIQUE,
  revision INTEGER NOT NULL DEFAULT 0,          -- one for each transaction: what came after R is > R
  boot INTEGER NOT NULL DEFAULT 0,              -- the boot that the _ns times belong to
  created_at_ms INTEGER NOT NULL DEFAULT (unixepoch() * 1000),
  changed_at_ms INTEGER,                        -- the latest change of state

  state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
  generation INTEGER NOT NULL DEFAULT 1 CHECK (generation > 0),

  mode INTEGER NOT NULL DEFAULT 0 CHECK (mode BETWEEN 0 AND 3),
  mode_until_ns INTEGER,
  mode_length_ns INTEGER NOT NULL DEFAULT 0,
  mode_set_at_ms INTEGER,
  mode_reason TEXT,
  mode_set_by TEXT,

  consecutive_failures INTEGER NOT NULL DEFAULT 0,
  streak_started_at_ns INTEGER,
  counted_failure_at_ns INTEGER,
  failure_times BLOB,
  call_window BLOB,
  reporters BLOB,
  last_failure_at_ms INTEGER,
  last_error TEXT,

  open_until_ns INTEGER,
  open_length_ns INTEGER NOT NULL DEFAULT 0,
  opened_at_ms INTEGER,
  growth INTEGER NOT NULL DEFAULT 0,            -- exponent of the next open time, before its decay
  closed_at_ns INTEGER,
  trips INTEGER NOT NULL DEFAULT 0,

  last_lease INTEGER NOT NULL DEFAULT 0,
  probe_successes INTEGER NOT NULL DEFAULT 0,
  probe_failures INTEGER NOT NULL DEFAULT 0,

  successes INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  ignored INTEGER NOT NULL DEFAULT 0,
  rejections INTEGER NOT NULL DEFAULT 0,
  slow INTEGER NOT NULL DEFAULT 0,
  would_reject INTEGER NOT NULL DEFAULT 0,

  code_policy TEXT,                             -- what code declared last, as 'open-for=1m probes=2'
  operator_policy TEXT                          -- what an operator has set over it
) STRICT;

CREATE INDEX breaker_by_revision ON breaker (revision);

-- Takes what hangs on a breaker, and leaves word for those who read only what changed.
CREATE TRIGGER breaker_deleted AFTER DELETE ON breaker BEGIN
  DELETE FROM lease WHERE breaker = OLD.id;
  DELETE FROM declaration WHERE breaker = OLD.id;
  UPDATE store SET deleted_revision = max(deleted_revision, OLD.revision,
    (SELECT coalesce(max(revision), 0) FROM breaker)) + 1;
END;

-- The probes that are under way.
CREATE TABLE lease (
  breaker INTEGER NOT NULL,
  id INTEGER NOT NULL,
  pid INTEGER,                                  -- the owner; NULL if only the deadline ends it
  start_ticks INTEGER,
  pid_namespace INTEGER,
  deadline_ns INTEGER NOT NULL,
  PRIMARY KEY (breaker, id)
) STRICT, WITHOUT ROWID;

-- The bounded history. It names breakers, so that it outlives them.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
  from_word TEXT NOT NULL,
  to_word TEXT NOT NULL,
  reason TEXT,
  pid INTEGER NOT NULL,
  program TEXT NOT NULL
) STRICT;

CREATE INDEX event_by_name ON event (name, id);

-- Each policy that code has declared for a breaker, and who was the last to declare it.
CREATE TABLE declaration (
  breaker INTEGER NOT NULL,
  policy TEXT NOT NULL,
  declared_at_ms INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  program TEXT NOT NULL,
  PRIMARY KEY (breaker, policy)
) STRICT, WITHOUT ROWID;
