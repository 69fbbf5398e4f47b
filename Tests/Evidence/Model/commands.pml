/* Each command of an operator has its effect once on every host, and all hosts agree in the end.
 *
 * Two hosts have a store each, with a register that says which command is in force. Operators give commands on
 * either host. A relay for each host publishes them and applies those of the other host. Redis keeps a stream
 * of commands and the greatest of them, and has one mishap: it loses everything, the start of its stream, or
 * the end of it with the state that belongs to that end. A relay is killed at any step, and a transaction of a
 * store fails at any step.
 *
 * The model has one breaker and one aspect of it; others have registers of their own.
 *
 * With CONFIRMS, relays also tell which commands their hosts have dealt with, and an operator may take back a command
 * that waits. An observer that reads then that a host has confirmed a command is not deceived.
 */

#ifndef COMMANDS
#define COMMANDS 2
#endif
#ifndef MISHAPS
#define MISHAPS 2
#endif
#define ENTRIES 10
#define TRIMMED 255
#define bit(c) (1 << (c))

/* The contents of a command. Command 0 is none. */
byte stamp[COMMANDS + 1];
byte author[COMMANDS + 1];
byte given;
/* The truth: what the author's host knew when the command was given. */
byte knew[COMMANDS + 1];

#ifdef STAMPS_ALONE
#define isGreater(a, b) (stamp[a] > stamp[b])
#else
#define isGreater(a, b) (stamp[a] > stamp[b] || (stamp[a] == stamp[b] && author[a] > author[b]))
#endif

/* The stores of the hosts: they survive every kill. */
byte seen[2];     /* the highest stamp */
byte inForce[2]; /* the command in force */
byte outbox[2];   /* commands to publish, a bit each */
byte position[2];
byte known[2];    /* the epoch of that position */
/* The truth: which commands had their effect on a host, and which ones it has seen. */
byte did[2];
byte met[2];

/* Redis. */
byte epoch;
byte lastEpoch;
byte count;
byte entry[ENTRIES];
byte told; /* the hash of commands: the greatest */
bit isBroken[2]; /* the connection of a host */

bit hasLost;
byte mishaps;

#ifdef CONFIRMS
/* The commands that each host says to have dealt with, in its mark. */
byte heard[2];
/* The relay has to read the state again: 1 until it begins to, and 2 until it has taken it over. */
byte mustRead[2];
bit hasWithdrawn;
#endif

/* FleetLedger. */
inline haveEffect(c) {
  assert(!(did[me] & bit(c)));
  /* No command undoes a later one, whose author knew it. */
  for (other : 1 .. COMMANDS) {
    assert(!((did[me] & bit(other)) && (knew[other] & bit(c))))
  }
  other = 0;
  did[me] = did[me] | bit(c)
}
inline meet(c) {
  met[me] = met[me] | bit(c);
#ifndef STAMP_NOT_RAISED
  if :: stamp[c] > seen[me] -> seen[me] = stamp[c] :: else fi
#endif
}
inline apply(c) {
  if
  :: c != 0 && isGreater(c, inForce[me]) ->
    haveEffect(c); meet(c); inForce[me] = c;
#ifdef ECHOES
    outbox[me] = outbox[me] | bit(c)
#endif
  :: c != 0 && !isGreater(c, inForce[me]) -> meet(c)
  :: else
  fi
}

/* The script that Redis runs as one step. */
inline tell(c) {
  count++;
  assert(count < ENTRIES);
  entry[count] = c;
  if :: isGreater(c, told) -> told = c :: else fi
}

