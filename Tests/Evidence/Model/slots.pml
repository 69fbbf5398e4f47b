/* Never more calls are under way than the limit allows, and no caller sleeps while there is room for it.
 *
 * Processes make a call each: at once if there is a free slot and nothing in its way, and in the queue
  * otherwise. Meanwhile the limit is lowered, and with MISHAPS a process may be killed at any step; the
  * waiters find what it left. Every access to memory that processes share is a step of its own, but for
  * the operations that are atomic. With QUEUE there is one slot, which is taken at first, and one
  * waiter may give up.
 */

#ifndef MISHAPS
#define MISHAPS 1
#endif
#define USERS 2
#ifdef QUEUE
#define SLOTS 1
#else
#define SLOTS 2
#endif
#define NONE 255

byte slot[SLOTS];     /* 0 if free, or the number of its owner, plus 1 */
bool waits[USERS];    /* the place of each */
byte ticket[USERS];
byte tickets;
byte bell[USERS];

/* The gate, which is one word. */
byte limit = SLOTS;
bool flag;
bool narrowed;
byte version;

byte policy = SLOTS;  /* the limit in the store */

/* The truth. */
byte begun;
bool isBegun[USERS + SLOTS];
bool dead[USERS + SLOTS];
byte deaths;

inline begins() {
  begun++;
  isBegun[me] = true;
  assert(begun <= limit)
}

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
  :: else -> break
  od
}

/* SlotBlock.usage */
inline count() {
  used = 0;
  i = 0;
  do
  :: i < SLOTS -> used = used + (slot[i] != 0); i++
  :: else -> break
  od;
  i = 0
}

/* SlotBlock.settle; whether a slot beyond the limit is taken is one load, because there are two. */
inline settle() {
  do
  :: d_step { seen = version; seenLimit = limit; isRaised = flag; isNarrow = narrowed };
    lookAtQueue();
    isRaised = isRaised && first == NONE;
    isNarrow = isNarrow && (seenLimit == SLOTS || slot[SLOTS - 1] == 0);
    if
    :: isRaised || isNarrow ->
      if
      :: atomic { version == seen ->
          if :: isRaised -> flag = false :: else fi;
          if :: isNarrow -> narrowed = false :: else fi;
          version++; break }
      :: atomic { version != seen -> skip }
      fi
    :: else -> break
    fi
  od;
  lookAtQueue();
  if
  :: first != NONE ->
    seenLimit = limit;
    count();
    if
    :: used < seenLimit -> bell[first] = (bell[first] + 1) % 8
    :: else
    fi
  :: else
  fi;
  d_step { first = NONE; used = 0; seen = 0; seenLimit = 0; isRaised = false; isNarrow = false }
}

/* SlotBlock.takeAny, below a limit; `mine` is the slot, or NONE. */
inline takeAny(most) {
  mine = NONE;
  i = 0;
  do
  :: i < most ->
    if
    :: atomic { slot[i] == 0 -> slot[i] = me + 1; mine = i; break }
    :: atomic { slot[i] != 0 -> i++ }
    fi
  :: else -> break
  od;
  i = 0
}

/* SlotBlock.end, and what gives a slot back that must not be kept. */
inline giveBack() {
#ifdef LOOKS_WHO_WAITS_FIRST
  isFull = flag || narrowed;
  slot[mine] = 0;
#else
  slot[mine] = 0;
  isFull = flag || narrowed;
#endif
  mine = NONE;
  if :: isFull -> isFull = false; settle() :: else fi
}

/* SlotBlock.take */
inline takeAtOnce() {
  if
  :: d_step { !flag && !narrowed && limit == terms -> skip };
    takeAny(terms);
    if
    :: mine != NONE ->
#ifdef GATE_NOT_SEEN_AGAIN
      d_step { begins() }
#else
      if
      :: d_step { !narrowed && limit == terms -> begins() }
      :: d_step { (narrowed || limit != terms) -> skip }; giveBack()
      fi
#endif
    :: else
    fi
  :: d_step { (flag || narrowed || limit != terms) -> skip }
  fi
}

