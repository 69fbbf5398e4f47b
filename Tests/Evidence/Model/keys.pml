/* Hosts replace the key of their fleet in three rounds, and refuse no true command meanwhile; no forger without a key
 * commands them; and a host that joins afterwards, with the new key alone, follows the same command.
 *
 * A host has one of four sets of keys: the old one; both, and signs with the old one; both, and signs with the new
 * one; the new one. An operator gives each host the next set when all have gone through the round before, that is,
 * have connected with it. Redis keeps the greatest command with its seal, loses it once, and a forger without a key
 * writes commands of their own over it and into the stream.
 */

#ifndef COMMANDS
#define COMMANDS 2
#endif
#define HOSTS 3
#define FORGED 9   /* a command that no operator gave, with a stamp above all others */
#define NONE 0
#define OLD 1
#define NEW 2

byte given;
byte author[COMMANDS + 1];
byte stage[HOSTS];        /* 0 to 3: the keys of a host */
bit isThere[HOSTS];
bit mustConnect[HOSTS];
byte inForce[HOSTS];      /* the command in force */
byte seal[HOSTS];         /* the key that has signed it, as the host keeps it */

byte told;                /* the server's hash */
byte toldSeal;
byte news[HOSTS];         /* a message on its way to a host, with its seal */
byte newsSeal[HOSTS];
bit hasForged;
bit hasLost;

#define signs(h) (stage[h] >= 2 -> NEW : OLD)
#define accepts(h, key) \
  ((key == OLD && stage[h] < 3) || (key == NEW && stage[h] > 0))

/* A forger without a key has signed with none of them. */
#ifdef ANYBODY_COMMANDS
#define believes(h, c, key) (accepts(h, key) || key == NONE)
#else
#define believes(h, c, key) (accepts(h, key))
#endif

/* FleetAuthority.checked and FleetLedger.heard. */
inline hear(h, c, key) {
  if
  :: c != 0 && believes(h, c, key) ->
    assert(c != FORGED);
    if
    :: c > inForce[h] -> inForce[h] = c; seal[h] = key
    :: c == inForce[h] -> seal[h] = key
    :: else
    fi
  :: c != 0 && !believes(h, c, key) ->
    /* No host refuses a true command, unless the server has lost something: then it comes again. */
    assert(c == FORGED || hasLost || hasForged)
  :: else
  fi
}

#ifdef FORGERIES_OVERTAKE
#define mayReplace(h, c, key) (c > told || (c == told && toldSeal != key))
#else
#define mayReplace(h, c, key) (c > told || (c == told && toldSeal != key) || !believes(h, told, toldSeal))
#endif

/* FleetScripts.command: the hash keeps its command only if that is later, and the sender can believe it. */
inline tell(h, c, key) {
  if
  :: mayReplace(h, c, key) ->
    told = c; toldSeal = key;
    for (other : 0 .. HOSTS - 1) {
      if :: other != h && isThere[other] -> news[other] = c; newsSeal[other] = key :: else fi
    }
    other = 0
  :: else
  fi
}

active [HOSTS] proctype host() {
  byte me = _pid;
  byte other;

end:
  do
  /* At a connect it reads the hash, and then tells what it knows and the server does not. */
  :: d_step {
      mustConnect[me] ->
      mustConnect[me] = 0;
      news[me] = 0; newsSeal[me] = 0;
      hear(me, told, toldSeal);
      if
      :: inForce[me] != 0 && author[inForce[me]] == me ->
#ifdef NOT_SIGNED_AGAIN
        if :: seal[me] == NONE -> seal[me] = signs(me) :: else fi;
        tell(me, inForce[me], seal[me])
#else
        /* Its own commands it signs again. */
        seal[me] = signs(me);
        tell(me, inForce[me], seal[me])
#endif
      :: inForce[me] != 0 && author[inForce[me]] != me && accepts(me, seal[me]) ->
        if
        :: inForce[me] != told -> tell(me, inForce[me], seal[me])
        :: else
        fi
      :: else
      fi
    }
  :: d_step {
      news[me] != 0 && !mustConnect[me] ->
      hear(me, news[me], newsSeal[me]);
      news[me] = 0; newsSeal[me] = 0
    }
  /* An operator gives a command here, and the relay tells it. */
  :: d_step {
      isThere[me] && !mustConnect[me] && news[me] == 0 && given < COMMANDS ->
      given++;
      author[given] = me;
      inForce[me] = given;
      seal[me] = signs(me);
      tell(me, given, seal[me])
    }
  od
}

#define hasGoneThrough(h, s) (stage[h] >= s && !mustConnect[h])

active proctype rotation() {
  byte h;
end:
  do
  :: d_step {
      !isThere[0] -> isThere[0] = 1; isThere[1] = 1
    }
#ifdef ONE_ROUND
  :: atomic {
      isThere[0] -> if :: h = 0 :: h = 1 fi;
      if :: stage[h] == 0 -> stage[h] = 3; mustConnect[h] = 1 :: else fi; h = 0
    }
#else
  :: atomic {
      isThere[0] -> if :: h = 0 :: h = 1 fi;
      if
#ifdef ROUNDS_OVERLAP
      :: stage[h] < 3 ->
#else
      :: stage[h] < 3 && hasGoneThrough(0, stage[h]) && hasGoneThrough(1, stage[h]) ->
#endif
        stage[h]++; mustConnect[h] = 1
      :: else
      fi;
      h = 0
    }
#endif
  /* A host that never had the old key. */
  :: d_step {
      !isThere[2] && hasGoneThrough(0, 3) && hasGoneThrough(1, 3) ->
      isThere[2] = 1; stage[2] = 3; mustConnect[2] = 1
    }
  od
}

active proctype mishaps() {
  byte h;
end:
  do
  /* A forger that can write to the server can keep messages from hosts, until these connect again. */
  :: d_step {
      isThere[0] && !hasForged ->
      hasForged = 1; told = FORGED; toldSeal = NONE;
      for (h : 0 .. HOSTS - 1) {
        if
        :: isThere[h] ->
          mustConnect[h] = 1;
          if :: news[h] == 0 -> news[h] = FORGED; newsSeal[h] = NONE :: else fi
        :: else
        fi
      }
      h = 0
    }
  /* FLUSHALL: relays notice, and connect again. */
  :: d_step {
      isThere[0] && !hasLost ->
      hasLost = 1; told = 0; toldSeal = NONE;
      for (h : 0 .. HOSTS - 1) {
        if :: isThere[h] -> mustConnect[h] = 1 :: else fi
      }
      h = 0
    }
  od
}

#define isQuiet(h) (isThere[h] && !mustConnect[h] && news[h] == 0)

active proctype referee() {
end:
  do
  :: atomic {
      isQuiet(0) && isQuiet(1) && (!isThere[2] || isQuiet(2)) ->
      assert(inForce[0] == given && inForce[1] == given);
      assert(!isThere[2] || inForce[2] == given)
    }
  od
}