active proctype operators() {
  byte me;
  byte other;
end:
  do
  :: atomic {
      given < COMMANDS ->
      if :: me = 0 :: me = 1 fi;
      given++;
      /* Breaker.force with the scope of the fleet: one transaction. The wall clock may make the stamp
         greater still, which orders commands that do not know each other, and no others. */
      seen[me]++;
      stamp[given] = seen[me];
      author[given] = me;
      knew[given] = met[me];
      haveEffect(given);
      met[me] = met[me] | bit(given);
      inForce[me] = given;
      outbox[me] = outbox[me] | bit(given);
      me = 0
    }
#ifdef CONFIRMS
  /* WriteTransaction.withdraw: one transaction. A command that has had its effect may have it again. */
  :: atomic {
      !hasWithdrawn && mishaps < MISHAPS ->
      if :: me = 0 :: me = 1 fi;
      if
      :: outbox[me] & bit(inForce[me]) && inForce[me] != 0 ->
        mishaps++; hasWithdrawn = 1;
        outbox[me] = outbox[me] & ~bit(inForce[me]);
        inForce[me] = 0;
        did[me] = 0;
#ifndef WITHDRAWS_ALONE
        mustRead[me] = 1
#endif
      :: else
      fi;
      me = 0
    }
#endif
  od
}

#ifdef CONFIRMS
/* A beat. */
inline confirm(h, commands) { heard[h] = commands }
#endif

/* A kill is a step of the relay itself, where it would have gone on. */
#define mayDie :: atomic { mishaps < MISHAPS -> mishaps++; goto begin }
#define mayFail :: atomic { mishaps < MISHAPS -> mishaps++; goto next }

active [2] proctype relay() {
  byte me = _pid - 1;
  byte other;
  byte hand;
  byte handCount;
  byte handEpoch;

begin:
  atomic {
    hand = 0; handCount = 0; handEpoch = 0;
    isBroken[me] = 0;
    /* It reads the state at every connect. */
#ifdef TRUSTS_ITS_POSITION
    if
    :: known[me] != 0 && known[me] == epoch && position[me] <= count -> goto next
    :: else
    fi;
#endif
  }
resync:
  atomic {
#ifdef CONFIRMS
    if :: mustRead[me] -> mustRead[me] = 2 :: else fi;
#endif
    if :: epoch == 0 -> lastEpoch++; epoch = lastEpoch :: else fi;
    hand = told; handCount = count; handEpoch = epoch
  }
  if
  mayDie
  :: d_step {
      apply(hand);
      position[me] = handCount; known[me] = handEpoch;
#ifdef CONFIRMS
      if :: mustRead[me] == 2 -> mustRead[me] = 0 :: else fi;
#endif
      hand = 0; handCount = 0; handEpoch = 0
    }
  fi;
  /* Commands that this host knows and Redis does not. */
  if
  mayDie
  :: atomic { isBroken[me] -> goto begin }
  :: d_step {
      !isBroken[me] ->
      if
      :: isGreater(inForce[me], told) ->
#ifdef TELLS_WITHOUT_AN_ENTRY
        told = inForce[me]
#else
        tell(inForce[me])
#endif
      :: else
      fi
    }
  fi;

next:
  hand = 0;
  handCount = 0;
endOfNews:
  do
  mayDie
  :: atomic { isBroken[me] -> goto begin }
#ifndef EPOCH_NOT_COMPARED
  :: atomic { !isBroken[me] && epoch != known[me] -> goto resync }
#endif
#ifdef CONFIRMS
  :: atomic { !isBroken[me] && mustRead[me] -> goto resync }
  :: d_step { (!isBroken[me] && heard[me] != met[me]) -> confirm(me, met[me]) }
#endif

  :: atomic {
      !isBroken[me] && outbox[me] != 0 ->
      hand = 1;
      do
      :: outbox[me] & bit(hand) -> break
      :: else -> hand++
      od;
      /* A relay's own changes are no news. */
      assert(author[hand] == me)
    }
    if
    mayDie
    :: atomic { isBroken[me] -> goto begin }
    :: d_step { !isBroken[me] -> tell(hand) }
    fi;
    if
    mayDie
    mayFail
    :: atomic { outbox[me] = outbox[me] & ~bit(hand); hand = 0 }
    fi

  :: atomic {
      !isBroken[me] && count > position[me] ->
      handCount = position[me] + 1;
      hand = entry[handCount];
#ifndef GAPS_NOT_SEEN
      if :: hand == TRIMMED -> goto resync :: else fi
#else
      if :: hand == TRIMMED -> hand = 0 :: else fi
#endif
    }
#ifdef POSITION_BEFORE_EFFECT
    position[me] = handCount;
#endif
#ifdef CONFIRMS_BEFORE_EFFECT
    d_step {
      if :: !isBroken[me] && hand != 0 -> confirm(me, heard[me] | bit(hand)) :: else fi
    };
#endif
    if
    mayDie
    mayFail
#ifdef REGISTER_AFTER_EFFECT
    :: atomic {
        if
        :: hand != 0 && isGreater(hand, inForce[me]) -> haveEffect(hand)
        :: else
        fi
      }
      if
      mayDie
      mayFail
      :: d_step {
          if
          :: hand != 0 && isGreater(hand, inForce[me]) -> inForce[me] = hand
          :: else
          fi;
          if :: hand != 0 -> meet(hand) :: else fi;
          position[me] = handCount
        }
      fi
#else
    :: d_step { apply(hand); position[me] = handCount }
#endif
    fi;
    atomic { hand = 0; handCount = 0 }
  od
}

