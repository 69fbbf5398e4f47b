/* Nothing that is known of one file is used for another file that has replaced it.
 *
 * The watched process has three threads: a step, a refresh, a healthy call. Neighbours commit to any
 * file, because they may or may not have noticed the replacement. All files look alike: their
 * revisions and counts of commits begin at the same number, which is the worst case.
 *
 * A file and a revision identify a row. A fingerprint is that of both; 0 is that of nothing.
 */

#define FILES 2
#define LAST 3
#define NOBODY 255
#define NO_FILE 255
#define print(f, r) (1 + (f) * 8 + (r))

/* The files; `path` names one of them. Every commit writes the row. */
byte path;
byte revision[FILES] = 1;
bool isLocked[FILES];

/* SQLiteStorage.store: the file of each connection, and the identity that was noted. */
byte readerFile = NO_FILE;
byte writerFile = NO_FILE;
byte noted;
byte openings;
bool writing, reading;

/* OwnCommits */
byte ownPrint, ownFile, ownRevision;

/* Knowledge.vouched, .baseline, .forgettings, and CellMemory.known */
byte seen, baseline, baselineLineage, forgettings;
bool isKnown;
byte knownFile, knownRevision;

/* WALIndexPage: the index of the reader's connection. */
#define watched (readerFile == NO_FILE -> 0 : print(readerFile, revision[readerFile]))
#define watchedCommits (readerFile == NO_FILE -> 0 : revision[readerFile])

inline lock(mutex) { atomic { !mutex -> mutex = true } }

/* SQLiteStorage.openedStore, under both locks: OpenStore.init */
inline open() {
  do
  :: readerFile != NO_FILE -> break
  :: readerFile == NO_FILE ->
    noted = path;
    writerFile = path;
    opened = path; /* the reader's file; visible once the store is open */
#ifndef MOVED_NOT_REFUSED
    if
    :: writerFile != path -> writerFile = NO_FILE /* Connection.refuseMoved: try again */
    :: else -> openings++; readerFile = opened; opened = 0
    fi
#else
    openings++; readerFile = opened; opened = 0
#endif
  od
}

/* SQLiteStorage.checkIdentity and .letGo */
inline look() {
  lock(writing);
  lock(reading);
  if
  :: readerFile != NO_FILE && noted != path ->
    atomic {
      readerFile = NO_FILE; writerFile = NO_FILE;
#ifndef KEEPS_OWN_COMMITS
      ownPrint = 0; ownFile = 0; ownRevision = 0
#endif
    }
  :: else
  fi;
  reading = false;
  writing = false
}

/* Engine.step, SQLiteStorage.run, Engine.hasCommitted and Knowledge.goOn */
proctype Stepper() {
  byte opened, before, after, file, next, forgettingsBefore;
end:
  do
  :: look()
  :: revision[0] < LAST || revision[1] < LAST ->
    forgettingsBefore = forgettings;
    lock(writing);
    lock(reading); open(); reading = false;
    assert(writerFile == readerFile);
    file = writerFile;
    lock(isLocked[file]);
    before = watched;
    /* OwnCommits.check and StepGroup.find: the step works on the row that it remembers. */
    if
#ifdef KEEPS_OWN_COMMITS
    :: ownPrint != 0 ->
#else
    :: ownPrint != 0 && ownPrint == before ->
#endif
      assert(ownFile == file && ownRevision == revision[file])
    :: else
    fi;
    if
    :: revision[file] < LAST ->
      atomic { revision[file]++; next = revision[file]; isLocked[file] = false }
      after = print(file, next);
      atomic { ownPrint = after; ownFile = file; ownRevision = next }
      writing = false;
      atomic { /* Knowledge.learn */
#ifdef FORGETTING_NOT_COMPARED
        isKnown = true; knownFile = file; knownRevision = next
#else
        if
        :: forgettings == forgettingsBefore && (!isKnown || next >= knownRevision) ->
          isKnown = true; knownFile = file; knownRevision = next
        :: else
        fi
#endif
      }
      atomic { /* Knowledge.goOn */
        if
#ifndef GOES_ON_AFTER_FORGETTING
        :: forgettings != forgettingsBefore -> skip
        :: forgettings == forgettingsBefore && baseline + 1 == next && seen == before && before != 0 ->
          baseline = next; seen = after
#else
        :: baseline + 1 == next && seen == before && before != 0 -> baseline = next; seen = after
#endif
        :: else
        fi
      }
    :: else -> isLocked[file] = false; writing = false
    fi;
    atomic { before = 0; after = 0; file = 0; next = 0; forgettingsBefore = 0 }
  od
}

/* Engine.refresh, SQLiteStorage.changes, and Engine.known for a forgotten row. */
proctype Refresher() {
  byte opened, fingerprint, since, sinceLineage, commits, file, read, lineage, forgettingsBefore;
end:
  do
  :: look()
  :: watched != seen || seen == 0 ->
    fingerprint = watched;
    atomic { since = baseline; sinceLineage = baselineLineage }
    do
    :: commits = watchedCommits;
      lock(writing); lock(reading); open(); writing = false;
      atomic { file = readerFile; read = revision[file] }
      reading = false;
      lineage = openings;
      if :: commits == watchedCommits -> break :: else fi
    od;
    atomic {
      if
#ifndef LINEAGE_NOT_COMPARED
      :: sinceLineage != lineage || read < since -> forgettings++; isKnown = false; knownRevision = 0
#endif
      :: else ->
        if
        :: read > since && read >= knownRevision ->
          isKnown = true; knownFile = file; knownRevision = read
        :: else
        fi
      fi;
      baseline = read; baselineLineage = lineage
    }
    seen = fingerprint;
    atomic { fingerprint = 0; since = 0; sinceLineage = 0; commits = 0; lineage = 0 }
  :: watched == seen && seen != 0 && !isKnown ->
    forgettingsBefore = forgettings;
    lock(reading);
    atomic {
      if :: readerFile != NO_FILE -> file = readerFile; read = revision[file] :: else -> read = 0 fi;
      reading = false
    }
    atomic {
      if
      :: read != 0 && forgettings == forgettingsBefore && !isKnown ->
        isKnown = true; knownFile = file; knownRevision = read
      :: else
      fi;
      file = 0; read = 0; forgettingsBefore = 0
    }
  od
}

/* Breaker.permitHealthy: what permits a call belongs to the open file and is current. */
proctype Caller() {
end:
  do
  :: d_step {
      seen != 0 && watched == seen && isKnown ->
      assert(knownFile == readerFile && knownRevision == revision[readerFile])
    }
  od
}

/* Other processes, and a replacement of the file. */
proctype World() {
end:
  do
  :: atomic { revision[0] < LAST && !isLocked[0] -> revision[0]++ }
  :: atomic { revision[1] < LAST && !isLocked[1] -> revision[1]++ }
  :: atomic { path < FILES - 1 -> path++ }
  od
}

init { atomic { run Stepper(); run Refresher(); run Caller(); run World() } }
