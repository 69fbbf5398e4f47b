#define _GNU_SOURCE
#include "benchshim.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>

static int is_counting;
static _Atomic int64_t allocations;

void bs_count_allocations(int is_on) { is_counting = is_on; }

int64_t bs_allocations(void) { return atomic_load(&allocations); }

void bs_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

// A sanitizer has put its own allocator in this place, and its two halves must stay together.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

static void count(void) {
  // Everything else that this program measures pays for one branch, not for an atomic addition.
  if (__builtin_expect(is_counting, 0)) atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

// A program's own functions of these names take the place of glibc's in all of its libraries
// (glibc manual, "Replacing malloc"); glibc's are still to be had under other names.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
  count();
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *made = memalign(alignment, size);
  if (!made) return ENOMEM;
  *memory = made;
  return 0;
}

void free(void *memory) { __libc_free(memory); }

#endif
