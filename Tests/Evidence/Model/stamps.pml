/* A host whose clock is far ahead gives commands that no host could overrule. The server takes none of them; they wait
 * until the clock is set, and then go out with the stamps that they should have had.
 *
 * Two hosts give commands about one aspect. Each clock may be ahead for a while, by less than a day (fast) or by more
 * (ahead), and is right otherwise. A stamp is the time on the host's clock, or one more than the highest that the host
 * has seen. Every host hears every message once, in order.
 */

#ifndef COMMANDS
#define COMMANDS 3
#endif
#define LATEST 20   /* the highest stamp that the server takes */
#define FAST 4
#define AHEAD 40
#define bit(c) (1 << (c))

byte given;
byte today = 10;
byte givenAt[COMMANDS + 1];
byte author[COMMANDS + 1];
byte knew[COMMANDS + 1];    /* the truth: what the author's host knew */
bit isAhead[2];
bit isFast[2];
byte mishaps;

/* The stores: what each knows of the stamps, which it corrects by itself. */
byte seen[2];
byte inForce[2];
byte inForceStamp[2];
byte outbox[2];             /* commands to publish, a bit each */
typedef Stamps { byte value[COMMANDS + 1] };
Stamps stamps[2];           /* the stamps of a host's own commands */
byte met[2];
byte did[2];

/* The server: a stream, and the greatest. */
byte count;
byte entry[COMMANDS + 1];
byte entryStamp[COMMANDS + 1];
byte position[2];
byte told;                  /* the greatest */
byte toldStamp;
bit mustRead[2];
bit waits[2];               /* the server has refused what a host told */

#define isGreater(s, c, t, d) (s > t || (s == t && author[c] > author[d]))

#define isLater(c, s) (inForce[me] == 0 || isGreater(s, c, inForceStamp[me], inForce[me]))
#define isTold(c, s) (told == 0 || isGreater(s, c, toldStamp, told))
#define isRight(c) (author[c] == me && stamps[me].value[c] <= LATEST)

inline haveEffect(h, c) {
  assert(!(did[h] & bit(c)));
  for (other : 1 .. COMMANDS) {
    /* No command undoes a later one, whose author knew it. */
    assert(!((did[h] & bit(other)) && (knew[other] & bit(c))))
  }
  other = 0;
  did[h] = did[h] | bit(c)
}

