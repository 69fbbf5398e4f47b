/* Messages between hosts cost a host one probe at most, and open nothing.
 *
 * Two hosts have a breaker for the same resource, with a store and a relay each. A third host opens its breaker
 * from time to time and never says that it has closed it. Two other hosts are a quorum. Calls succeed and fail
 * as they like, so that any host may be the sick one. An operator trips or resets the breakers of both hosts
 * once, through the fleet. Redis loses what it was told at any step, and tells it twice and late: an opening also
 * after the breaker has closed. A relay is killed at any step.
 *
 * A relay that tells how long its breaker stays open reads that and tells it at one instant.
 */

#ifndef OPEN_FOR
#define OPEN_FOR 1
#endif
#define QUORUM 2
#define THIRD 2

#define CLOSED 0
#define HALF_OPEN 1
#define OPEN 2

/* Each time is what is left of it. The stores of the hosts. */
byte state[2];
byte isOpenFor[2];
byte coolsFor[2];     /* until it may be suspected again */
bit isOrdered[2];     /* an operator has opened it */
bit isOfFleet[2];     /* the last change of state was a relay's */
bit isUntold[2];      /* the history has an entry that the relay has not read */

/* The truth: an opening by the host's own calls, whatever became of it; a suspicion; a cause to be open. */
byte failedFor[3];
byte suspectedFor[2];
bit mayBeOpen[2];

/* Redis. */
byte evidence[3];
byte opening[2];      /* the latest `open` in the stream: what is left of its time */
bit recovery[2];      /* an entry that the relay of the host has not read */

byte commands;    /* the hosts that still have to meet the command, a bit each */
bit isReset;
bit hasCommanded;

/* BreakerRecord: one call, with its outcome. */
inline open(h, byOrder) {
  state[h] = OPEN; isOpenFor[h] = OPEN_FOR; isOrdered[h] = byOrder; mayBeOpen[h] = 1
}
inline close(h) { state[h] = CLOSED; isOpenFor[h] = 0; isOrdered[h] = 0; mayBeOpen[h] = 0 }

active [2] proctype callers() {
  byte me = _pid;
end:
  do
  /* A failure opens; a probe may begin when the open time is over. */
  :: d_step {
      state[me] != OPEN || isOpenFor[me] == 0 ->
      open(me, 0);
      failedFor[me] = OPEN_FOR;
      isOfFleet[me] = 0; isUntold[me] = 1
    }
  :: d_step {
      state[me] == HALF_OPEN || (state[me] == OPEN && isOpenFor[me] == 0) ->
      close(me);
      isOfFleet[me] = 0; isUntold[me] = 1
    }
  od
}

/* BreakerRecord.suspected. */
#ifdef NO_COOL_DOWN
#define isCool true
#else
#ifdef COOLS_IN_THE_RELAY
#define isCool (cools == 0)
#else
#define isCool (coolsFor[me] == 0)
#endif
#endif

#define isEvidence(h) (evidence[h] > 0)
#define hasFailed(h) (failedFor[h] > 0)

#ifdef TELLS_WHAT_IT_APPLIED
#define isOwn true
#else
#define isOwn (!isOfFleet[me])
#endif

inline tellOpening() { evidence[me] = isOpenFor[me]; opening[me] = isOpenFor[me] }

#define mayDie :: atomic { goto begin }

active [2] proctype relay() {
  byte me = _pid - 2;
  bit seesQuorum;
#ifdef COOLS_IN_THE_RELAY
  bit cools;
#endif

begin:
#ifdef COOLS_IN_THE_RELAY
  cools = 0;
#endif
  seesQuorum = 0;
  /* At every connect it tells that its breaker is open. */
  d_step {
    if :: state[me] == OPEN && isOwn -> tellOpening() :: else fi
  }
end:
  do
  mayDie

  /* The history has news: of the fleet's changes it only says that the state is not open any more. */
  :: d_step {
      isUntold[me] ->
      isUntold[me] = 0;
      if
      :: state[me] == OPEN && isOwn -> tellOpening()
      :: state[me] == CLOSED ->
        evidence[me] = 0;
        if :: !isOfFleet[me] -> recovery[1 - me] = 1 :: else fi
      :: else
      fi
    }

  /* FleetView, and then the transaction. Redis may tell it again. */
  :: d_step {
      isEvidence(1 - me) + isEvidence(THIRD) >= QUORUM ->
      seesQuorum = 1;
      assert(hasFailed(1 - me) + hasFailed(THIRD) >= QUORUM)
    }
    do
    mayDie
    :: d_step {
        if
        :: state[me] == CLOSED && isCool ->
          assert(suspectedFor[me] == 0);
          suspectedFor[me] = OPEN_FOR;
          coolsFor[me] = OPEN_FOR;
#ifdef COOLS_IN_THE_RELAY
          cools = 1;
#endif
#ifdef OPENS_AT_ONCE
          state[me] = OPEN; isOpenFor[me] = OPEN_FOR;
#else
          state[me] = HALF_OPEN;
#endif
          isOfFleet[me] = 1; isUntold[me] = 1
        :: else
        fi;
        /* Only a call's outcome or a command opens a breaker. */
        assert(state[me] != OPEN || mayBeOpen[me])
      }
    :: atomic { seesQuorum = 0; break }
    od

  /* BreakerRecord.recovered. */
  :: d_step {
      recovery[me] ->
      recovery[me] = 0;
      if
#ifdef HURRIES_ORDERS
      :: state[me] == OPEN && isOpenFor[me] > 0 ->
#else
      :: state[me] == OPEN && isOpenFor[me] > 0 && !isOrdered[me] ->
#endif
        assert(!isOrdered[me]);
        isOpenFor[me] = 0
      :: else
      fi
    }

  /* A command of the fleet. */
  :: d_step {
      commands & (1 << me) ->
      commands = commands & ~(1 << me);
      if
      :: isReset -> close(me)
      :: else -> open(me, 1)
      fi;
      isOfFleet[me] = 1; isUntold[me] = 1
    }
  od
}

inline pass(time) { if :: time > 0 -> time-- :: else fi }

active proctype world() {
  byte h;
end:
  do
  /* Time passes. */
  :: d_step {
      for (h : 0 .. 1) {
        pass(isOpenFor[h]); pass(coolsFor[h]); pass(suspectedFor[h]);
#ifndef DELAY_NOT_COUNTED
        pass(opening[h])
#endif
      }
      for (h : 0 .. 2) {
        pass(failedFor[h]);
#ifndef EVIDENCE_STAYS
        pass(evidence[h])
#endif
      }
      h = 0
    }
  :: d_step { failedFor[THIRD] = OPEN_FOR; evidence[THIRD] = OPEN_FOR }
  :: atomic {
      !hasCommanded ->
      hasCommanded = 1; commands = 3;
      if :: isReset = 1 :: true fi
    }
  /* FleetSession.hear: an `open` comes after what a relay has read in the hashes. */
  :: d_step { evidence[0] = opening[0] }
  :: d_step { evidence[1] = opening[1] }
  /* Redis forgets, which is also what believing an old `closed` after a new `open` would come to. */
  :: d_step { evidence[0] = 0 }
  :: d_step { evidence[1] = 0 }
  :: d_step { evidence[THIRD] = 0 }
  :: d_step { recovery[0] = 0 }
  :: d_step { recovery[1] = 0 }
  od
}
