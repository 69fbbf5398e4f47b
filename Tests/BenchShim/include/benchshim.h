// What the benchmark needs and Swift cannot say.
#pragma once

#include <stdint.h>

// Starts (1) or stops (0) counting what this program and its libraries allocate.
void bs_count_allocations(int is_on);

// How often memory has been asked for while that was counted.
int64_t bs_allocations(void);

// Opens a breaker of a store of its own through the C library of a path. Returns what bs_library_calls()
// takes, or NULL.
void *bs_library_open(const char *library, const char *store);

// Makes healthy calls through the C library. Returns how many of them went wrong.
int64_t bs_library_calls(void *opened, int64_t count);

// Opens the breaker for a day. Returns 0 if that worked.
int bs_library_trip(void *opened);

// Makes calls that the breaker rejects. Returns how many of them went wrong.
int64_t bs_library_rejections(void *opened, int64_t count);

// Takes a System V semaphore and gives it back, with undo, a number of times. Returns 0 if that worked.
int bs_semaphore_pairs(int64_t count);

// Takes a lock of flock(2) and gives it back a number of times. Returns 0 if that worked.
int bs_flock_pairs(const char *path, int64_t count);

// Lets two threads wake each other in turn, a number of times in all. Returns how many nanoseconds lie
// between their turns.
double bs_futex_hand_overs(int64_t count);

// Two threads that have a turn one after the other, and how long it takes from the end of the one's to the
// beginning of the other's.
typedef struct bs_turns {
  int64_t ended_at, nanoseconds, count;
  int side;
} bs_turns;

// Has a turn, which lasts until the other side sleeps: only one of the two may do so at a time.
void bs_have_turn(bs_turns *turns, int side);

// Has this process killed when the one that started it ends.
void bs_end_with_parent(void);
