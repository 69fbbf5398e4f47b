/* While a hold lasts no call begins, and the longest wish wins. After it one call goes first; the next one
 * follows if that one dies or is ignored, and all go once the turn is over. An old success ends nothing, a
 * straggler from before an ending by hand brings nothing, and a process that was without the store tells
 * what it knew.
 *
 * Three processes have a call each, again and again. An operator holds and ends. Each transaction is one
 * step, and so is each look at the row, because `fingerprint` checks that a look is never older than a commit
 * that has returned. The breaker is closed: half-open, its probes go first (`lease`). All wishes name a time,
 * of one tick or two, and a turn lasts as long as its hold. The first process may be without the store for a
 * while, and the second one may be killed, and restarts. A call that hangs takes no step while time passes.
 *
 * A process comes back in one step here, without failing once more. Left out is that a call which it made alone
 * brings its hold after that too (`tell`), and that it tells no hold which the store has had (`holdAlone`).
 */

#ifndef MISHAPS
#define MISHAPS 5 /* holds, endings, deaths, ignored calls and absences, in any order */
#endif
#define USERS 3

mtype = { NONE, NORMAL, FIRST, ALONE };   /* a call */
mtype = { PERMITTED, HELD, UNDECIDED };   /* an assessment */

/* The row: HoldRecord and its Hold. */
bool isHold;
byte left;            /* Hold.until, in ticks from now */
byte length;          /* Hold.lengthNanoseconds */
byte generation = 1;
byte number;
byte least;
byte first;           /* Hold.firstLease; 0 if there is none */
bool isGone;          /* whether the owner of that lease has ended */
bool hasTurn;         /* Hold.turnUntil, and in ticks from now */
byte turn;
byte lastLease;

/* The processes: the call of each, its permit, and whether it is about to ask for the first permit. */
mtype call[USERS] = NONE;
byte permit[USERS];
byte lease[USERS];
bool asks[USERS];

/* The process without the store, and its stand-in for the breaker. */
bool isAway;
byte leftAlone;
byte leastAlone;

byte mishaps;

/* The truth, from what has happened. */
bool held;            /* from a hold until an answer, an ending or the end of a turn */
byte wish;            /* the longest wish, in ticks from now */
byte asked;           /* its length when it came */
bool inTurn;
byte turnLeft;
bool goes[USERS];     /* a call that goes first, and has not ended */
bool isOld[USERS];    /* the call began before the latest hold */
bool isEnded[USERS];  /* the call began before the latest ending by hand */
byte knew;            /* the longest hold that the process without the store has heard of */

#define mishap() mishaps < MISHAPS -> mishaps++
#define isShared ((call[me] == NORMAL || call[me] == FIRST) && !(me == 0 && isAway))
#define isFirstUnderWay (goes[0] || goes[1] || goes[2])

/* BreakerRecord.endTurn */
inline endTurn() { first = 0; isGone = false; hasTurn = false; turn = 0 }

/* BreakerRecord.endHold */
inline endHold() { endTurn(); isHold = false; left = 0; length = 0 }

/* BreakerRecord.settle: endTurn(by:), and takeBack of the lease of a call that goes first. */
inline settle() {
#ifndef HANGS_FOR_GOOD
  if :: isHold && hasTurn && turn == 0 -> endHold() :: else fi;
#endif
#ifndef DEAD_NOT_FOLLOWED
  if :: first != 0 && isGone -> first = 0; isGone = false :: else fi
#endif
}

/* BreakerRecord.assessedHold */
inline assess() {
  if
  :: !isHold -> answer = PERMITTED
  :: isHold && left > 0 -> answer = HELD
#ifdef HANGS_FOR_GOOD
  :: isHold && left == 0 && first != 0 && !isGone -> answer = HELD
  :: isHold && left == 0 && !(first != 0 && !isGone) -> answer = UNDECIDED
#else
#ifdef DEAD_NOT_FOLLOWED
  :: isHold && left == 0 && first != 0 && turn > 0 -> answer = HELD
  :: isHold && left == 0 && !(first != 0 && turn > 0) -> answer = UNDECIDED
#else
  :: isHold && left == 0 && first != 0 && turn > 0 && !isGone -> answer = HELD
  :: isHold && left == 0 && !(first != 0 && turn > 0 && !isGone) -> answer = UNDECIDED
#endif
#endif
  fi
}

