/* What a decision is judged by is never worse than the truth, and nothing counted gets lost.
 *
 * Three processes count successes, write failures, are killed at any step; the page of counters is
 * deleted at any time, while those who have it mapped go on in the old one.
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

/* The row: its revision, the key of its counters, what it took in, its window and its totals. */
byte revision = 1;
byte rowKey;
byte rowTakenIn;
byte rowSuccesses;
byte rowTotal;

/* The files of counters, of which the newest lies at the path. */
byte newest;
byte key[LOSSES + 1];
byte count[LOSSES + 1];
byte lastKey;

byte writer = NOBODY;
bool killed[3];
byte mapped[3]; /* CounterPage: the file that each process has mapped */

/* What is true, to judge by: successes since the window of the row began, and in all. */
byte windows;
byte inWindow;
byte counted;
byte successes, failures, losses, crashes, ended;

/* CounterPage.ownCounters: the file that holds the counters of the row, if there is any. */
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

/* StepGroup.run: reads the row, takes in, ties, decides, and writes what came of it. */
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
  /* TripConditions: the share of failures, of which all are written here. */
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

/* Breaker.endHealthy, and Engine.report for what cannot be counted. */
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

/* What happens to processes and to the page. */
proctype World() {
  do
  :: atomic { crashes < CRASHES -> crashes++; if :: kill(0) :: kill(1) :: kill(2) fi }
  :: atomic { losses < LOSSES -> losses++; newest++ }
  :: break
  od
}

/* When all is quiet, one more look takes in the rest. */
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
