/* In no interval of some length do more calls begin than the rate permits, also when it is lowered meanwhile.
 *
 * The ring has an entry for each call of the rate. A call has begun in its last one, and processes make more;
 * each reads the rate, the clock and the entries in steps of their own, and may be stopped or killed between any two. A call begins at the last reading of the
 * clock by its process (SlotBlock.beginUnderRate). An operator lowers the rate from three to two. Calls that
 * began under the earlier one still count.
 */

#ifndef USERS
#define USERS 2
#endif
#define MOST 3         /* entries of the ring */
#define INTERVAL 2     /* ticks */
#define LAST 4         /* the last tick */
#ifndef ASKS
#define ASKS 4
#endif

byte now = 1;
byte ring[MOST];       /* the instant of each entry; 0 for none */

/* RateWord. */
byte calls = MOST;
bool isNarrowed;

/* The truth: calls that have begun in each tick. */
byte begun[LAST + 2];
byte asks;             /* how often processes have asked */

#define counts(entry, time) (entry != 0 && entry <= time && time - entry < INTERVAL)
/* Also those that have begun since then. */
#define countsSince(entry, time) (entry != 0 && (entry > time || time - entry < INTERVAL))
#define foundSince(time) (countsSince(ring[0], time) + countsSince(ring[1], time) + countsSince(ring[2], time))
#define found(time) (counts(ring[0], time) + counts(ring[1], time) + counts(ring[2], time))

proctype process() {
  byte most, time, entry, index, before, at;
  bool narrows, isLater, isMine;
end:
  do
  :: d_step { asks < ASKS -> asks++; most = calls; narrows = isNarrowed };
    time = now;
    isLater = false;
    isMine = false;
#ifndef EARLIER_CALLS_NOT_COUNTED
    /* SlotBlock.turnWhileNarrowed, which reads the entries one after the other; none of them gets older by that. */
    if :: narrows -> isLater = (found(time) >= most) :: else fi;
#endif
    /* SlotBlock.claimed */
    index = 0;
    do
    :: index < most && !isLater && !isMine ->
      entry = ring[index];
#ifndef CLOCK_NOT_READ_AGAIN
      if :: entry > time -> time = now :: else fi;
#endif
      if
      :: entry == 0 || entry > time || time - entry >= INTERVAL ->
#ifdef CLAIMS_BEFORE_IT_WRITES
        isMine = true;
        before = entry;
        ring[index] = time
#else
        d_step {
          if
          :: ring[index] == entry -> before = entry; ring[index] = time; isMine = true
          :: else -> index++
          fi
        }
#endif
      :: else -> index++
      fi
    :: else -> break
    od;
    if
    :: isMine ->
      /* SlotBlock.isPrompt, for a caller that was stopped after it had read the clock. */
#ifndef LATE_CALLS_BEGIN
      do
      :: atomic { isMine && time != now ->
          if :: ring[index] == time -> ring[index] = now; time = now :: else -> isMine = false fi
        }
      :: atomic { !isMine || time == now -> at = now; break }
      od;
#else
      at = now;
#endif
      isLater = false;
#if !defined(COUNTED_ONLY_BEFORE) && !defined(EARLIER_CALLS_NOT_COUNTED)
      /* SlotBlock.isTooMany */
      isLater = (narrows && foundSince(time) > most);
#endif
      d_step {
        if
        :: !isMine
#ifndef RATE_NOT_READ_AGAIN
        :: isMine && (isLater || most != calls || narrows != isNarrowed) ->
#else
        :: isMine && isLater ->
#endif
          if :: ring[index] == time -> ring[index] = before :: else fi
#ifndef RATE_NOT_READ_AGAIN
        :: isMine && !isLater && most == calls && narrows == isNarrowed ->
#else
        :: isMine && !isLater ->
#endif
          begun[at]++;
          assert(begun[at] + begun[at - 1] <= calls && begun[at] + begun[at + 1] <= calls)
        fi
      }
    :: else
    fi;
    d_step { most = 0; time = 0; entry = 0; index = 0; before = 0; at = 0; narrows = false; isLater = false; isMine = false }
  :: break /* It is killed, or asks no more. */
  od
}

proctype clock() {
  do
  :: now < LAST -> now++
  :: else -> break
  od
}

/* SlotBlock.replaceRate, in a step of its own. */
proctype operator() {
  atomic { calls = 2; isNarrowed = true }
}

init {
  atomic {
    byte number;
    ring[MOST - 1] = now;
    begun[now] = 1;
    do
    :: number < USERS -> run process(); number++
    :: else -> break
    od;
    run clock();
    run operator()
  }
}
