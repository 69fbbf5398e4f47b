// Waiting for others that may end, without looking again and again whether they have.
#pragma once
#include <pthread.h>
#include <stdint.h>

// A beacon in memory that processes share says that a thread of an owner lives. The kernel puts it out when
// the thread ends, however it ends, and wakes one of those who wait for that; also from another PID namespace.
//
// It is a robust mutex that the thread keeps, so its memory must stay mapped for as long as the thread lives:
// the C library has a list of all such mutexes of a thread, which goes through them.
typedef struct sb_beacon {
  union {
    pthread_mutex_t mutex;
    uint64_t words[6];
  } kept;
  uint64_t owner;
  // 0 as long as nobody has used it, 1 while it is being made, 2 afterwards.
  uint32_t stage;
  // The number of the file in which it was lit: in a copy of the file, it would be lit for ever.
  uint32_t file;
} sb_beacon;

// A number by which an open file is told from its copies, also where they get its inode once it is gone.
uint32_t sb_number_of_file(int descriptor);

// Lights a beacon that nobody else keeps, for as long as this thread lives. Returns whether it did.
int sb_light(sb_beacon *beacon, uint64_t owner, uint32_t file);

// Whether a thread of the owner keeps the beacon lit.
int sb_is_lit(const sb_beacon *beacon, uint64_t owner, uint32_t file);

// Takes the name of an owner from a beacon that a thread of this process keeps lit.
void sb_disown(sb_beacon *beacon, uint64_t owner);

// Gives a beacon without a name that a thread of this process keeps lit to an owner. Returns whether it is lit.
int sb_adopt(sb_beacon *beacon, uint64_t owner, uint32_t file);

// What a thread waits for besides its bell: that one of these beacons goes out.
typedef struct sb_vigil {
  int32_t count;
  // Whether there was a lit beacon more than fits in here.
  int32_t is_full;
  uint64_t owners[127];
  const sb_beacon *beacons[127];
  uint32_t seen[127];
} sb_vigil;

// Adds those of some beacons that are lit, but not those of an owner.
void sb_vigil_add(sb_vigil *vigil, const sb_beacon *beacons, int32_t count, uint64_t own, uint32_t file);

// Whether the end of an owner would end the vigil, because one of the beacons from the first of some on is lit for it.
int sb_vigil_has(const sb_vigil *vigil, int32_t first, uint64_t owner);

// Whether one of the beacons has gone out since it was added.
int sb_vigil_is_over(const sb_vigil *vigil);

// Whether the kernel can wait for several words at once, as Linux can since 5.16.
int sb_can_keep_vigil(void);

// Waits until the bell has been rung since it was `heard`, or one of the beacons goes out, or until an
// instant of CLOCK_MONOTONIC, or until the waits of this thread have to ask whether they are over. It may
// also return early. Returns whether something else than time has ended it.
int sb_await(uint64_t *bell, uint32_t heard, const sb_vigil *vigil, int64_t nanoseconds);
