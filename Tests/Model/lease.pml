/* Never more than one probe at a time, and never half-open for good.
 *
 * Three processes ask, probe, report late, hang and crash at any step; at least one stays. An
 * owner is a process and its birth, so that one that has started again owns nothing. `probes` and
 * `successes-to-close` are 1.
 */

#ifndef MISHAPS
#define MISHAPS 2 /* crashes, trips, failed, neutral, slow and hanging probes, in any order */
#endif
#define NOBODY 255

mtype = { CLOSED, OPEN, HALF_OPEN };
mtype = { PERMIT, REJECT, GRANT, FAIL_LATE_PROBE };
mtype = { SUCCESS, FAILURE, NEUTRAL };

/* The row. Time is what the host's clock makes due. */
mtype state = OPEN;
bool isDue;
byte generation;
byte lastLease;
byte lease; /* 0 if there is none */
byte owner;
byte ownerBirth;
bool isLate;

/* SQLite's write lock, which the kernel frees with its holder. */
byte writer = NOBODY;

/* The processes. */
byte birth[3];
bool killed[3];
bool isSlow[3];
byte lost; /* how many will never do anything again */
byte mishaps;

/* What is true, to judge by: who runs a probe that it still may report. */
bool probing[3];

#define ownerIsGone (birth[owner] != ownerBirth)

/* BreakerRecord.requested: sweepLeases, then assessed; what is decided is written at COMMIT. */
inline decide() {
  if
#ifndef OWNERS_NOT_WATCHED
  :: lease != 0 && ownerIsGone -> decision = GRANT
#endif
#ifndef DEADLINES_NOT_WATCHED
  :: lease != 0 && !ownerIsGone && isLate -> decision = FAIL_LATE_PROBE
#endif
  :: state == CLOSED -> decision = PERMIT
  :: state == OPEN && isDue -> decision = GRANT
  :: state == HALF_OPEN && lease == 0 -> decision = GRANT
  :: else -> decision = REJECT
  fi
}

inline begin() { atomic { writer == NOBODY -> writer = me } }

inline open() { state = OPEN; generation++; isDue = false; lease = 0; isLate = false }

/* COMMIT of a request. */
inline commitRequest() {
  atomic {
    if
    :: decision == GRANT ->
      /* Engine.admit promises one probe on the whole host. */
      assert(!probing[0] && !probing[1] && !probing[2]);
      if :: state != HALF_OPEN -> state = HALF_OPEN; generation++ :: else fi;
      lastLease++;
      lease = lastLease; owner = me; ownerBirth = birth[me]; isLate = false;
      ownLease = lease; ownGeneration = generation;
      probing[me] = true
    :: decision == FAIL_LATE_PROBE -> open()
    :: else
    fi;
    writer = NOBODY
  }
}

/* Engine.admitThroughStore: asks what is known, and the store where that does not decide. */
inline request() {
  atomic { decide() }
  if
  :: decision == GRANT || decision == FAIL_LATE_PROBE ->
    begin();
#ifndef DECIDES_BEFORE_BEGIN
    atomic {
      decide();
      /* The slot of an owner that is gone is free at once. */
      assert(!(state == HALF_OPEN && ownerIsGone) || decision == GRANT)
    }
#endif
    commitRequest()
  :: else
  fi
}

/* BreakerRecord.reported, for a probe. */
inline report(outcome) {
  begin();
  atomic {
    if
#ifdef LEASES_NOT_COMPARED
    :: state == HALF_OPEN -> isHeld = true
#else
    :: lease == ownLease && generation == ownGeneration && !isLate -> isHeld = true
#endif
    :: else -> isHeld = false
    fi;
    /* A late report of a lost lease is refused, and no other is. */
    assert(isHeld == probing[me])
  }
  atomic {
    if
    :: isHeld && outcome == SUCCESS -> state = CLOSED; generation++; lease = 0; isLate = false
    :: isHeld && outcome == FAILURE -> open()
    :: isHeld && outcome == NEUTRAL -> lease = 0; isLate = false
    :: !isHeld && lease != 0 && ownerIsGone -> lease = 0; isLate = false
    :: !isHeld && lease != 0 && !ownerIsGone && isLate -> open()
    :: else
    fi;
    probing[me] = false;
    isSlow[me] = false;
    ownLease = 0; ownGeneration = 0; isHeld = false;
    writer = NOBODY
  }
}

/* A failure of a normal call that opens the breaker. */
inline trip() {
  begin();
  atomic { if :: state == CLOSED -> open() :: else fi; writer = NOBODY }
}

proctype Process(byte me) {
  byte ownLease, ownGeneration;
  mtype decision;
  bool isHeld;
  do
  :: {
      do
      :: request();
        if
        :: decision == GRANT ->
          if
          :: report(SUCCESS)
          :: atomic { mishaps < MISHAPS -> mishaps++ } report(FAILURE)
          :: atomic { mishaps < MISHAPS -> mishaps++ } report(NEUTRAL)
          :: atomic { mishaps < MISHAPS -> mishaps++; isSlow[me] = true } report(SUCCESS)
          :: atomic { mishaps < MISHAPS && lost < 2 -> mishaps++; lost++; isSlow[me] = true }
            false /* hangs */
          fi
        :: atomic { decision == PERMIT && mishaps < MISHAPS -> mishaps++ } trip()
        :: decision != GRANT -> skip
        fi;
        decision = 0
      od
    } unless {
      atomic {
        killed[me] -> killed[me] = false;
        ownLease = 0; ownGeneration = 0; decision = 0; isHeld = false
      }
    };
    if
    :: skip /* is started again */
    :: atomic { lost < 2 -> lost++ } break
    fi
  od
}

/* Deadlines pass, sooner or later. */
proctype Clock() {
end:
  do
  :: atomic { state == OPEN && !isDue -> isDue = true }
  :: atomic { lease != 0 && !isLate && isSlow[owner] && !ownerIsGone ->
      isLate = true; probing[owner] = false }
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

/* However it goes, the breaker closes in the end: what can go wrong happens a few times only. */
ltl closesInTheEnd { <>[] (state == CLOSED) }
