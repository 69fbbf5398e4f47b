// Words that several processes decide by: unlike those of the counters, all operations on them have
// one order that every processor agrees on.
#pragma once
#include <stdint.h>

// Replaces the value if it is the expected one. Returns whether it did.
static inline int sb_decide(uint64_t *address, uint64_t expected, uint64_t value) {
  return __atomic_compare_exchange_n(address, &expected, value, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

static inline uint64_t sb_see(const uint64_t *address) {
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}

// Stores a value, and returns once every other process would see it.
static inline void sb_tell(uint64_t *address, uint64_t value) {
  __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}

// Adds one, and returns the new value.
static inline uint64_t sb_next(uint64_t *address) {
  return __atomic_add_fetch(address, 1, __ATOMIC_SEQ_CST);
}

// A bell in memory that processes share: one waits for it, and any other can ring it.
static inline uint32_t sb_bell(const uint64_t *bell) {
  return __atomic_load_n((const uint32_t *)bell, __ATOMIC_SEQ_CST);
}

// Rings the bell, and wakes the thread that waits for it. A wait that has yet to begin does not begin.
void sb_ring(uint64_t *bell);

// Waits until the bell has been rung since it was `heard`, or until an instant of CLOCK_MONOTONIC, or until the
// waits of this thread have to ask whether they are over. It may also return early. Returns whether something
// else than time has ended it.
int sb_await(uint64_t *bell, uint32_t heard, int64_t nanoseconds);

// A call under a limit that a thread is inside of, and the one around it. It lies on the stack of the
// thread while the work of the call runs.
typedef struct sb_inside {
  const struct sb_inside *outer;
  uint64_t call;
} sb_inside;

extern __thread const sb_inside *sb_innermost_call;

// Where this thread remembers the innermost call that it is inside of; null there if it is inside of none.
static inline const sb_inside **sb_innermost(void) { return &sb_innermost_call; }
