-- Times ending in _ns are on the boot clock of the boot named in the row; times ending in _ms are
-- milliseconds since 1970, for people. States, modes and kinds are the numbers of the Concepts guide.

-- The store itself: one row.
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  identity INTEGER NOT NULL,                    -- random; stays with the store's counters
  created_at_ms INTEGER NOT NULL,
  deleted_revision INTEGER NOT NULL DEFAULT 0,  -- revision of the latest deletion of a breaker
  recovered_at_ms INTEGER,                      -- when a process last came back to this store

  -- Processes agree through the store on which boot they run in, because not all of them can read the kernel's
  -- boot id, and a container may show them another one. By the other columns a process finds out whether it is
  -- still the same.
  boot INTEGER NOT NULL DEFAULT 0,              -- the number of the boot in this store
  booted_at_ms INTEGER NOT NULL DEFAULT 0,      -- when, as the first process of that boot had it from the wall clock
  boot_id INTEGER,                              -- checksum of the kernel's boot id; NULL if no process could read it
  boot_seen_ns INTEGER NOT NULL DEFAULT 0,      -- when the note was written

  -- Permits, tokens and claims carry the lineage. The first process that finds itself with a copy of the store renews
  -- it, so that those from before the copy was made are recognised.
  lineage INTEGER NOT NULL DEFAULT 0,           -- random
  lineage_file INTEGER NOT NULL DEFAULT 0       -- the inode that it was drawn in
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
  era INTEGER NOT NULL DEFAULT 0,               -- revision / 64, see its index
  boot INTEGER NOT NULL DEFAULT 0,              -- the boot that the _ns times belong to
  created_at_ms INTEGER NOT NULL DEFAULT (unixepoch() * 1000),
  changed_at_ms INTEGER,                        -- the latest change of state
  used_at_ms INTEGER,                           -- when the row was last written; successes alone do not write it

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

  open_until_ns INTEGER,                        -- in half-open: no probe begins before, because probes were lost
  open_length_ns INTEGER NOT NULL DEFAULT 0,
  is_open_time_named INTEGER NOT NULL DEFAULT 0, -- by an operator or a failure, so that no other host ends it
  open_reason TEXT,                             -- why an operator has opened it; NULL if no operator gave a reason
  opened_at_ms INTEGER,
  extended_at_ms INTEGER,                       -- when the open time was set again; NULL if it counts from the opening
  growth INTEGER NOT NULL DEFAULT 0,            -- exponent of the next open time, before its decay
  closed_at_ns INTEGER,
  trips INTEGER NOT NULL DEFAULT 0,
  outage_times BLOB,                            -- when the latest outages began, by which it is told whether it flaps

  hold BLOB,                                    -- all about holds: times, texts and totals; NULL if there never was one

  last_lease INTEGER NOT NULL DEFAULT 0,
  leases INTEGER NOT NULL DEFAULT 0,            -- how many there are, so that a healthy breaker costs no query
  usual_probe_ns INTEGER,                       -- how long probes take; NULL while no probe has succeeded
  probe_successes INTEGER NOT NULL DEFAULT 0,
  probe_failures INTEGER NOT NULL DEFAULT 0,

  successes INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  ignored INTEGER NOT NULL DEFAULT 0,
  rejections INTEGER NOT NULL DEFAULT 0,
  slow INTEGER NOT NULL DEFAULT 0,
  would_reject INTEGER NOT NULL DEFAULT 0,
  busy INTEGER NOT NULL DEFAULT 0,              -- calls for which a limit left no room
  lost_calls INTEGER NOT NULL DEFAULT 0,        -- calls that were under way when their process ended

  code_policy TEXT,                             -- what code declared last, as 'open-for=1m probes=2'
  operator_policy TEXT,                         -- what an operator has set over it

  -- What the row has taken in of the counters that all processes share, beside the file. The key is the one of the
  -- counters, 0 if there are none, and negative while every success is written.
  counters_key INTEGER NOT NULL DEFAULT 0,
  counted_successes INTEGER NOT NULL DEFAULT 0,
  counted_unjudged INTEGER NOT NULL DEFAULT 0,
  counted_ignored INTEGER NOT NULL DEFAULT 0,
  counted_rejections INTEGER NOT NULL DEFAULT 0,
  counted_slow INTEGER NOT NULL DEFAULT 0,
  counted_would_reject INTEGER NOT NULL DEFAULT 0,
  counted_busy INTEGER NOT NULL DEFAULT 0,

  -- How long the breaker had been in each state, and how often it had come from another one into each, when the state
  -- began that it is in. Only a change of state writes them.
  state_since_ns INTEGER,                       -- on the clock of state_since_boot
  state_since_boot INTEGER NOT NULL DEFAULT 0,
  closed_ns INTEGER NOT NULL DEFAULT 0,
  open_ns INTEGER NOT NULL DEFAULT 0,
  half_open_ns INTEGER NOT NULL DEFAULT 0,
  to_closed INTEGER NOT NULL DEFAULT 0,
  to_open INTEGER NOT NULL DEFAULT 0,
  to_half_open INTEGER NOT NULL DEFAULT 0,

  -- What other hosts of a fleet did last, on the clock of the row's boot.
  suspected_at_ns INTEGER,                      -- they made it half-open
  recovered_at_ns INTEGER                       -- a recovery on one of them shortened the open time
) STRICT;