inline begin(kind) {
  call[me] = kind;
  permit[me] = generation;
  isOld[me] = false;
  isEnded[me] = false
}

inline forget() {
  call[me] = NONE; permit[me] = 0; lease[me] = 0;
  isOld[me] = false; isEnded[me] = false; goes[me] = false
}

/* Engine.assess: the answer that a process gets without a transaction. */
inline look() {
  assess();
  if
  :: answer == PERMITTED ->
    assert(!held);
    begin(NORMAL)
  :: answer == HELD ->
    /* No process is told to wait for nothing: a call goes first, or the time is not over. */
    assert(held && (wish > 0 || isFirstUnderWay))
  :: answer == UNDECIDED ->
    assert(!(held && wish > 0));
    asks[me] = true
  fi;
  answer = 0
}

/* BreakerRecord.requested, and grantFirst. */
inline request() {
  asks[me] = false;
  settle();
#ifdef DECIDES_AT_THE_LOOK
  answer = (isHold -> UNDECIDED : PERMITTED);
#else
  assess();
#endif
  if
  :: answer == PERMITTED ->
    assert(!held);
    begin(NORMAL)
  :: answer == HELD ->
    assert(held && (wish > 0 || isFirstUnderWay))
  :: answer == UNDECIDED ->
    /* Exactly one goes first. */
    assert(held && wish == 0 && !isFirstUnderWay);
    lastLease++;
    first = lastLease;
    isGone = false;
#ifdef TURN_BEGINS_AGAIN
    hasTurn = true; turn = length;
#else
    if :: !hasTurn -> hasTurn = true; turn = length :: else fi;
#endif
    begin(FIRST);
    lease[me] = first;
    goes[me] = true;
    if :: !inTurn -> inTurn = true; turnLeft = asked :: else fi
  fi;
  answer = 0
}

/* The truth when a hold begins or is prolonged, and when it ends. */
inline isTrulyHeld(time) {
  if
  :: time > wish ->
    held = true; wish = time; asked = time;
    inTurn = false; turnLeft = 0;
    goes[0] = false; goes[1] = false; goes[2] = false;
    isOld[0] = (call[0] != NONE); isOld[1] = (call[1] != NONE); isOld[2] = (call[2] != NONE)
  :: else
  fi
}

inline isTrulyOver() {
  held = false; wish = 0; asked = 0;
  inTurn = false; turnLeft = 0;
  goes[0] = false; goes[1] = false; goes[2] = false
}

/* BreakerRecord.heldBack, after it has found that the giver may bring a hold. */
inline holdBack(time) {
  if
#ifdef SHORTER_WISH_WINS
  :: true ->
#else
  :: time > left ->
#endif
    if
#ifdef NUMBER_OF_THE_FIRST_HOLD
    :: !isHold ->
#else
    :: left == 0 ->
#endif
      generation++; number = generation
    :: else
    fi;
    endTurn();
    isHold = true;
    left = time;
    length = time
  :: else
  fi
}

/* BreakerRecord.reported for a call that went first, which ends as any other. */
inline endLease() {
  if
#ifdef LEASES_NOT_COMPARED
  :: call[me] == FIRST ->
#else
  :: call[me] == FIRST && first == lease[me] ->
#endif
    first = 0; isGone = false
  :: else
  fi
}

/* BreakerRecord.noteAnswer: the call has succeeded or failed. */
inline reportAnswer() {
  settle();
  endLease();
  if
#ifdef OLD_SUCCESS_ENDS
  :: isHold && left == 0 ->
#else
  :: isHold && left == 0 && permit[me] >= number ->
#endif
    endHold();
    /* No answer to a call that began before the hold ends it. */
    assert(held && wish == 0 && !isOld[me]);
    isTrulyOver()
  :: else ->
    assert(!held || wish > 0 || isOld[me])
  fi;
  forget()
}

inline reportIgnored() {
  settle();
#ifndef IGNORED_NOT_FOLLOWED
  endLease();
#endif
  forget()
}