/* SlotBlock.adopt: the terms are in force, or later ones are. */
inline adopt() {
  do
  :: d_step { limit == terms -> skip }; break
  :: d_step { limit < terms -> terms = limit }; break
  :: atomic { limit > terms -> limit = terms; narrowed = true; version++ }; settle(); break
  od
}

/* SlotBlock.takeWithCare */
inline takeWithCare() {
  d_step { seenTerms = limit };
  count();
  if
  :: used < seenTerms ->
    takeAny(seenTerms);
    if
    :: mine != NONE ->
      count();
      if
      :: d_step { used <= seenTerms && limit == seenTerms -> begins() }
      :: d_step { !(used <= seenTerms && limit == seenTerms) -> skip };
        slot[mine] = 0;
        mine = NONE
      fi
    :: else
    fi
  :: else
  fi;
  d_step { used = 0; seenTerms = 0 }
}

/* SlotBlock.lookForTheDead */
inline lookForTheDead() {
  i = 0;
  do
  :: i < SLOTS ->
    atomic { if :: slot[i] != 0 && dead[slot[i] - 1] -> slot[i] = 0 :: else fi; i++ }
  :: else -> break
  od;
#ifndef PLACES_KEPT_BY_THE_DEAD
  i = 0;
  do
  :: i < USERS ->
    atomic { if :: waits[i] && dead[i] -> waits[i] = false :: else fi; i++ }
  :: else -> break
  od;
#endif
  i = 0;
  settle()
}

#define raise() atomic { flag = true; version++ }

/* SlotBlock.attend */
inline attend() {
  atomic { ticket[me] = tickets; tickets++ };
  waits[me] = true;
#ifdef FLAG_NOT_RENEWED
  if :: atomic { !flag -> flag = true; version++ } :: d_step { flag -> skip } fi;
#endif
#ifndef LOOKS_BEFORE_FLAG
#ifndef FLAG_NOT_RENEWED
  raise();
#endif
#endif
  do
  :: heard = bell[me];
    lookAtQueue();
    if :: first == me -> first = NONE; takeWithCare() :: else -> first = NONE fi;
#ifdef LOOKS_BEFORE_FLAG
    if :: !isBegun[me] -> raise() :: else fi;
#endif
    if
    :: isBegun[me] -> break
    :: else ->
      if
      :: bell[me] != heard
      :: found < deaths -> found = deaths; lookForTheDead()
#ifdef QUEUE
      :: me == 0 -> break
#endif
      fi
    fi
  od;
  heard = 0;
  waits[me] = false;
#ifndef LEAVES_WITHOUT_LOOKING
  settle()
#endif
}

proctype user(byte me) {
  byte i, mine = NONE, first = NONE, used, seen, seenLimit, seenTerms, terms, heard, found;
  bool isRaised, isNarrow, isFull;
  {
    terms = policy;
    takeAtOnce();
    if
    :: !isBegun[me] ->
      adopt();
      takeAtOnce();
      if :: !isBegun[me] -> attend() :: else fi
    :: else
    fi;
    if
    :: isBegun[me] -> d_step { begun--; isBegun[me] = false }; giveBack()
    :: else
    fi
  } unless { dead[me] }
}

/* A call that was under way before, and whose end is all that happens to it. */
proctype holder(byte me; byte mine) {
  byte i, first = NONE, used, seen, seenLimit;
  bool isRaised, isNarrow, isFull;
  d_step { begun--; isBegun[me] = false };
  giveBack()
}

/* An operator lowers the limit, which the next caller puts in force. */
proctype operator() { policy = 1 }

proctype killer() {
  byte victim;
  do
  :: victim < USERS - 1 -> victim++
  :: break
  od;
  atomic {
    dead[victim] = true;
    deaths++;
    if :: isBegun[victim] -> begun--; isBegun[victim] = false :: else fi
  }
}

init {
  atomic {
    byte number;
    do
    :: number < USERS -> run user(number); number++
    :: else -> break
    od;
#ifdef QUEUE
    for (number : 0 .. SLOTS - 1) {
      slot[number] = USERS + number + 1;
      isBegun[USERS + number] = true;
      begun++;
      run holder(USERS + number, number)
    }
#endif
#ifndef QUEUE
    run operator();
#endif
    if :: MISHAPS > 0 -> run killer() :: else fi
  }
}
