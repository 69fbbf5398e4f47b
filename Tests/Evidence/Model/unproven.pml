/* What is not proven is absent: a writer to the server that has no key makes no host count as having carried out a
 * command that it does not know, and takes no command away for longer than until a relay that knows it looks again.
 *
 * Host 0 gives commands, each about a breaker of its own, and a client there waits for them. The other hosts follow.
 * Redis keeps the commands, the marks of the hosts, a list of hosts, and numbers. A writer changes all of it at any
 * moment, until it ends: it takes commands away, forges them, or cuts the operator's signature from them; it puts
 * earlier marks back, takes hosts off the list, and sets numbers.
 */

#ifndef COMMANDS
#define COMMANDS 2
#endif
#define HOSTS 3
#define ALL 7
#define bit(c) (1 << (c))

/* What is in the place of a command. */
#define NOTHING 0
#define RIGHT 1
#define FORGED 2
#define CUT 3

byte given;
byte kept[COMMANDS + 1];
byte number[COMMANDS + 1];
byte count;

/* The stores of the hosts: the commands that they know. */
byte knows[HOSTS];

/* The marks, each with the commands that its host has dealt with, and the number up to which it has read. */
byte mark[HOSTS];
byte earlier[HOSTS];
byte upTo[HOSTS];

byte listed;      /* the hosts on the server's list */
byte remembered;  /* the hosts that the relay of host 0 remembers */
byte present = 1; /* the truth: which hosts have been there */
byte awaited[COMMANDS + 1];

bit hasEnded;     /* the writer */
byte actions;
byte looked;      /* the hosts that have looked since */

/* FleetSession.look and CommandWay.judge. */
inline look(h) {
  for (c : 1 .. given) {
    if
    :: kept[c] == RIGHT -> knows[h] = knows[h] | bit(c)
#ifdef CUT_IS_KEPT
    /* It seems to be the same command, and hosts refuse it. */
    :: kept[c] == CUT -> skip
    :: kept[c] != RIGHT && kept[c] != CUT && (knows[h] & bit(c)) -> kept[c] = RIGHT
#else
    :: kept[c] != RIGHT && (knows[h] & bit(c)) -> kept[c] = RIGHT
#endif
    :: else
    fi
  }
  c = 0
}

active proctype relays() {
  byte c;
  byte h;
end:
  do
  :: d_step {
      !hasEnded && given < COMMANDS && present == ALL ->
      given++; count++;
      knows[0] = knows[0] | bit(given);
      kept[given] = RIGHT; number[given] = count;
      awaited[given] = present
    }
  /* A beat, and what the relay of host 0 learns from it. */
  :: d_step {
      (present != ALL) -> h = (present & 2 -> 2 : 1);
      present = present | bit(h);
      listed = listed | bit(h);
      remembered = remembered | bit(h);
      h = 0
    }
  :: atomic {
      if :: h = 0 :: h = 1 :: h = 2 fi;
      d_step {
        if
        :: present & bit(h) ->
          earlier[h] = mark[h];
          mark[h] = knows[h]; upTo[h] = count; listed = listed | bit(h)
        :: else
        fi;
        h = 0
      }
    }
  /* Once a minute. */
  :: atomic {
      if :: h = 0 :: h = 1 :: h = 2 fi;
      d_step {
        if
        :: present & bit(h) ->
          look(h);
          /* Host 0, which may be the only one that knows a command, looks, and then the others. */
          if :: hasEnded && (h == 0 || (looked & 1)) -> looked = looked | bit(h) :: else fi
        :: else
        fi;
        h = 0
      }
    }
  od
}

active proctype writer() {
  byte c;
  byte h;
end:
  do
  :: d_step { !hasEnded -> hasEnded = 1 }
  :: atomic {
      !hasEnded && actions < 3 && given > 0 ->
      actions++;
      if :: c = 1 :: given > 1 -> c = 2 fi;
      if
      :: kept[c] = NOTHING
      :: kept[c] = FORGED
      :: kept[c] == RIGHT -> kept[c] = CUT
      :: number[c] = 0
      fi;
      c = 0
    }
  :: atomic {
      !hasEnded && actions < 3 ->
      actions++;
      if :: h = 1 :: h = 2 fi;
      if
      :: mark[h] = earlier[h]
      :: mark[h] = 0
      :: listed = listed & ~bit(h)
      fi;
      h = 0
    }
  od
}

/* HostRoll. */
#ifdef LIST_OF_THE_SERVER
#define isAsked(h) (listed & bit(h))
#else
#define isAsked(h) (remembered & bit(h))
#endif

/* FleetReading.standing. */
#ifdef NUMBERS_DECIDE
#define hasConfirmed(h, c) (upTo[h] >= number[c])
#else
#define hasConfirmed(h, c) (mark[h] & bit(c))
#endif

active proctype referee() {
  byte c;
end:
  do
  /* The client is told that all hosts have confirmed a command. */
  :: d_step {
      for (c : 1 .. given) {
        if
        :: (!isAsked(1) || hasConfirmed(1, c)) && (!isAsked(2) || hasConfirmed(2, c)) ->
          assert(!(awaited[c] & 2) || (knows[1] & bit(c)));
          assert(!(awaited[c] & 4) || (knows[2] & bit(c)))
        :: else
        fi
      }
      c = 0
    }
  /* The writer has ended, and each host has looked. */
  :: d_step {
      looked == ALL ->
      for (c : 1 .. given) {
        assert((knows[1] & bit(c)) && (knows[2] & bit(c)))
      }
      c = 0
    }
  od
}
