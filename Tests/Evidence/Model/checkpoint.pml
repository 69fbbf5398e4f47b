/* No checkpoint overlaps a commit, and a crash inside either of them blocks nothing.
 *
 * Three processes commit, checkpoint and read, and are killed at any step. Only one has two threads:
 * a second thread in the others would add nothing, because threads of different processes share only
 * the file.
 */

#ifndef TURNS
#define TURNS 2
#endif
#define CRASHES 1
#define NOBODY 255

/* SQLite's write lock, by process: the kernel frees it when the process ends. */
byte writer = NOBODY;

/* SQLiteStorage.writing and .reading, in the memory of each process. */
bool writing[3];
bool reading[3];
bool killed[4]; /* by thread; the first two are of process 0 */

/* The truth that assertions compare with. */
byte committing = NOBODY;
byte checkpointing = NOBODY;

inline lock(mutex) { atomic { !mutex -> mutex = true } }

/* A thread must not give up the open store while it holds the write lock. */
inline unlockWriting() { atomic { assert(writer != me); writing[me] = false } }

/* SQLiteStorage.commit and .run */
inline commit() {
  lock(writing[me]);
  atomic { writer == NOBODY -> writer = me }
  atomic { committing = me; assert(checkpointing == NOBODY) }
  committing = NOBODY;
  writer = NOBODY;
#ifdef CHECKPOINTS_BY_ITSELF
  /* SQLite's own wal_autocheckpoint, after the commit. */
  atomic { checkpointing = me; assert(committing == NOBODY) }
  checkpointing = NOBODY;
#endif
  unlockWriting()
}

/* SQLiteStorage.checkpoint and OpenStore.checkpoint */
inline checkpoint() {
  lock(writing[me]);
  lock(reading[me]);
#ifdef CHECKPOINTS_UNLOCKED
  atomic { checkpointing = me; assert(committing == NOBODY) }
  checkpointing = NOBODY;
#else
  if
  :: atomic { writer == NOBODY -> writer = me }
    /* On the reader's connection, while the writer's connection holds the lock. */
    atomic { checkpointing = me; assert(committing == NOBODY) }
    checkpointing = NOBODY;
#ifndef KEEPS_THE_LOCK
    writer = NOBODY /* ROLLBACK */
#endif
  :: writer != NOBODY /* the lock is not free in time */
  fi;
#endif
  reading[me] = false;
  unlockWriting()
}

/* SQLiteStorage.readAside */
inline read() {
  lock(reading[me]);
  reading[me] = false
}

proctype Thread(byte me; byte thread) {
  byte turns;
  do
  :: {
      do
      :: turns < TURNS -> turns++;
        if :: commit() :: checkpoint() :: read() fi
      :: turns == TURNS -> goto over
      od
    } unless { killed[thread] -> killed[thread] = false }
  od;
over:
  skip
}

/* SIGKILL at any step: the memory of the process and its locks are gone. */
inline kill(process) {
  d_step {
    killed[process + 1] = true;
    if :: process == 0 -> killed[0] = true :: else fi;
    writing[process] = false;
    reading[process] = false;
    if :: writer == process -> writer = NOBODY :: else fi;
    if :: committing == process -> committing = NOBODY :: else fi;
    if :: checkpointing == process -> checkpointing = NOBODY :: else fi
  }
}

proctype Killer() {
  byte crashes;
  do
  :: crashes < CRASHES -> crashes++; if :: kill(0) :: kill(1) :: kill(2) fi
  :: break
  od
}

init {
  atomic {
    run Thread(0, 0); run Thread(0, 1);
    run Thread(1, 2);
    run Thread(2, 3);
    run Killer()
  }
}
