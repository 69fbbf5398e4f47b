/* Of all who wait, nobody looks after a process whose beacon is lit: the kernel wakes one of them when that goes
 * out. So nobody sleeps beside room, whoever is killed, and when.
 *
 * There is one slot, which somebody has at first; waiters 0 and 1 have their places in the queue, and the last one
 * comes at any time. A call of ordinary priority may pass all of them, because they wait in the background: it comes
 * from a process that those who sleep have not seen. A process may be killed at any step; its beacon goes out at
 * once, and only later is it proved that it has ended. With THREADS the thread that keeps the passer's beacon lit
 * ends first, and with TWO there are two waiters. A waiter sleeps until it is woken, unless it has seen that a beacon is out: then it looks at short
 * intervals. Left out are the looks once a second, which are for callers that are stopped.
 */

#ifndef MISHAPS
#define MISHAPS 2
#endif
#define USERS 3
#define HOLDER 3
#define PASSER 4
#define PROCESSES 5
#define NONE 255

byte slot = HOLDER + 1;  /* 0 if free, or the number of the process that has it, plus 1 */
bool waits[USERS];       /* the place of each: they are served in the order of their numbers */
bool isRung[USERS];      /* whether its bell was rung since it last looked, or the kernel has woken it */
bool isAsleep[USERS];
byte sees[USERS];        /* the beacons by which it sleeps, a bit for each process */
bool isLit[PROCESSES];
bool dead[PROCESSES];    /* it does nothing any more */
bool isGone[PROCESSES];  /* that is proved */

#define ring(user) isRung[user] = true

/* SlotBlock.first */
inline lookAtQueue() {
  first = NONE;
  i = 0;
  do
  :: i < USERS && waits[i] -> first = i; break
  :: i < USERS && !waits[i] -> i++
  :: else -> break
  od;
  i = 0
}

/* SlotBlock.settle, in one step: what happens between its reads is in `slots`. */
inline settle() {
  d_step {
    lookAtQueue();
    if :: first != NONE && slot == 0 -> ring(first) :: else fi;
    first = NONE
  }
}

/* SlotBlock.ringWatchers: the last two, because each is of a process of its own. */
inline ringWatchers() {
  d_step {
    i = USERS;
    last = 0;
    do
    :: i > 0 && last < 2 ->
      i--;
      if :: waits[i] -> ring(i); last++ :: else fi
    :: else -> break
    od;
    i = 0;
    last = 0
  }
}

/* SlotBlock.freeTheDead */
inline lookForTheDead() {
  d_step {
    isAny = false;
    if :: slot != 0 && isGone[slot - 1] -> slot = 0; isAny = true :: else fi;
    i = 0;
    do
    :: i < USERS ->
      if :: waits[i] && isGone[i] -> waits[i] = false; isAny = true :: else fi;
      i++
    :: else -> break
    od;
    i = 0
  };
  if
  :: isAny -> settle(); ringWatchers()
  :: else
  fi
}

/* Whether the beacon of somebody who has the slot or a place is out. */
#define isSlotOut (slot != 0 && slot != me + 1 && !isLit[slot - 1])
#define isPlaceOut (\
  (me != 0 && waits[0] && !isLit[0]) || (me != 1 && waits[1] && !isLit[1]) || \
  (me != 2 && waits[2] && !isLit[2]))
#define isAnyOut (isSlotOut || isPlaceOut)

/* Whether a look would change anything. */
#define isDue (\
  slot == 0 || (slot != 0 && isGone[slot - 1]) || \
  (waits[0] && isGone[0]) || (waits[1] && isGone[1]) || (waits[2] && isGone[2]))

/* SlotBlock.see: all beacons but one's own. */
inline see() {
  d_step {
    sees[me] = 0;
    i = 0;
    do
    :: i < PROCESSES ->
      if
#ifdef WAITERS_NOT_SEEN
      :: i >= USERS && isLit[i] -> sees[me] = sees[me] | (1 << i)
#else
      :: i != me && isLit[i] -> sees[me] = sees[me] | (1 << i)
#endif
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0;
    hasSeenOut = isAnyOut
  }
}

/* Whether a beacon has gone out since it was seen; the kernel compares the words before it sleeps. */
#define hasChanged(p) ((sees[me] & (1 << (p))) && !isLit[p])
#define isAnyChanged (hasChanged(0) || hasChanged(1) || hasChanged(2) || hasChanged(3) || hasChanged(4))