#define mayLose (!hasLost && count > 0 && mishaps < MISHAPS)

active proctype losses() {
  byte i;
  byte kept;
end:
  do
  /* FLUSHALL: connections stay. */
  :: d_step {
      mayLose ->
      hasLost = 1; mishaps++;
      for (i : 1 .. ENTRIES - 1) { entry[i] = 0 }
      i = 0;
#ifdef CONFIRMS
      heard[0] = 0; heard[1] = 0;
#endif
      count = 0; told = 0; epoch = 0
    }
  /* XADD with MAXLEN. */
  :: d_step {
      mayLose ->
      hasLost = 1; mishaps++;
      for (i : 1 .. count) { entry[i] = TRIMMED }
      i = 0
    }
  /* A failover to a replica that was behind. */
  :: atomic {
      mayLose ->
      hasLost = 1; mishaps++;
      select(kept : 0 .. count - 1);
      d_step {
        told = 0;
        for (i : 1 .. ENTRIES - 1) {
          if
          :: i > kept -> entry[i] = 0
          :: i <= kept && isGreater(entry[i], told) -> told = entry[i]
          :: else
          fi
        }
        i = 0;
        count = kept; kept = 0;
        isBroken[0] = 1; isBroken[1] = 1
      }
    }
  od
}

/* Nothing is under way: both relays wait for news at the end of the stream. */
#ifdef CONFIRMS
#define isSettled(h) (!mustRead[h])
#else
#define isSettled(h) 1
#endif
#define isQuiet(h) (relay[h + 1]@endOfNews && outbox[h] == 0 && !isBroken[h] && hasRead(h) && isSettled(h))
#define hasRead(h) (position[h] >= count && isOfEpoch(h))
#ifdef EPOCH_NOT_COMPARED
#define isOfEpoch(h) (known[h] != 0)
#else
#define isOfEpoch(h) (known[h] == epoch)
#endif

#ifdef CONFIRMS
/* An observer's conclusion: the author carries a command out at once, and a host that has withdrawn a later one
   has yet to take over the command that it overruled. */
#define hasConfirmed(h, e) \
  (author[entry[e]] != h && (heard[h] & bit(entry[e])) && !mustRead[h])
#endif

active proctype referee() {
  byte c;
end:
  do
  :: atomic {
      isQuiet(0) && isQuiet(1) ->
      assert(inForce[0] == inForce[1]);
      for (c : 1 .. given) {
#ifdef CONFIRMS
        /* One that was withdrawn in time is not in force anywhere. */
        assert(hasWithdrawn || !isGreater(c, inForce[0]))
#else
        assert(!isGreater(c, inForce[0]));
        /* The host that gave it had its effect at once; another one had it, or a greater one. */
        assert(did[author[c]] & bit(c))
#endif
      }
      c = 0
    }
#ifdef CONFIRMS
  /* A host that counts as having carried out a command has it in force, or a greater one. A host that
     withdraws its own later command reads the state again before it says anything. */
  :: d_step {
      for (c : 1 .. count) {
        if
        :: entry[c] != 0 && entry[c] != TRIMMED && epoch != 0 ->
          assert(!hasConfirmed(0, c) || !isGreater(entry[c], inForce[0]));
          assert(!hasConfirmed(1, c) || !isGreater(entry[c], inForce[1]))
        :: else
        fi
      }
      c = 0
    }
#endif
  od
}
