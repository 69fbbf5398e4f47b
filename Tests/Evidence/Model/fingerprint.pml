/* No stale permit: a call that begins after a trip has returned is never permitted.
 *
 * The watched process has three threads: it commits (Stepper), reads what has changed (Refresher)
 * and makes healthy calls (Caller). Of other processes only the commits matter. The write lock
 * admits one commit at a time, so Neighbour stands for any number of processes, which crash at any
 * step. A watched process that restarts is the same as this one in its first state.
 *
 * A fingerprint is the number of its commit; 0 is the fingerprint of nothing.
 */

#define FIRST 1
#ifndef LAST
#define LAST 4
#endif
#define NOBODY 0
#define WATCHED 1
#define NEIGHBOUR 2

/* The file: the row and its revision, as the latest commit and the one before it left them. The
 * last bit of a commit's number is its index. */
bool isOpen[2];
byte rowRevision[2];
#define at(commit) ((commit) & 1)

/* The log, the two copies of its index's header, and the holder of SQLite's write lock. */
byte logged = FIRST;
byte firstCopy = FIRST;
byte secondCopy = FIRST;
byte writer = NOBODY;

/* The watched process: Knowledge.vouched and .baseline, and the cell's word and revision. */
byte seen;
byte baseline;
bool isKnown;
bool permits;
byte cellRevision;

/* The truth: a trip has returned, and no reset has begun since. */
bool hasTripped;
bool mustReject; /* since Caller's call began */

/* SQLite's recovery of the index, by the next holder of the lock after a crash. */
inline recover() {
  secondCopy = logged;
  firstCopy = logged
}

/* BEGIN IMMEDIATE, in Connection.write. The model ends with the last commit. */
inline beginWrite(me) {
  atomic {
    writer == NOBODY -> writer = me;
    if :: firstCopy != secondCopy || logged != firstCopy -> recover() :: else fi
  }
}

/* SIGKILL; the kernel frees the lock. */
#define MAY_CRASH if :: skip :: atomic { me == NEIGHBOUR -> writer = NOBODY; next = 0; goto start } fi

/* A step remembers its write. */
inline note() { wroteOpen = isOpen[at(next)]; isOwnRow = (rowRevision[at(next)] == next) }

/* The steps of COMMIT until it returns; `next` is the number of the commit. */
inline commitRow() {
  next = logged + 1;
  atomic {
    rowRevision[at(next)] = next;
    if
    :: !isOpen[at(logged)] -> isOpen[at(next)] = true
    :: isOpen[at(logged)] -> isOpen[at(next)] = false; hasTripped = false; mustReject = false
    :: isOpen[at(next)] = isOpen[at(logged)]; rowRevision[at(next)] = rowRevision[at(logged)]
      /* This commit wrote another breaker's row. */
    fi
  }
  MAY_CRASH;
  logged = next; /* the frames are complete */
#ifdef RETURNS_BEFORE_HEADER
  hasTripped = isOpen[at(next)];
#endif
  MAY_CRASH;
  secondCopy = next;
  MAY_CRASH;
  firstCopy = next;
  MAY_CRASH;
  atomic { note(); writer = NOBODY; hasTripped = isOpen[at(next)] }
}

/* Knowledge.learn, called by Engine.hasCommitted and .takeOver: a newer revision stays. */
inline learn(rowIsOpen, revision) {
  if
  :: revision >= cellRevision -> permits = !rowIsOpen; cellRevision = revision; isKnown = true
  :: else
  fi
}

/* The commits of all other processes. */
proctype Neighbour(byte me) {
  byte next;
  bool wroteOpen, isOwnRow;
start:
  do
  :: beginWrite(me);
    if
    :: logged < LAST -> MAY_CRASH; commitRow(); atomic { next = 0; wroteOpen = false; isOwnRow = false }
    :: else -> writer = NOBODY; break
    fi
  od
}

/* SQLiteStorage.run, Engine.hasCommitted and Knowledge.goOn. */
proctype Stepper(byte me) {
  byte next, before, after, copy;
  bool wroteOpen, isOwnRow;
start:
  do
  :: beginWrite(me);
    if
    :: logged < LAST
    :: else -> writer = NOBODY; break
    fi;
    before = firstCopy;
    commitRow();
    /* WALIndexPage.fingerprint(ofCommit:) */
    after = firstCopy;
    copy = secondCopy;
    if :: after == copy && copy == next :: else -> after = 0 fi;
    /* A step on another breaker learns nothing about this one. */
    atomic { if :: isOwnRow -> learn(wroteOpen, next) :: else fi }
    atomic {
      if
#ifdef GOES_ON_UNCHECKED
      :: after != 0 -> baseline = next; seen = after
#else
      :: after != 0 && baseline + 1 == next && seen == before -> baseline = next; seen = after
#endif
      :: else
      fi;
      before = 0; after = 0; copy = 0; next = 0; wroteOpen = false; isOwnRow = false
    }
  od
}

/* Engine.refresh, whenever the process is not current. */
proctype Refresher() {
  byte fingerprint, since, snapshot, revision;
  bool rowIsOpen;
end:
  do
  :: firstCopy != seen ->
#ifndef ROWS_BEFORE_FINGERPRINT
    fingerprint = firstCopy;
#endif
    since = baseline;
    /* SQLite reads both copies. If they differ, it waits for the writer or recovers. */
    atomic {
      firstCopy == secondCopy || writer == NOBODY;
      if :: firstCopy != secondCopy -> recover() :: else fi;
      snapshot = firstCopy;
      revision = rowRevision[at(snapshot)];
      rowIsOpen = isOpen[at(snapshot)]
    }
#ifdef ROWS_BEFORE_FINGERPRINT
    fingerprint = firstCopy;
#endif
#ifdef SEEN_BEFORE_WORDS
    seen = fingerprint;
#endif
    atomic {
      if :: revision > since || !isKnown -> learn(rowIsOpen, revision) :: else fi;
      baseline = snapshot
    }
    atomic { seen = fingerprint; fingerprint = 0; since = 0; snapshot = 0; revision = 0; rowIsOpen = false }
  od
}

/* Breaker.permitHealthy: three loads, with any delay between them. */
proctype Caller() {
  byte now;
end:
  do
  :: atomic { mustReject = hasTripped; now = firstCopy }
    if
    :: now == seen ->
      if
      :: isKnown && permits -> assert(!mustReject)
      :: else
      fi
    :: else
    fi;
    atomic { now = 0; mustReject = false }
  od
}

init {
  atomic {
    rowRevision[at(FIRST)] = FIRST;
    run Neighbour(NEIGHBOUR); run Stepper(WATCHED); run Refresher(); run Caller()
  }
}
