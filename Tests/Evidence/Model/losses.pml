/* Each call that was under way when its process was killed is counted once, and no other call is.
 *
 * Two processes use one slot, one after the other. Two finders look for the dead, and record what they
 * find in a transaction, as every process does. Each may be killed at any step; a transaction that
 * has not been committed then leaves nothing. At last a living process looks and records once more.
 * Every access to memory that processes share is a step of its own, but for the operations that are
 * atomic. A call is under way while its slot has units.
 */

#ifndef MISHAPS
#define MISHAPS 2
#endif
#define USERS 2
#define ALL 4
#define NONE 255
#ifdef SERIALS_NOT_COMPARED
#define COMPARES_NO_SERIALS true
#else
#define COMPARES_NO_SERIALS false
#endif

byte slot;             /* 0 if free, or the number of its owner, plus 1 */
byte serial;
byte units;

/* The word of the slot that counts its lost calls, and the serial of the last one. */
byte calls;
byte lastSerial;

/* Words of the block: HeaderWord.losses, .countedLosses and .lossBase */
byte losses;
byte counted;
byte base = NONE;

/* The store: how many lost calls the breaker has counted, and the process that has begun a transaction. */
byte total = 1;
byte writer;

/* The truth. */
bool dead[ALL];
byte kills;
bool wasFinderKilled;
bool isUnderWay[ALL];
byte lost;

/* SlotBlock.noteLoss; `found` is the owner, which has ended. */
inline noteLoss() {
  seenSerial = serial;
  seenUnits = units;
  d_step { seenCalls = calls; seenLast = lastSerial };
  if
  :: seenUnits > 0 && (seenLast != seenSerial || COMPARES_NO_SERIALS) ->
#ifdef SLOT_NOT_SEEN_AGAIN
    isSame = true;
#else
    isSame = slot == found;
#endif
    if
    :: isSame ->
      d_step {
        if
        :: calls == seenCalls && lastSerial == seenLast -> calls++; lastSerial = seenSerial
        :: else
        fi
      }
    :: else
    fi
  :: else
  fi;
  d_step { seenSerial = 0; seenUnits = 0; seenCalls = 0; seenLast = 0; isSame = false }
}

/* SlotBlock.freeTheDead */
inline look() {
  found = slot;
  if
  :: found != 0 && dead[found - 1] ->
#ifdef FREED_BEFORE_NOTED
    seenUnits = units;
    d_step { if :: slot == found -> slot = 0; isSame = true :: else fi };
    if :: isSame && seenUnits > 0 -> calls++ :: else fi;
    d_step { isSame = false; seenUnits = 0 }
#else
    noteLoss();
    d_step { if :: slot == found -> slot = 0 :: else fi }
#endif
  :: else
  fi;
  found = 0;
  /* SlotBlock.noteLosses */
  found = calls;
  d_step { if :: losses < found -> losses = found :: else fi; found = 0 }
}

/* Engine.recordLostCalls; LossLedger.uncounted is what happens in one step, because it is local. */
inline record() {
  if
  :: losses != counted ->
    atomic { writer == 0 -> writer = me + 1 };
    seenTotal = total;
#ifdef FLAG_LOWERED
    found = calls;
    losses = found;
#else
    seenLosses = losses;
    found = calls;
    d_step { if :: losses == seenLosses -> losses = found :: else fi; seenLosses = 0 };
#endif
    seenBase = base;
    seenCounted = counted;
    d_step {
      certain = (seenCounted < found -> seenCounted : found);
      if
#ifdef COUNTED_DECIDES
      :: seenBase != NONE -> more = found - certain
#else
      :: seenBase != NONE && seenTotal - seenBase >= certain && seenTotal - seenBase <= found ->
        more = found - (seenTotal - seenBase)
#endif
      :: else -> seenBase = seenTotal - certain; more = found - certain
      fi
    };
#ifndef BASE_AFTER_COMMIT
    base = seenBase;
#endif
#ifdef NOTED_BEFORE_COMMIT
    counted = found;
#endif
    atomic { total = total + more; writer = 0; assert(total - 1 <= lost) };
#ifdef BASE_AFTER_COMMIT
    base = seenBase;
#endif
#ifndef NOTED_BEFORE_COMMIT
    counted = found;
#endif
    d_step {
      found = 0; seenTotal = 0; seenBase = 0; seenCounted = 0; certain = 0; more = 0
    }
  :: else
  fi
}

proctype user(byte me; byte most) {
  byte made, own;
  {
    do
    :: atomic { made < most && slot == 0 -> slot = me + 1; made++ };
      /* SlotBlock.begin */
#ifndef UNITS_OF_THE_DEAD
      units = 0;
#endif
      own = serial + 1;
      serial = own;
      d_step { units = 1; isUnderWay[me] = true; own = 0 };
      /* SlotBlock.giveBack */
#ifdef UNITS_KEPT
      d_step { slot = 0; isUnderWay[me] = false }
#else
      d_step { units = 0; isUnderWay[me] = false };
      slot = 0
#endif
    :: made > 0 || slot != 0 -> break
    od
  } unless { dead[me] }
}

proctype finder(byte me) {
  byte found, seenSerial, seenUnits, seenCalls, seenLast, seenTotal, seenLosses, seenBase, seenCounted;
  byte certain, more;
  bool isSame;
  { look(); record() } unless { dead[me] }
}

/* A process that is killed in a transaction leaves the right to write to the next one. */
#define kill(victim) \
  atomic { !dead[victim] -> \
    dead[victim] = true; \
    kills++; \
    if :: victim >= USERS -> wasFinderKilled = true :: else fi; \
    if :: isUnderWay[victim] -> lost++ :: else fi; \
    if :: writer == victim + 1 -> writer = 0 :: else fi \
  }

proctype killer() {
  do
  :: kills < MISHAPS ->
    if :: kill(0) :: kill(1) :: kill(2) :: kill(3) fi
  :: break
  od
}

init {
  byte me = ALL, found, seenSerial, seenUnits, seenCalls, seenLast, seenTotal, seenLosses, seenBase;
  byte seenCounted, certain, more;
  bool isSame;
  atomic {
    run user(0, 2);
    run user(1, 1);
    run finder(USERS);
    run finder(USERS + 1);
    run killer()
  };
  _nr_pr == 1;
  /* The next process records the losses that were found, unless their finder was killed at it. */
  assert(wasFinderKilled || calls == total - 1 || losses != counted);
  look();
  record();
  assert(total - 1 == lost)
}
