/* There is never more than one probe at a time, even across reopenings. The breaker is never half-open
 * forever, and never locked for processes that only ask. No answer is ever taken back.
 *
 * Three processes ask, probe, report late, renew, hang and crash at any step; at least one survives.
 * An owner is a process and its birth, so a process that has restarted owns nothing. `probes` and
 * `successes-to-close` are 1, so there is at most one lease, of this generation or an earlier one. Lost probes
 * hold none back here: that wait ends with time alone.
 */

#ifndef MISHAPS
#define MISHAPS 2 /* crashes, trips, resets, failed, neutral, slow and hanging probes, in any order */
#endif
#define NOBODY 255

mtype = { CLOSED, OPEN, HALF_OPEN };
mtype = { PERMIT, REJECT, GRANT };
mtype = { SUCCESS, FAILURE, NEUTRAL };

/* The row as it was last written. */
mtype state = OPEN;
bool isDue;
byte generation;
byte lastLease;
byte lease; /* 0 if there is none */
byte leaseGeneration;
byte owner;
byte ownerBirth;

/* The host's clock: whether the deadline of the lease has passed, and whether an open time that began
 * at that deadline is over. */
bool isLate;
bool isLateDue;

/* SQLite's write lock, which the kernel frees when its holder ends. */
byte writer = NOBODY;

/* The processes. */
byte birth[3];
bool killed[3];
bool isSlow[3];
byte lost; /* the number of processes that will never act again */
byte mishaps;

/* The truth: which processes run a probe that they may still report, and the latest generation that a
 * process has seen while none was writing. */
bool probing[3];
byte told;

#define ownerIsGone (birth[owner] != ownerBirth)

/* BreakerRecord.settle: copies the row as it stands now into the variables of a process. */
inline settle() {
  seen = state; seenDue = isDue; seenGeneration = generation; seenLease = lease;
  if
#ifdef OWNERS_BEFORE_DEADLINES
  :: lease != 0 && ownerIsGone -> seenLease = 0
  :: lease != 0 && !ownerIsGone && isLate ->
#else
  :: lease != 0 && !isLate && ownerIsGone ->
#ifndef OWNERS_NOT_WATCHED
    seenLease = 0
#else
    skip
#endif
  :: lease != 0 && isLate ->
#endif
#ifndef DEADLINES_NOT_WATCHED
    seenLease = 0;
    if
    :: state == HALF_OPEN && leaseGeneration == generation ->
      seen = OPEN; seenDue = isLateDue; seenGeneration = generation + 1
    :: else
    fi
#else
    skip
#endif
  :: else
  fi
}

/* BreakerRecord.assessed, on the settled row. */
inline assess() {
  if
  :: seen == CLOSED -> decision = PERMIT
  :: seen == OPEN && !seenDue -> decision = REJECT
  :: seen != CLOSED && (seen == HALF_OPEN || seenDue) ->
    if :: seenLease != 0 -> decision = REJECT :: else -> decision = GRANT fi
  fi
}

inline forget() { seen = 0; seenDue = false; seenGeneration = 0; seenLease = 0 }

inline begin() { atomic { writer == NOBODY -> writer = me } }

/* Writes what was settled when the transaction began. */
inline write() {
  if :: seenLease == 0 -> lease = 0; leaseGeneration = 0; isLate = false; isLateDue = false :: else fi;
  if :: state != seen -> state = seen; isDue = seenDue; generation = seenGeneration :: else fi
}

/* Opening drops no lease, because the probe's call continues. */
inline open() {
  state = OPEN; generation++; isDue = false;
#ifdef REOPENING_FREES_SLOTS
  lease = 0; leaseGeneration = 0; isLate = false; isLateDue = false
#endif
}

/* BreakerSnapshot and BreakerRecord.assessed: an answer without a write. */
inline look() {
  settle();
#ifdef LOOKS_AT_THE_ROW
  seen = state; seenDue = isDue; seenLease = lease; seenGeneration = generation;
#endif
  assess();
  /* The slot of an owner that is gone is free at once. */
  assert(!(state == HALF_OPEN && lease != 0 && ownerIsGone && !isLate) || decision == GRANT);
  assert(seenGeneration >= told);
  /* A transaction under way may have read the clock before the deadline passed. */
  if :: writer == NOBODY -> told = seenGeneration :: else fi;
#ifndef DECIDES_BEFORE_BEGIN
  forget()
#endif
}

/* Engine.admitThroughStore: a process that is rejected makes no call, and a process gets a probe only
 * in a transaction. */
