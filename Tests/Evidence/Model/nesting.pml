/* A call inside of a call needs no room of its own, and waits neither for its ancestor nor for another call;
 * nothing is inside of a call that has ended.
 *
 * A process makes two calls under a limit of one. Inside of the first one it starts another process, which
 * finds in its environment which call that is, and makes a call of the same breaker: perhaps while its
 * parent waits for it, and perhaps much later. A third process has nothing to do with either. Any process
 * may be killed at any step; a caller without room frees that of the dead. Every access to memory that
 * processes share is a step of its own.
 */

#ifndef MISHAPS
#define MISHAPS 1
#endif
#define PARENT 0
#define CHILD 1
#define STRANGER 2
#define ALL 3

byte slot;            /* 0 if free, or the number of its owner, plus 1 */
byte serial;
byte units;

/* The environment of the child: the call that it is inside of. */
byte token;
bool isStarted;
bool isDone;

/* The truth: the call of the parent that is under way, by its serial. */
byte underWay;
bool dead[ALL];

/* SlotBlock.take, SlotBlock.begin, and what looks for the dead before it waits. */
inline enter() {
  do
  :: atomic { slot == 0 -> slot = me + 1 }; break
  :: atomic { slot != 0 && dead[slot - 1] -> slot = 0 }
  od;
  units = 0;
  own = serial + 1;
  serial = own
}

/* SlotBlock.giveBack; a call ends with its units. */
#define end() if :: me == PARENT -> underWay = 0 :: else fi
inline leave() {
#ifdef UNITS_KEPT
  d_step { slot = 0; own = 0; end() }
#else
  d_step { units = 0; own = 0; end() };
  slot = 0
#endif
}

proctype parent() {
  byte me = PARENT, own;
  {
    enter();
    d_step { units = 1; underWay = own };
    atomic { token = own; isStarted = true };
    if
    :: skip -> isDone
    :: skip
    fi;
    leave();
    enter();
    d_step { units = 1; underWay = own };
    leave()
  } unless { dead[PARENT] }
}

/* CallNesting.surroundings, SlotBlock.isUnderWay, SlotBlock.owner; then the call. */
proctype child() {
  byte me = CHILD, own;
  bool wasUnderWay, isInside;
  isStarted;
  {
#ifndef WAITS_FOR_ITS_ANCESTOR
    wasUnderWay = token != 0 && underWay == token;
    isInside = slot == PARENT + 1;
    isInside = isInside && units > 0;
#ifndef SERIAL_NOT_COMPARED
    isInside = isInside && serial == token;
#endif
#ifndef OWNER_NOT_ASKED
    isInside = isInside && !dead[PARENT];
#endif
    assert(!isInside || wasUnderWay);
#endif
    if
    :: isInside
    :: else -> enter(); units = 1; leave()
    fi
  } unless { dead[CHILD] };
  /* A process that waits for another one learns that it has ended, however it has. */
  isDone = true
}

proctype stranger() {
  byte me = STRANGER, own;
  { enter(); units = 1; leave() } unless { dead[STRANGER] }
}

proctype killer() {
  if
  :: atomic { dead[PARENT] = true; underWay = 0; isStarted = true }
  :: dead[CHILD] = true
  :: dead[STRANGER] = true
  :: skip
  fi
}

init {
  atomic {
    run parent();
    run child();
    run stranger();
    if :: MISHAPS > 0 -> run killer() :: else fi
  }
}
