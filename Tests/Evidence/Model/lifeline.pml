/* No process is taken for dead while it may still report its call, and the death of a process that is not
 * visible is found by its lifeline.
 *
 * A process and the child that it may fork ask for the one slot, in turn or together. Each step may be
 * followed by the end of the process, by execve(2), after which only the call of a token can be
 * reported, by other code of the process that closes every descriptor, and by the deletion of the
 * lock file. A new file may have the inode number of a deleted one that no process has open any more.
 */

#ifndef MISHAPS
#define MISHAPS 4
#endif
#define FILES 4
#define NONE 255

/* The lock files that there have been; the last one is at the path. */
byte file;
byte number[FILES];

/* The holders of the lock on the byte of a process in a file, as bits: 1 for the parent, 2 for the child. */
typedef Byte { byte in[FILES] };
Byte held[2];

/* The lease in the store. */
byte owner = NONE;
byte leaseByte = NONE; /* NONE if it names no lifeline */
byte leaseFile;        /* the truth; the lease has its number */
byte leaseNumber;

/* The truth: which processes live, and which may still report the lease. */
bool lives[2];
bool reports[2];
bool hasForked;
byte mishaps;

#define bit(process) (1 << (process))

inline letGo(process) {
  for (i : 0 .. FILES - 1) {
    held[0].in[i] = held[0].in[i] & ~bit(process);
    held[1].in[i] = held[1].in[i] & ~bit(process)
  }
  i = 0
}

/* Lifelines.own: looks for the lifeline as others see it, and takes one if it is not there. */
inline take() {
  atomic {
    mine = file;
    if
    :: held[drawn].in[file] != 0
    :: else -> held[drawn].in[file] = bit(me)
    fi
  }
}

/* Engine.leaseOwner, in a transaction. */
inline write() {
  atomic {
    if
    :: owner == NONE ->
      owner = me; reports[me] = true; leaseFile = mine; leaseNumber = number[mine];
#ifdef TOKENS_NAME_IT
      leaseByte = drawn
#else
      leaseByte = (isToken -> NONE : drawn)
#endif
    :: else
    fi
  }
}

proctype user(byte me; byte drawn) {
  byte mine;
  bool isToken;
  byte i;
end: do
  :: lives[me] && owner == NONE ->
    if :: isToken = false :: isToken = true fi;
#ifdef LEASE_FIRST
    mine = file;
    write();
    take()
#else
    take();
    if :: lives[me] -> write() :: else fi
#endif
  :: atomic { owner == me && reports[me] -> owner = NONE; leaseByte = NONE; reports[me] = false }
  /* The store is let go of, with no call under way. */
  :: atomic { lives[me] && owner != me -> letGo(me) }
  :: atomic { lives[me] && mishaps < MISHAPS -> mishaps++;
#ifdef HELD_BY_A_DESCRIPTOR
      letGo(me)
#endif
    }
  :: atomic { lives[me] && mishaps < MISHAPS ->
      mishaps++;
      letGo(me);
      if :: owner == me && !isToken -> reports[me] = false :: else fi;
      if :: owner != me || !isToken -> lives[me] = false :: else fi
    }
  :: atomic { me == 0 && lives[0] && !hasForked && mishaps < MISHAPS ->
      mishaps++;
      hasForked = true;
      lives[1] = true;
#ifdef INHERITED
      for (i : 0 .. FILES - 1) {
        if :: held[0].in[i] & 1 -> held[0].in[i] = held[0].in[i] | 2 :: else fi
      }
      i = 0;
#endif
#ifdef LIFELINE_OF_ITS_PARENT
      run user(1, 0)
#else
      run user(1, 1)
#endif
    }
  :: atomic { lives[me] && mishaps < MISHAPS ->
      mishaps++; lives[me] = false; reports[me] = false; letGo(me); break
    }
  od
}

proctype deleter() {
  byte i;
  bool isUsed;
  do
  :: atomic { file < FILES - 1 && mishaps < MISHAPS ->
      mishaps++;
      file++;
      /* As low a number as possible: that of a deleted file that no process has mapped. */
      isUsed = false;
      for (i : 0 .. FILES - 1) {
        if
        :: i < file && number[i] == 1 && (held[0].in[i] | held[1].in[i]) != 0 -> isUsed = true
        :: else
        fi
      }
      i = 0;
      number[file] = (isUsed -> file + 1 : 1)
    }
  :: file == FILES - 1 || mishaps >= MISHAPS -> break
  od
}

/* OwnerJudge.isGone, of an owner in another PID namespace. */
active proctype judge() {
  bool isGone;
end: do
  :: atomic { owner != NONE ->
#ifdef FILE_NOT_COMPARED
      isGone = (leaseByte != NONE && held[leaseByte % 2].in[file] == 0);
#else
      isGone = (leaseByte != NONE && leaseNumber == number[file]
        && held[leaseByte % 2].in[file] == 0);
#endif
      assert(!isGone || !reports[owner]);
      /* It may find the same lock file under another process's feet, but never too late. */
      assert(isGone || lives[owner] || leaseByte == NONE || leaseFile != file);
      if :: isGone -> owner = NONE; leaseByte = NONE :: else fi;
      isGone = false
    }
  od
}

init {
  atomic {
    number[0] = 1;
    lives[0] = true;
    run user(0, 0);
    run deleter()
  }
}