inline request() {
  atomic {
    look();
    if
    :: decision == GRANT -> writer == NOBODY; writer = me
    :: else -> forget()
    fi
  }
  if
  :: decision == GRANT ->
    atomic {
#ifndef DECIDES_BEFORE_BEGIN
      settle();
#endif
      assess()
    }
    atomic {
      write();
      forget();
      if
      :: decision == GRANT ->
        /* Engine.admit promises one probe on the whole host. */
        assert(!probing[0] && !probing[1] && !probing[2]);
        if :: state != HALF_OPEN -> state = HALF_OPEN; generation++ :: else fi;
        lastLease++;
        lease = lastLease; leaseGeneration = generation; owner = me; ownerBirth = birth[me];
        ownLease = lease;
        probing[me] = true
      :: else
      fi;
      decision = 0;
      writer = NOBODY
    }
  :: atomic { else -> decision = 0 }
  fi
}

/* Decides whether the lease is still held, after the transaction has settled the row. */
inline hold() {
#ifdef LEASES_NOT_COMPARED
  isHeld = (state == HALF_OPEN);
#else
  isHeld = (seenLease != 0 && lease == ownLease);
#endif
  /* A report or renewal is refused if and only if the lease was lost. */
  assert(isHeld == probing[me])
}

/* BreakerRecord.reported, for a probe. */
inline report(outcome) {
  begin();
  atomic { settle(); hold() }
  atomic {
    write();
    if
    :: isHeld ->
      isHeld = false;
      if
#ifdef ROUNDS_NOT_COMPARED
      :: outcome == SUCCESS ->
#else
      :: outcome == SUCCESS && leaseGeneration == generation ->
#endif
        /* A success of an earlier round does not close the breaker. */
        assert(state == HALF_OPEN);
        state = CLOSED; generation++
      :: outcome == FAILURE && leaseGeneration == generation -> open()
      :: else
      fi;
      lease = 0; leaseGeneration = 0; isLate = false; isLateDue = false
    :: else
    fi;
    forget();
    probing[me] = false;
    isSlow[me] = false;
    ownLease = 0;
    writer = NOBODY
  }
}

/* BreakerRecord.renewed: moves the deadline into the future, if it has not passed. */
inline renew() {
  begin();
  atomic { settle(); hold() }
  atomic {
    write();
    forget();
    if :: isHeld -> isLate = false; isLateDue = false; isSlow[me] = false; probing[me] = true :: else fi;
    isHeld = false;
    writer = NOBODY
  }
}

/* A failure of an ordinary call, or an operator, opens the breaker; an operator resets it. */
inline trip() {
  atomic {
    writer == NOBODY -> settle(); write(); forget();
    if :: state != OPEN -> open() :: else fi
  }
}

inline reset() {
  atomic { writer == NOBODY -> settle(); write(); forget(); state = CLOSED; generation++ }
}

proctype Process(byte me) {
  byte ownLease;
  mtype decision;
  bool isHeld;
  mtype seen;
  bool seenDue;
  byte seenGeneration;
  byte seenLease;
  do
  :: {
      do
      :: ownLease == 0 -> request()
      :: atomic { ownLease == 0 && mishaps < MISHAPS -> mishaps++ } trip()
      :: atomic { ownLease == 0 && mishaps < MISHAPS -> mishaps++ } reset()
      :: ownLease != 0 -> report(SUCCESS)
      :: atomic { ownLease != 0 && mishaps < MISHAPS -> mishaps++ } report(FAILURE)
      :: atomic { ownLease != 0 && mishaps < MISHAPS -> mishaps++ } report(NEUTRAL)
      :: atomic { ownLease != 0 && mishaps < MISHAPS -> mishaps++; isSlow[me] = true }
        if :: renew() :: skip fi;
        report(SUCCESS)
      :: atomic { ownLease != 0 && mishaps < MISHAPS && lost < 2 ->
          mishaps++; lost++; isSlow[me] = true }
        false /* hangs */
      od
    } unless {
      atomic {
        killed[me] -> killed[me] = false;
        ownLease = 0; decision = 0; isHeld = false; forget()
      }
    };
    if
    :: skip /* restarts */
    :: atomic { lost < 2 -> lost++ } break
    fi
  od
}

/* Time passes sooner or later, regardless of writes. */
proctype Clock() {
end:
  do
  :: atomic { state == OPEN && !isDue -> isDue = true }
  :: atomic { lease != 0 && !isLate && (isSlow[owner] || ownerIsGone) ->
      isLate = true; if :: !ownerIsGone -> probing[owner] = false :: else fi }
  :: atomic { isLate && !isLateDue -> isLateDue = true }
  od
}

inline kill(process) {
  birth[process]++;
  killed[process] = true;
  probing[process] = false;
  isSlow[process] = false;
  if :: writer == process -> writer = NOBODY :: else fi
}

proctype Killer() {
  do
  :: atomic { mishaps < MISHAPS -> mishaps++; if :: kill(0) :: kill(1) :: kill(2) fi }
  :: break
  od
}

init { atomic { run Process(0); run Process(1); run Process(2); run Clock(); run Killer() } }

/* The breaker always closes in the end, because mishaps happen only a few times. */
ltl closesInTheEnd { <>[] (state == CLOSED) }
