/* Processes in one boot agree on its number, whatever each of them can read.
 *
 * Three processes open and leave a store, write to it and crash at any step, across a reboot. One
 * process reads the kernel's boot id, one cannot read it, and one sees its container's id, which is
 * the same in every boot. The wall clock may be set once.
 */

#ifndef SETTINGS
#define SETTINGS 1 /* how often the wall clock is set */
#endif
#ifndef REBOOTS
#define REBOOTS 1
#endif
#define NOBODY 255
#define CONTAINERS 77
#define UNKNOWN 0

/* The truth. */
byte boot = 1;
byte settings;
byte numberOfBoot = 1; /* the first number that was used in this boot; 0 until there is one */

/* The store's note of the boot. `bootOfNote` and `isWallSet` model what its times reveal. */
byte noted = 1;
byte notedID = 1;
byte bootOfNote = 1;
bool isWallSet;
byte lastNumber = 1;

byte writer = NOBODY;

/* The processes: the number that each uses for its boot, and whether it holds the lock for it. */
byte number[3];
bool holds[3];
bool hasWritten[3];

#define attested(me) \
  (((me) != 0 && holds[0] && number[0] == noted) || ((me) != 1 && holds[1] && number[1] == noted) || \
   ((me) != 2 && holds[2] && number[2] == noted))

/* BootVerdict.judge */
inline judge() {
  ownID = (me == 0 -> boot : (me == 1 -> UNKNOWN : CONTAINERS));
  isBehind = false;
  if
  :: bootOfNote != boot -> isBehind = true
  :: true
  fi;
  if
  :: notedID != UNKNOWN && notedID == ownID -> isReboot = false
#ifdef IDS_ALONE
  :: else -> isReboot = true
#else
  :: else ->
    if
#ifndef NOT_ATTESTED
    :: attested(me) -> isReboot = false
    :: !attested(me) && bootOfNote != boot && isBehind -> isReboot = true
    :: !attested(me) && !(bootOfNote != boot && isBehind) && bootOfNote == boot && !isWallSet ->
      isReboot = false
    :: !attested(me) && !(bootOfNote != boot && isBehind) && !(bootOfNote == boot && !isWallSet) ->
      isReboot = (notedID != UNKNOWN && ownID != UNKNOWN)
#else
    :: bootOfNote != boot && isBehind -> isReboot = true
    :: !(bootOfNote != boot && isBehind) && bootOfNote == boot && !isWallSet -> isReboot = false
    :: else -> isReboot = (notedID != UNKNOWN && ownID != UNKNOWN)
#endif
    fi
#endif
  fi
}

/* StoreHeader.agreed, followed by the lock. */
inline open() {
  atomic { judge() }
  if
  :: isReboot ->
    atomic { writer == NOBODY -> writer = me }
    atomic {
#ifndef JUDGED_BEFORE_BEGIN
      judge();
#endif
      if
      :: isReboot ->
        lastNumber++;
        noted = lastNumber;
        notedID = ownID;
        bootOfNote = boot;
        isWallSet = false
      :: else
      fi;
      mine = noted
    }
    atomic { writer = NOBODY }
  :: else -> mine = noted
  fi;
  atomic { number[me] = mine; holds[me] = true }
}

/* OpenStore.verify, in the transaction of a write. */
inline write() {
  atomic { writer == NOBODY -> writer = me }
  atomic {
    if
    :: noted == number[me] ->
      hasWritten[me] = true;
      /* One boot gets two numbers only if the wall clock was set. */
      assert(settings > 0 || numberOfBoot == 0 || numberOfBoot == noted);
      /* A note of the previous boot may stay if no process can tell the two boots apart. */
      if
      :: bootOfNote == boot -> numberOfBoot = noted
      :: else
      fi
    :: else ->
      /* A process that has written is never contradicted while it has the store open. */
      assert(!hasWritten[me]);
      holds[me] = false
    fi;
    writer = NOBODY
  }
}

inline leave() { holds[me] = false; hasWritten[me] = false; number[me] = 0 }

/* A reboot ends every process at any step; the process starts again in the new boot. */
active [3] proctype process() {
  byte me = _pid;
  byte mine;
  byte ownID;
  byte bornIn;
  bool isReboot;
  bool isBehind;
again:
  bornIn = boot;
  {
    open();
    do
    :: holds[me] -> write()
    :: holds[me] -> atomic { leave(); break }
    :: !holds[me] -> break
    od
  } unless {
    atomic {
      bornIn != boot ->
      mine = 0; ownID = 0; isReboot = false; isBehind = false
    }
  };
  goto again
}

active proctype host() {
  byte reboots;
  do
  :: settings < SETTINGS -> atomic { settings++; isWallSet = true }
  :: reboots < REBOOTS ->
    atomic {
      reboots++;
      boot++;
      numberOfBoot = 0;
      writer = NOBODY;
      holds[0] = false; holds[1] = false; holds[2] = false;
      hasWritten[0] = false; hasWritten[1] = false; hasWritten[2] = false;
      number[0] = 0; number[1] = 0; number[2] = 0
    }
  :: break
  od
}