inline reportHold(time) {
  settle();
  endLease();
  if
#ifdef STRAGGLERS_HOLD
  :: true ->
#else
  :: permit[me] >= least ->
#endif
    holdBack(time)
  :: else
  fi;
  if :: !isEnded[me] -> isTrulyHeld(time) :: else fi;
  forget();
  compare()
}

/* The longest wish is in force, and nothing that is over. */
inline compare() { assert(left == wish) }

proctype process(byte me) {
  mtype answer;
  byte time;
end:
  do
  :: atomic { call[me] == NONE && !asks[me] && !(me == 0 && isAway) -> look() }
  :: atomic { asks[me] && !(me == 0 && isAway) -> request() }
  :: atomic { isShared -> reportAnswer() }
  :: atomic { isShared && mishap(); reportIgnored() }
  :: atomic { isShared && mishap();
      if :: time = 1 :: time = 2 fi;
      reportHold(time);
      time = 0 }

  /* Engine.failed: the process goes on alone with the breaker that it knew. */
  :: atomic { me == 0 && !isAway && mishap();
      isAway = true; asks[me] = false;
      leastAlone = least;
      knew = (isHold -> left : 0);
#ifndef BEGINS_EMPTY
      leftAlone = (isHold -> left : 0)
#endif
    }
  :: atomic { me == 0 && isAway && call[me] == NONE && leftAlone == 0 ->
      /* It keeps to the hold that it knew. */
      assert(knew == 0);
      call[me] = ALONE }
  /* Engine.acceptAlone; a call that went first is written when the store is back (writeUnwrittenProbes). */
  :: atomic { me == 0 && isAway && (call[me] == ALONE || call[me] == NORMAL) -> forget() }
  :: atomic { me == 0 && isAway && (call[me] == ALONE || call[me] == NORMAL) && mishap();
      if :: time = 1 :: time = 2 fi;
      if
      :: call[me] == ALONE || permit[me] >= leastAlone ->
        if :: time > leftAlone -> leftAlone = time :: else fi;
        if :: time > knew -> knew = time :: else fi
      :: else
      fi;
      time = 0;
      forget() }
  /* Engine.comeBack, and tell for what it knows. */
  :: atomic { me == 0 && isAway ->
      isAway = false;
      if
#ifndef NOT_TOLD
      :: leftAlone > 0 -> settle(); holdBack(leftAlone)
#endif
      :: else
      fi;
      isTrulyHeld(knew);
      assert(left >= knew);
      leftAlone = 0; leastAlone = 0; knew = 0;
      compare() }
  :: atomic { me == 0 && !isAway && call[me] == ALONE -> forget() }
  od
}

proctype operator() {
end:
  do
  /* Breaker.hold(for:), which no permit limits. */
  :: atomic { mishap(); settle(); holdBack(1); isTrulyHeld(1); compare() }
  :: atomic { mishap(); settle(); holdBack(2); isTrulyHeld(2); compare() }
  /* BreakerRecord.holdEnded */
  :: atomic { mishap(); settle();
      if
      :: isHold ->
        endHold();
        generation++; least = generation;
        isTrulyOver();
        isEnded[0] = (call[0] != NONE); isEnded[1] = (call[1] != NONE); isEnded[2] = (call[2] != NONE)
      :: else
      fi;
      compare() }
  od
}

/* Time passes regardless of steps. A turn that is over lets all go, whether or not a process has noted that. */
proctype clock() {
end:
  do
  :: atomic { left + wish + turn + turnLeft + leftAlone + knew > 0 ->
      if :: left > 0 -> left-- :: else fi;
      if :: wish > 0 -> wish-- :: else fi;
      if :: turn > 0 -> turn-- :: else fi;
      if :: leftAlone > 0 -> leftAlone-- :: else fi;
      if :: knew > 0 -> knew-- :: else fi;
      if :: turnLeft > 0 -> turnLeft--; if :: turnLeft == 0 -> isTrulyOver() :: else fi :: else fi }
  od
}

proctype killer() {
  do
  :: atomic { mishap();
      if :: first != 0 && first == lease[1] -> isGone = true :: else fi;
      call[1] = NONE; permit[1] = 0; lease[1] = 0; asks[1] = false;
      isOld[1] = false; isEnded[1] = false; goes[1] = false }
  :: break
  od
}

init {
  atomic { run process(0); run process(1); run process(2); run operator(); run clock(); run killer() }
}