/* SlotBlock.attend */
proctype waiter(byte me) {
  byte i, first = NONE, last;
  bool isAny, hasSeenOut, isTurn, hasBegun;
  {
    if :: me == 2 -> waits[2] = true :: else fi;
    do
    :: isRung[me] = false;
      d_step {
        lookAtQueue();
        if
        :: first == me && slot == 0 -> slot = me + 1; hasBegun = true
        :: else
        fi;
        first = NONE
      };
      if
      :: hasBegun -> break
      /* It may give up. */
      :: !hasBegun && me != 2 -> break
      :: !hasBegun ->
        see();
        if
        :: hasSeenOut -> lookForTheDead()
        :: else
        fi;
        if
        :: isAny -> isAny = false
        :: else ->
          /* SlotBlock.noteAbsence */
          d_step {
            lookAtQueue();
#ifndef TURN_NOT_SEEN_AGAIN
            isTurn = first == me && slot == 0;
#endif
            if
#ifndef OTHER_NOT_RUNG
            :: first != NONE && first != me && slot == 0 -> ring(first)
#endif
            :: else
            fi;
            first = NONE
          };
          atomic {
            if
            :: isTurn -> isTurn = false
#ifndef WORDS_NOT_COMPARED
            :: !isTurn && isAnyChanged
#endif
            :: else -> isAsleep[me] = true
            fi
          };
          if
          :: isAsleep[me] ->
            if
            :: isRung[me]
#ifndef LOOKS_ONCE
            :: hasSeenOut && isDue
#endif
            fi;
            isAsleep[me] = false
          :: else
          fi
        fi
      fi
    od;
    /* SlotBlock.leave; `passOnWatch` is for those who look, and left out */
    atomic { waits[me] = false; isRung[me] = false };
    settle();
#ifndef KNOWLEDGE_NOT_PASSED_ON
    if :: hasSeenOut || isAnyChanged -> ringWatchers() :: else fi;
#endif
    atomic { sees[me] = 0; hasSeenOut = false };
    if :: hasBegun -> slot = 0; settle() :: else fi
  } unless { dead[me] }
}

/* A call that was under way before, and ends at some time. */
proctype holder() {
  byte i, first = NONE;
  {
    slot = 0;
    settle()
  } unless { dead[HOLDER] }
}

/* SlotBlock.announce, or that of an owner whose beacon is out */
inline announce() {
  if
  :: isLit[PASSER] ->
    d_step {
      i = 0;
      do
      :: i < USERS -> if :: waits[i] -> ring(i) :: else fi; i++
      :: else -> break
      od;
      i = 0
    }
  :: else -> ringWatchers()
  fi
}

/* A call that does not wait, of a process that comes later; it may pass those who wait. */
proctype passer() {
  byte i, first = NONE, last;
  bool hasBegun, isAnybodyWaiting;
  {
#ifndef BEACON_AFTER_GATE
    isLit[PASSER] = true;
#endif
    isAnybodyWaiting = waits[0] || waits[1] || waits[2];
#ifdef BEACON_AFTER_GATE
    isLit[PASSER] = true;
#endif
#if !defined(NOT_ANNOUNCED) && !defined(ANNOUNCED_LATE)
    if :: isAnybodyWaiting -> announce() :: else fi;
#endif
    atomic { if :: slot == 0 -> slot = PASSER + 1; hasBegun = true :: else fi };
    if
    :: hasBegun ->
#ifdef ANNOUNCED_LATE
      if :: isAnybodyWaiting -> announce() :: else fi;
#endif
      slot = 0;
      settle()
    :: else
    fi
  } unless { dead[PASSER] }
}

/* The kernel puts a beacon out, and wakes one of those who sleep by it. */
inline putOut(p) {
  if
  :: isLit[p] ->
    isLit[p] = false;
    if
    :: isAsleep[0] && (sees[0] & (1 << p)) && !isRung[0] -> ring(0)
    :: isAsleep[1] && (sees[1] & (1 << p)) && !isRung[1] -> ring(1)
    :: isAsleep[2] && (sees[2] & (1 << p)) && !isRung[2] -> ring(2)
    :: else
    fi
  :: else
  fi
}

/* A waiter that is killed while it sleeps is woken by nobody any more. */
inline kill(p) {
  atomic {
    !dead[p];
    dead[p] = true;
    if :: p < USERS -> isAsleep[p] = false; sees[p] = 0; isRung[p] = false :: else fi;
    putOut(p);
    killed = p
  };
  d_step { isGone[killed] = true; killed = 0 }
}

proctype killer() {
  byte kills, killed;
  do
  :: kills < MISHAPS ->
    if
    :: kill(0)
#ifndef TWO
    :: kill(1)
#endif
    :: kill(2)
    :: kill(HOLDER)
    :: kill(PASSER)
    fi;
    kills++
  :: true -> break
  od
}

/* The thread that keeps the passer's beacon lit ends while the passer has the slot; the process goes on. That it
 * ends just before is left to the looks once a second. */
proctype threads() {
end:
  atomic { isLit[PASSER] && !dead[PASSER] && slot == PASSER + 1 -> putOut(PASSER) }
}

init {
  atomic {
    waits[0] = true;
    isLit[0] = true;
#ifndef TWO
    waits[1] = true;
    isLit[1] = true;
#endif
    isLit[2] = true;
    isLit[HOLDER] = true;
    run waiter(0);
#ifndef TWO
    run waiter(1);
#endif
    run waiter(2);
    run holder();
    run passer();
    run killer();
#ifdef THREADS
    run threads()
#endif
  }
}