-- An index of every revision would cost each commit a second page. An era seldom changes, and who looks for what came
-- after a revision reads from the revision's era on, which is at most 63 breakers too many.
CREATE INDEX breaker_by_era ON breaker (era);

-- Takes what hangs on a breaker, and leaves word for processes that read only what changed.
CREATE TRIGGER breaker_deleted AFTER DELETE ON breaker BEGIN
  DELETE FROM lease WHERE breaker = OLD.id;
  DELETE FROM declaration WHERE breaker = OLD.id;
  UPDATE store SET deleted_revision = max(deleted_revision, OLD.revision,
    coalesce((SELECT max(revision) FROM breaker WHERE era = (SELECT max(era) FROM breaker)), 0))
    + 1;
END;

-- The probes that are under way. A probe keeps its slot until it ends, whatever becomes of the breaker meanwhile.
CREATE TABLE lease (
  breaker INTEGER NOT NULL,
  id INTEGER NOT NULL,
  generation INTEGER NOT NULL DEFAULT 0,        -- in which it was given
  pid INTEGER,                                  -- the owner; NULL if only the deadline ends it
  start_ticks INTEGER,
  pid_namespace INTEGER,
  lifeline INTEGER,                             -- the byte that the owner locks for as long as it lives; NULL if none
  lifeline_file INTEGER,                        -- the inode of the file that the byte is in
  began_at_ns INTEGER,
  deadline_ns INTEGER NOT NULL,
  PRIMARY KEY (breaker, id)
) STRICT, WITHOUT ROWID;

-- The bounded history. It names breakers, so that it outlives them. The numbers of all events have no gaps.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,                       -- when it happened, which may be before it was written
  name TEXT NOT NULL,
  kind INTEGER NOT NULL,
  from_word TEXT NOT NULL,
  to_word TEXT NOT NULL,
  reason TEXT,
  begins_outage INTEGER,                        -- whether calls began to be rejected with it, which depends on the mode
  previous INTEGER,                             -- the event before it of the same breaker: shows what was trimmed unread

  -- The process that wrote it, and for whom it acted and with which command, without arguments; NULL if for itself.
  pid INTEGER NOT NULL,
  program TEXT NOT NULL,
  user TEXT,
  command TEXT,

  -- The host of the fleet that the change came from; NULL for this one. Of a command: the giver in the words of that
  -- host, the user whom its relay saw giving it, and whether a key of the fleet proves that.
  origin TEXT,
  given_by TEXT,
  verified_user TEXT,
  is_proven INTEGER
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

-- How far the hook of a name has got; one process at a time runs it, for one event after the other.
CREATE TABLE hook (
  name TEXT PRIMARY KEY,
  handled INTEGER NOT NULL,                     -- the latest event that is done with; -1 if some were lost
  failures INTEGER NOT NULL,                    -- how often it has failed for the one that follows
  claim INTEGER NOT NULL,                       -- raised whenever a process begins to run it
  pid INTEGER,                                  -- the process that runs it; NULL if none does
  start_ticks INTEGER,
  pid_namespace INTEGER,
  lifeline INTEGER,
  lifeline_file INTEGER,
  boot INTEGER NOT NULL,                        -- the boot that the next one belongs to
  until_ns INTEGER NOT NULL                     -- no other process may begin before
) STRICT, WITHOUT ROWID;
