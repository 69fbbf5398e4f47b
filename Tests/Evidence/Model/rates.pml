/* In no interval of some length do more calls begin than the rate permits, also when it is lowered meanwhile.
 *
 * The ring has an entry for each call of the rate. A call has begun in its last one, and processes make more; each reads the rate, the clock and
 * the entries in steps of their own, and may be stopped or killed between any two. A call has begun when its process
 * has found that it is not late (SlotBlock.beginUnderRate). An operator lowers the rate from three to two. Calls that
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
byte begun[LAST + 1];
byte asks;             /* how often processes have asked */

#define counts(entry, time) (entry != 0 && entry <= time && time - entry < INTERVAL)
#define found(time) (counts(ring[0], time) + counts(ring[1], time) + counts(ring[2], time))

/* The interval that ends now. */
#define recent (begun[now] + begun[now - 1])

proctype process() {
  byte most, time, entry, index, before;
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
#if !defined(COUNTED_ONLY_BEFORE) && !defined(EARLIER_CALLS_NOT_COUNTED)
      /* SlotBlock.isTooMany */
      if
      :: narrows && found(time) > most -> d_step {
          if :: ring[index] == time -> ring[index] = before :: else fi;
          isMine = false
        }
      :: else
      fi;
#endif
      d_step {
        if
        :: !isMine
#ifndef RATE_NOT_READ_AGAIN
        :: isMine && (most != calls || narrows != isNarrowed) ->
          if :: ring[index] == time -> ring[index] = before :: else fi
#endif
#ifdef LATE_CALLS_BEGIN
        :: isMine && most == calls && narrows == isNarrowed ->
#else
        /* It is late, and asks again. */
        :: isMine && now != time
#ifdef RATE_NOT_READ_AGAIN
        :: isMine && now == time ->
#else
        :: isMine && now == time && most == calls && narrows == isNarrowed ->
#endif
#endif
          begun[now]++;
          assert(recent <= calls)
        fi
      }
    :: else
    fi;
    d_step { most = 0; time = 0; entry = 0; index = 0; before = 0; narrows = false; isLater = false; isMine = false }
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
