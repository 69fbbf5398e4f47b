/* In a ramp no more calls are under way than have succeeded since it began, and one. A second ramp begins at
 * one again, and no caller is stuck when a ramp is over.
 *
 * A call has succeeded in a first ramp, which a hold ends; a second ramp follows it, whose time passes. Two
 * processes make calls meanwhile, which may hang. Each transaction on the row is one step, and so is each
 * look at it. How many calls have succeeded is in a word beside the slots, which changes after the row does.
 * Each access to it, to its revision and to a slot is a step of its own. A process may be killed between its
 * commit and the rest. Each process has a slot of its own here, and a waiter looks for news once a second
 * (`slots` and `watchers` check the queue).
 *
 * A call that was permitted before a hold may take its room after it. It began before the hold, so the ramp of
 * the row does not bound it.
 */

#ifndef MISHAPS
#define MISHAPS 1 /* processes that are killed after a commit */
#endif
#define USERS 2
#ifndef CALLS
#define CALLS 2
#endif
#define NOBODY 255

/* The row. */
byte revision = 1;
byte ramp = 1;         /* BreakerRecord.rampUntil, as a number of its own; 0 if there is none */
bool isHeld;

/* The host's clock. */
bool isOver;           /* whether the time of the ramp is over */

/* The memory beside the slots. */
byte latest = 1;       /* header(.revision) */
byte word = 1;         /* RampWord: the ramp, and */
byte count = 1;        /* how many have succeeded in it */
bool slot[USERS];
bool waits[USERS];
bool bell[USERS];

byte calls;

/* The truth. */
byte under[3];         /* calls under way that began in each ramp */
byte succeeded[3];
byte kills;

/* SlotBlock.usage; whether others have slots is one load, because there are two processes. */
#define usage (slot[0] + slot[1])

#define isFirst(user) (user == 0 || !waits[0])

/* SlotBlock.settle: wakes the head of the queue if there is room for it. */
inline settle() {
  d_step {
    if
    :: (word == 0 || usage <= count) && waits[0] -> bell[0] = true
    :: (word == 0 || usage <= count) && !waits[0] && waits[1] -> bell[1] = true
    :: else
    fi
  }
}

/* SlotBlock.adopt, of the terms that a process knows: their revision (`theirs`), and their ramp (`known`). */
inline adopt() {
  do
#ifdef READS_REVISION_FIRST
  :: d_step { true -> seen = latest };
    d_step { before = word; beforeCount = count };
#else
  :: d_step { true -> before = word; beforeCount = count };
    seen = latest;
#endif
    if
#ifndef REVISIONS_NOT_COMPARED
    :: atomic { theirs < seen -> isMine = (word == known); break }
    :: atomic { theirs >= seen && word == known -> isMine = true; break }
    :: theirs >= seen && word != known ->
#else
    :: atomic { word == known -> isMine = true; break }
    :: word != known ->
#endif
#ifndef REVISION_AFTER_RAMP
      /* SlotBlock.replaceRevision */
      d_step {
        isNext = (theirs <= seen || latest == seen);
        if :: isNext && theirs > seen -> latest = theirs :: else fi
      };
#else
      isNext = true;
#endif
      /* SlotBlock.replaceRamp */
      d_step {
        isMine = isNext && (before == known || (word == before && count == beforeCount));
        if
        :: isMine && before != known ->
          word = known;
#ifndef KEEPS_THE_COUNT
          count = 0
#endif
        :: else
        fi
      };
#ifdef REVISION_AFTER_RAMP
      d_step { if :: isMine && latest < theirs -> latest = theirs :: else fi };
#endif
      if
      :: isMine && known == 0 && before != 0 -> settle(); break
      :: isMine && !(known == 0 && before != 0) -> break
      :: else
      fi
    fi
  od;
  atomic { before = 0; beforeCount = 0; seen = 0; isNext = false }
}

inline look() { theirs = revision; known = ramp }

/* Engine.hasCommitted and tellWaiters, unless the process is killed before them. */
inline followUp() {
  if
  :: adopt()
  :: d_step { kills < MISHAPS -> kills++ }
  fi;
  atomic { theirs = 0; known = 0; isMine = false }
}

/* BreakerRecord.endRamp, in the transaction of a process that finds the time to be over. */
inline endRamp() {
  if :: ramp != 0 && isOver -> ramp = 0; isOver = false; revision++ :: else fi;
  look()
}