active [2] proctype host() {
  byte me = _pid;
  byte other;
  byte c;

end:
  do
  :: d_step {
      given < COMMANDS ->
      given++; today++;
      givenAt[given] = today;
      author[given] = me;
      if
      :: isAhead[me] && seen[me] < AHEAD -> seen[me] = AHEAD
      :: !isAhead[me] && seen[me] < today - 1 + (isFast[me] * FAST) ->
        seen[me] = today - 1 + (isFast[me] * FAST)
      :: else
      fi;
      seen[me]++;
      stamps[me].value[given] = seen[me];
      knew[given] = met[me];
      haveEffect(me, given);
      met[me] = met[me] | bit(given);
      inForce[me] = given; inForceStamp[me] = seen[me];
      outbox[me] = outbox[me] | bit(given)
    }
  /* FleetServer.tell: in order, and up to the first that is refused. */
  :: d_step {
      outbox[me] != 0 && !waits[me] ->
      c = 1;
      do
      :: outbox[me] & bit(c) -> break
      :: else -> c++
      od;
      if
#ifndef SERVER_TAKES_ALL
      :: stamps[me].value[c] > LATEST -> waits[me] = 1
#endif
      :: stamps[me].value[c] <= LATEST && !isTold(c, stamps[me].value[c]) ->
        /* It is overtaken, so no host needs it. */
        outbox[me] = outbox[me] & ~bit(c)
      :: else ->
        told = c; toldStamp = stamps[me].value[c];
        count++; entry[count] = c; entryStamp[count] = stamps[me].value[c];
        outbox[me] = outbox[me] & ~bit(c)
      fi;
      c = 0
    }
  /* FleetLedger.heard. */
  :: d_step {
      position[me] < count ->
      position[me]++;
      c = entry[position[me]];
      met[me] = met[me] | bit(c);
      if :: entryStamp[position[me]] > seen[me] -> seen[me] = entryStamp[position[me]] :: else fi;
      if
      :: author[c] != me && isLater(c, entryStamp[position[me]]) ->
        haveEffect(me, c);
        inForce[me] = c; inForceStamp[me] = entryStamp[position[me]]
      :: else
      fi;
      c = 0
    }
  /* It reads the state again. */
  :: d_step {
      mustRead[me] ->
      mustRead[me] = 0;
      position[me] = count;
      if
      :: told != 0 && isLater(told, toldStamp) ->
        if :: did[me] & bit(told) -> did[me] = did[me] & ~bit(told) :: else fi;
        haveEffect(me, told);
        met[me] = met[me] | bit(told);
        inForce[me] = told; inForceStamp[me] = toldStamp;
        if :: toldStamp > seen[me] -> seen[me] = toldStamp :: else fi
      :: else
      fi
    }
#ifndef STAMPS_KEPT
  /* FleetCorrection, once the host's own clock is not that far ahead any more, when it has read the state. */
  :: d_step {
      !isAhead[me] && seen[me] > LATEST ->
#ifndef NOT_READ_AGAIN
      mustRead[me] = 1;
#endif
      waits[me] = 0;
      seen[me] = 0;
      if :: inForceStamp[me] <= LATEST -> seen[me] = inForceStamp[me] :: else fi;
      for (c : 1 .. given) {
        if
        :: isRight(c) && stamps[me].value[c] > seen[me] -> seen[me] = stamps[me].value[c]
        :: else
        fi
      }
      for (c : 1 .. given) {
        if
        :: author[c] == me && stamps[me].value[c] > LATEST ->
#ifdef OWN_FORGOTTEN
          outbox[me] = outbox[me] & ~bit(c)
#else
#ifndef STATE_NOT_KNOWN
          /* A command that was given before stays earlier: its author may have known it. */
          if
          :: told != 0 && told < c && toldStamp <= LATEST && seen[me] < toldStamp -> seen[me] = toldStamp
          :: else
          fi;
#endif
          seen[me]++;
          if :: seen[me] < givenAt[c] -> seen[me] = givenAt[c] :: else fi;
          stamps[me].value[c] = seen[me];
          if :: inForce[me] == c -> inForceStamp[me] = seen[me] :: else fi
#endif
        :: else
        fi
      }
#ifndef STATE_NOT_KNOWN
      /* Its next command is later than all that it has read. */
      if :: told != 0 && toldStamp <= LATEST && seen[me] < toldStamp -> seen[me] = toldStamp :: else fi;
#endif
      c = 0
    }
#endif
  :: atomic { !isAhead[me] && mishaps < 2 -> mishaps++; isAhead[me] = 1; isFast[me] = 0 }
  :: atomic { isAhead[me] -> isAhead[me] = 0 }
  :: atomic { !isAhead[me] && !isFast[me] && mishaps < 2 -> mishaps++; isFast[me] = 1 }
  :: atomic { isFast[me] -> isFast[me] = 0 }
  od
}

#define isQuiet(h) (!isAhead[h] && seen[h] <= LATEST && outbox[h] == 0 && position[h] == count && !mustRead[h])

/* Clocks are right in the end. */
active proctype referee() {
end:
  do
  :: atomic {
      given == COMMANDS && isQuiet(0) && isQuiet(1) ->
      assert(inForce[0] == inForce[1])
    }
  /* Nothing can happen any more, so nothing may wait. */
  :: timeout -> assert(outbox[0] == 0 && outbox[1] == 0)
  od
}
