/* A store does not accept reports for a store that it has replaced.
 *
 * A copy replaces a store once or twice, while two processes or none use it. Each process asks for a
 * probe and reports it, notices the new file at some later step, or is killed, after which a script
 * still has its token. The copy has the same rows, generations and leases as the store, so only the
 * lineage distinguishes them.
 */

#ifndef COPIES
#define COPIES 2
#endif
#define NOBODY 255

/* The truth: which file is at the path. */
byte file = 1;
byte copies;

/* The contents of the file; a copy has those of the first file. */
byte lineage = 1;
byte fileOfLineage = 1;
byte lastLineage = 1;
byte lease; /* 0 if there is none */

byte writer = NOBODY;

#ifdef LINEAGE_NOT_CHECKED
#define isOfThisStore true
#else
#define isOfThisStore (lineage == ownLineage)
#endif
#ifdef NOT_RENEWED
#define isCopy false
#else
#define isCopy (fileOfLineage != file)
#endif

inline begin() { atomic { writer == NOBODY -> writer = me } }
inline commit() { writer = NOBODY }

/* StoreHeader.agreed. A write to a file that has been replaced changes nothing. */
inline renew() {
#ifdef RENEWED_UNCHECKED
  begin();
  atomic {
    if
    :: mine == file -> lastLineage++; lineage = lastLineage; fileOfLineage = file
    :: else
    fi;
    commit()
  }
#else
  begin();
  atomic {
    if
    :: mine == file && isCopy -> lastLineage++; lineage = lastLineage; fileOfLineage = file
    :: else
    fi;
    commit()
  }
#endif
}

inline openStore() {
  atomic { mine = file; known = (isCopy -> 1 : 0) }
  if
  :: known -> renew()
  :: else
  fi
}

/* A transaction on an open store. */
inline ask() {
  begin();
  atomic {
    if
    :: mine == file && lease == 0 ->
      lease = 1;
      ownLease = 1; ownLineage = lineage; ownFile = file
    :: else
    fi;
    commit()
  }
}

inline report() {
  begin();
  atomic {
    if
    :: mine == file && lease == ownLease && isOfThisStore ->
      assert(ownFile == file);
      lease = 0
    :: else ->
      /* A store accepts every report for what it has given out itself. */
      assert(!(mine == file && ownFile == file && lease == ownLease))
    fi;
    ownLease = 0; ownLineage = 0; ownFile = 0;
    commit()
  }
}

active [2] proctype process() {
  byte me = _pid;
  byte mine;
  bit known;
  byte ownLease;
  byte ownLineage;
  byte ownFile;
  do
  :: mine != file -> openStore()
  :: mine != 0 && ownLease == 0 -> ask()
  :: mine != 0 && ownLease != 0 -> report()
  :: atomic { mine != 0 -> mine = 0 }
  od
}

active proctype administrator() {
  do
  :: atomic {
      copies < COPIES ->
      copies++;
      file++;
      lineage = 1; fileOfLineage = 1; lease = 0
    }
  :: break
  od
}