inline begins() {
  /* Nothing takes a ramp out of force while the row has it. */
  assert(known == 0 || ramp != known || word == known);
  if
  :: word != 0 ->
    began = word;
    under[began]++;
    assert(under[began] <= succeeded[began] + 1)
  :: else
  fi;
  isBegun = true
}

/* SlotBlock.takeWithCare, and permitsInRamp after the slot was taken. */
inline takeWithCare() {
  if
  :: d_step { word == 0 || usage <= count -> skip };
#ifdef LOOKS_ONLY_BEFORE
    d_step { slot[me] = true; begins() }
#else
    slot[me] = true;
    used = usage;
    d_step {
      if
      :: word == 0 || used - 1 <= count -> begins()
      :: else -> slot[me] = false
      fi;
      used = 0
    }
#endif
  :: else
  fi
}

/* SlotBlock.attend for a caller that waits, which asks Engine.heldUntil and Engine.rampUntil. It adopts the terms
 * that it has read before it takes its room, as a caller does that has just come (prepare). */
inline attend() {
  waits[me] = true;
  do
  :: d_step {
      bell[me] = false;
      isDue = isFirst(me) && !isHeld;
#ifndef END_NOT_ASKED_FOR
      if :: isDue && word != 0 -> endRamp() :: else -> look() fi
#else
      look()
#endif
    };
#ifdef TAKES_BEFORE_IT_ADOPTS
    if :: isDue && isMine -> takeWithCare() :: else fi;
    if :: !isBegun -> adopt() :: else fi;
#else
#ifdef LEAVES_THE_OLD_RAMP
    if :: known != 0 -> adopt() :: else -> isMine = true fi;
#else
    adopt();
#endif
    if :: isDue && isMine -> takeWithCare() :: else fi;
#endif
    isDue = false;
    if
    :: isBegun -> break
    /* It sleeps until it is called, until the ramp is over, or until its look once a second finds news. */
    :: !isBegun && bell[me]
    :: !isBegun && revision != theirs
#ifndef LEAVES_THE_OLD_RAMP
    :: !isBegun && word != known
#endif
#ifdef TAKES_BEFORE_IT_ADOPTS
    :: !isBegun && isFirst(me) && (word == 0 || usage <= count)
#endif
#ifndef END_NOT_ASKED_FOR
    :: !isBegun && isFirst(me) && !isHeld && word != 0 && ramp != 0 && isOver
#endif
    fi
  od;
  atomic { waits[me] = false; bell[me] = false; theirs = 0; known = 0; isMine = false };
  settle()
}

/* Engine.letRampGrow, and SlotBlock.noteSuccess, in the ramp that the process knows. Others adopt it here. */
inline letRampGrow() {
  d_step {
    look();
    if :: known != 0 && succeeded[known] < USERS -> succeeded[known]++ :: else fi
  };
  d_step {
    if
#ifdef COUNTS_IN_ANY_RAMP
    :: known != 0 && word != 0 && count < USERS -> count++
#else
    :: known != 0 && word == known && count < USERS -> count++
#endif
    :: else
    fi;
    theirs = 0; known = 0
  };
  settle()
}

proctype process(byte me) {
  byte theirs, known, began, used, seen, before, beforeCount;
  bool isMine, isNext, isBegun, isDue;
end:
  do
  /* Without a hold or a ramp a call takes no room, or only under a limit. */
  :: d_step { calls < CALLS && (isHeld || ramp != 0 && !isOver) -> calls++ };
    attend();
    if
    :: letRampGrow()
    :: skip /* It has failed, or was ignored. */
    :: skip; endHanging: false
    fi;
    d_step {
      if :: began != 0 -> under[began]-- :: else fi;
      slot[me] = false; began = 0; isBegun = false
    };
    settle()
  od
}

/* Another process holds, one ends the hold, and one may find the time of the ramp to be over. */
proctype operator(byte me) {
  byte theirs, known, seen, before, beforeCount;
  bool isMine, isNext;
  atomic { isHeld = true; ramp = 0; isOver = false; revision++; look() };
  followUp();
  atomic { isHeld = false; ramp = 2; revision++; look() };
  followUp();
  if
  :: d_step { isOver -> endRamp() }; followUp()
  :: skip
  fi
}

/* The time of the second ramp passes sooner or later. */
proctype clock() {
end:
  do
  :: atomic { ramp == 2 && !isOver -> isOver = true }
  od
}

init {
  atomic {
    byte number;
    succeeded[1] = 1;
    do
    :: number < USERS -> run process(number); number++
    :: else -> break
    od;
    run clock();
    run operator(NOBODY)
  }
}
