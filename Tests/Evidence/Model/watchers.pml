/* Two of all waiters look after the others: so no waiter sleeps beside room, as long as processes are
 * killed one at a time.
 *
  * There is one slot, which one process has at first; all others have their places in the queue, and are about
  * to look. Waiters sleep until they are woken, but for the last one to be served and the last one of another
  * process, which look at short intervals; one waiter may give up. A process may be killed at any step, and with
  * QUIET several, each once no process has anything left to do. Two things are left out: the look of every waiter
  * once a second, in case both that look are killed at once, and stopped processes, which pass for absent. To
  * take a slot, to look for the first waiter, and to decide whether a call may pass the waiters is one step here;
  * `slots` has the single ones. With THREADS the last two waiters are of one process.
 */

#ifndef MISHAPS
#define MISHAPS 1
#endif
#define USERS 3
#define HOLDER 3
#define NONE 255
#ifdef THREADS
#define process(user) ((user) == 2 -> 1 : (user))
#else
#define process(user) (user)
#endif

byte slot = HOLDER + 1;   /* 0 if free, or the number of the process that has it, plus 1 */
bool waits[USERS];        /* the place of each */
byte ticket[USERS];
bool isRung[USERS];       /* whether its bell was rung since it last looked at it */
bool dead[HOLDER + 1];    /* by process */
bool isEarly, isLate;     /* when the holder's call ends */

#define isDead(user) dead[process(user)]
#define ring(user) isRung[user] = true

/* SlotBlock.first */
inline lookAtQueue() {
  first = NONE;
  i = 0;
  do
  :: i < USERS ->
    if
    :: waits[i] && (first == NONE || ticket[i] < ticket[first]) -> first = i
    :: else
    fi;
    i++
  :: else -> i = 0; break
  od
}

/* SlotBlock.settle, in one step: what happens between its reads is in `slots`. */
inline settle() {
  d_step {
    lookAtQueue();
    if
    :: first != NONE && slot == 0 -> ring(first)
    :: else
    fi;
    first = NONE
  }
}

#ifdef WATCHERS_OF_ONE_PROCESS
#define IS_OTHER(one, two) true
#else
#define IS_OTHER(one, two) (process(one) != process(two))
#endif

/* SlotBlock.watchers, in one step too: a waiter that leaves while another one looks wakes the last ones of then. */
inline lookForWatchers() {
  d_step {
    last = NONE;
    other = NONE;
    i = 0;
    do
    :: i < USERS ->
      if
      :: waits[i] && (last == NONE || ticket[last] < ticket[i]) ->
        if
        :: last != NONE && IS_OTHER(last, i) -> other = last
        :: else
        fi;
        last = i
      :: waits[i] && last != NONE && ticket[i] < ticket[last] && IS_OTHER(last, i) &&
        (other == NONE || ticket[other] < ticket[i]) -> other = i
      :: else
      fi;
      i++
    :: else -> i = 0; break
    od;
#ifdef ONE_WATCHER
    other = NONE
#endif
  }
}

#define forgetWatchers() last = NONE; other = NONE

/* SlotBlock.freeTheDead */
inline lookForTheDead() {
  d_step {
    isAny = false;
    if :: slot != 0 && dead[slot - 1] -> slot = 0; isAny = true :: else fi;
    i = 0
  };
  do
  :: i < USERS ->
    d_step { if :: waits[i] && isDead(i) -> waits[i] = false; isAny = true :: else fi; i++ }
  :: else -> i = 0; break
  od;
  if
  :: isAny ->
    settle();
#ifndef DEAD_NOT_FOLLOWED
    lookForWatchers();
    if :: last != NONE -> ring(last) :: else fi;
    if :: other != NONE -> ring(other) :: else fi;
    d_step { forgetWatchers() }
#endif
  :: else
  fi
}

/* SlotBlock.passTheStopped: the bell of the first may not have been rung. */
inline ringAgain() {
  d_step {
    lookAtQueue();
    if
    :: first != NONE && first != me && slot == 0 -> ring(first)
    :: else
    fi;
    first = NONE
  }
}

/* Whether a look would change anything. */
#define isDue (\
  slot == 0 || dead[slot - 1] || \
  (waits[0] && isDead(0)) || (waits[1] && isDead(1)) || (waits[2] && isDead(2)))

/* SlotBlock.attend */
proctype waiter(byte me) {
  byte i, first = NONE, last = NONE, other = NONE;
  bool isAny, isWatching, hasBegun;
  {
    do
    :: isRung[me] = false;
      d_step {
        lookAtQueue();
        if
        :: first == me && slot == 0 -> slot = process(me) + 1; hasBegun = true
        :: else
        fi;
        first = NONE
      };
      if
      :: hasBegun -> break
#ifndef THREADS
      :: !hasBegun && me == 2 -> break
#endif
      :: !hasBegun ->
        lookForTheDead();
        if
        :: isAny -> isAny = false
        :: else ->
          ringAgain();
          lookForWatchers();
          d_step { isWatching = last == me || other == me; forgetWatchers() };
          if
          :: isRung[me]
          :: isWatching && isDue
          fi;
          isWatching = false
        fi
      fi
    od;
    /* SlotBlock.leave */
    waits[me] = false;
    settle();
#ifndef WATCH_NOT_PASSED_ON
    lookForWatchers();
    if :: last != NONE && ticket[last] < ticket[me] -> ring(last) :: else fi;
    if :: other != NONE && ticket[other] < ticket[me] -> ring(other) :: else fi;
    d_step { forgetWatchers() };
#endif
    if
    :: hasBegun -> slot = 0; settle()
    :: else
    fi
  } unless { isDead(me) }
}

/* A call that was under way before, and ends early, or when all else is done. */
proctype holder() {
  byte i, first = NONE;
  {
    if :: isEarly :: isLate fi;
    slot = 0;
    settle()
  } unless { dead[HOLDER] }
}

#ifdef QUIET
#define mayKill timeout
#else
#define mayKill (kills == 0 || timeout)
#endif

proctype killer(byte most) {
  byte kills;
  do
  :: kills < most && mayKill ->
    if
    :: dead[0] = true
    :: dead[1] = true
    :: dead[2] = true
    :: dead[HOLDER] = true
    fi;
    kills++
  :: kills == most && timeout -> isLate = true; break
  od
}

init {
  atomic {
    /* The waiter that may give up can be anywhere in the queue. */
    if
    :: ticket[0] = 0; ticket[1] = 1; ticket[2] = 2
    :: ticket[0] = 0; ticket[1] = 2; ticket[2] = 1
    :: ticket[0] = 1; ticket[1] = 2; ticket[2] = 0
    fi;
    waits[0] = true; waits[1] = true; waits[2] = true;
    if :: isEarly = true :: skip fi;
    run waiter(0);
    run waiter(1);
    run waiter(2);
    run holder();
    if :: run killer(MISHAPS) :: run killer(MISHAPS - 1) fi
  }
}
