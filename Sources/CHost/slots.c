#define _GNU_SOURCE
#include "slots.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

// A futex is a word of 32 bits: on every processor that this library supports, the lower half of the
// bell comes first.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bell would be the wrong half");

int sb_ring(uint64_t *bell) {
  uint32_t *word = (uint32_t *)bell;
  __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
  return syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) > 0;
}

__thread const sb_inside *sb_innermost_call;
