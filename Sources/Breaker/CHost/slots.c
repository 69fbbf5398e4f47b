#define _GNU_SOURCE
#include "slots.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "waiting.h"

// A futex is a word of 32 bits: on every processor that this library supports, the lower half of the
// bell comes first.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bell would be the wrong half");

void sb_ring(uint64_t *bell) {
  uint32_t *word = (uint32_t *)bell;
  __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

// The longest sleep between two questions. A signal that the thread handles ends a sleep at once.
enum { interruptible_for = 20000000 };

int sb_await(uint64_t *bell, uint32_t heard, int64_t nanoseconds) {
  int64_t end = sb_next_question_within(nanoseconds, interruptible_for);
  if (end < 0) end = 0;
  struct timespec time = {end / 1000000000, end % 1000000000};
  struct timespec *until = end == INT64_MAX ? NULL : &time;
  long code = syscall(SYS_futex, (uint32_t *)bell, FUTEX_WAIT_BITSET, heard, until, NULL, FUTEX_BITSET_MATCH_ANY);
  return code == 0 || errno != ETIMEDOUT;
}

__thread const sb_inside *sb_innermost_call;
