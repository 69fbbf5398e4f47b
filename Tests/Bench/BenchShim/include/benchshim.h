// Parts of the benchmark that cannot be written in Swift.
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

// Two processes that have a turn one after the other, in a file that both map. A turn ends once the other
// process sleeps, so the process that hands it over has to wake the other one.
typedef struct bs_turns bs_turns;
enum { BS_MOST_TURNS = 65536 };

// Keeps this thread on the first of its processors. How long a sleeping processor takes to wake is up to the
// machine, and the scheduler decides each time whether one has to.
void bs_stay_on_one_processor(void);

// Maps the file, which is made if it is missing. Returns NULL if that fails.
bs_turns *bs_turns_open(const char *path);
void bs_turns_close(bs_turns *turns);

// Takes part as one of the sides, 0 and 1, with the first thread of this process; and lets the other side go
// on alone.
void bs_turns_join(bs_turns *turns, int side);
void bs_turns_leave(bs_turns *turns);

// Has a turn. Only one of the two sides may do so at a time.
void bs_have_turn(bs_turns *turns, int side);

// Has a number of turns, which are handed over by nothing but a futex.
void bs_take_turns(bs_turns *turns, int side, int64_t count);

// How many turns were handed over to a side that slept, and how many nanoseconds lie between the end of each
// and the beginning of the next.
int64_t bs_turns_handed(const bs_turns *turns, const int64_t **nanoseconds);

// Has this process killed when the one that started it ends.
void bs_end_with_parent(void);

// Runs a body. It is a function of its own, and its name a symbol, because scripts/budgets lets callgrind count
// the instructions of the body.
void sb_counted(void (*body)(void *), void *context);
