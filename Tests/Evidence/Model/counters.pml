/* No decision sees fewer successes than there were, and nothing that was counted is lost.
 *
 * Three processes count successes, write failures, and are killed at any step. The page of counters
 * is deleted at any time, while processes that have it mapped continue to use the old one.
 */

#define SUCCESSES 2
#define FAILURES 2
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define NOBODY 255
#define NOWHERE 255

/* The row: its revision, its counters' key, what it has taken in of them, its window, its totals. */
byte revision = 1;
byte rowKey;
byte rowTakenIn;
byte rowSuccesses;
byte rowTotal;

/* The files of counters; the newest one is at the path. */
byte newest;
byte key[LOSSES + 1];
byte count[LOSSES + 1];
byte lastKey;

byte writer = NOBODY;
bool killed[3];
byte mapped[3]; /* CounterPage: the file that each process has mapped */

/* The truth: successes since the window of the row began, and successes in all. */
byte windows;
byte inWindow;
byte counted;
byte successes, failures, losses, crashes, ended;

/* CounterPage.ownCounters: the file that holds the counters of the row; NOWHERE if none does. */
inline find(place) {
  if
  :: rowKey != 0 && key[mapped[me]] == rowKey -> place = mapped[me]
  :: else ->
    mapped[me] = newest; /* lookAfterFile */
    if
    :: rowKey != 0 && key[newest] == rowKey -> place = newest
    :: else -> place = NOWHERE
    fi
  fi
}

/* StepGroup.run: reads the row, takes in its counters, ties them, decides, and writes the result. */
inline transact(isSuccess) {
  atomic { writer == NOBODY -> writer = me }
  /* CounterPage.takeIn: one load of the counter. */
  atomic {
    find(place);
    total = rowTotal; judged = rowSuccesses; truth = inWindow; takenIn = rowTakenIn;
    if
    :: place != NOWHERE && count[place] >= takenIn ->
      judged = judged + count[place] - takenIn;
      total = total + count[place] - takenIn;
      takenIn = count[place]
    :: place != NOWHERE && count[place] < takenIn -> place = NOWHERE
    :: place == NOWHERE
    fi
  }
  /* CounterPage.tie and .renew */
  if
  :: place == NOWHERE ->
    key[mapped[me]] = 0;
    takenIn = count[mapped[me]];
    atomic {
      lastKey++; newKey = lastKey;
      key[mapped[me]] = newKey
    }
#ifndef KEEPS_THE_WINDOW
    judged = 0;
    isNew = true
#endif
  :: else -> newKey = rowKey
  fi;
  /* TripConditions: the share of failures. All failures are written, so only successes can lack. */
  assert(isNew || judged >= truth);
  /* COMMIT */
  atomic {
    rowKey = newKey;
    rowSuccesses = judged;
    rowTotal = total;
#ifndef FORGETS_WHAT_IT_TOOK
    rowTakenIn = takenIn;
#endif
    if :: isNew -> windows++; inWindow = 0 :: else fi;
    if :: isSuccess -> rowSuccesses++; rowTotal++; inWindow++; counted++ :: else fi;
    revision++;
    writer = NOBODY;
    takenIn = 0; judged = 0; truth = 0; total = 0; newKey = 0; isNew = false; place = 0
  }
}

/* Breaker.endHealthy, and Engine.report for a success that cannot be counted. */
inline succeed() {
  /* Engine.isCurrent, or else Engine.refresh and Cell.learn */
  atomic {
    if
    :: seen != revision -> seen = revision; find(counters)
    :: else
    fi;
    window = windows
  }
  if
  :: counters != NOWHERE ->
    atomic {
      count[counters]++;
      counted++;
      if :: window == windows -> inWindow++ :: else fi
    }
  :: else -> transact(true)
  fi;
  window = 0
}

proctype Process(byte me) {
  byte seen, window, takenIn, judged, truth, total, newKey;
  byte place;
  byte counters = NOWHERE;
  bool isNew;
  do
  :: {
      do
      :: atomic { successes < SUCCESSES -> successes++ } succeed()
      :: atomic { failures < FAILURES -> failures++ } transact(false)
      :: goto over
      od
    } unless {
      atomic {
        killed[me] -> killed[me] = false; mapped[me] = newest; counters = NOWHERE; seen = 0;
        window = 0; takenIn = 0; judged = 0; truth = 0; total = 0; newKey = 0; place = 0;
        isNew = false
      }
    }
  od;
over:
  ended++
}

inline kill(process) {
  killed[process] = true;
  if :: writer == process -> writer = NOBODY :: else fi
}

/* Crashes of processes and losses of the page. */
proctype World() {
  do
  :: atomic { crashes < CRASHES -> crashes++; if :: kill(0) :: kill(1) :: kill(2) fi }
  :: atomic { losses < LOSSES -> losses++; newest++ }
  :: break
  od
}

/* When every process has ended, taking in the counters once more finds every success. */
init {
  atomic { run Process(0); run Process(1); run Process(2); run World() }
quiet:
  atomic {
    ended == 3 && writer == NOBODY;
    if
    :: losses == 0 && rowKey != 0 ->
      assert(key[0] == rowKey && rowTotal + count[0] - rowTakenIn == counted)
    :: losses == 0 && rowKey == 0 -> assert(counted == 0)
    :: losses > 0
    fi
  }
}
