#define _GNU_SOURCE
#include "benchshim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../Sources/Bindings/CSharedBreaker/sharedbreaker.h"

static int is_counting;
static _Atomic int64_t allocations;

void bs_count_allocations(int is_on) { is_counting = is_on; }

int64_t bs_allocations(void) { return atomic_load(&allocations); }

__attribute__((noinline)) void sb_counted(void (*body)(void *), void *context) {
  body(context);
  __asm__ volatile("" ::: "memory");  // so that the call is not the last thing, which would be a jump
}

void bs_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

int bs_semaphore_pairs(int64_t count) {
  int set = semget(IPC_PRIVATE, 1, 0600);
  if (set < 0) return -1;
  struct sembuf take = {0, -1, SEM_UNDO}, give = {0, 1, SEM_UNDO};
  int result = semop(set, &give, 1);
  for (int64_t round = 0; round < count && result == 0; round++)
    result = semop(set, &take, 1) || semop(set, &give, 1) ? -1 : 0;
  semctl(set, 0, IPC_RMID);
  return result;
}

int bs_flock_pairs(const char *path, int64_t count) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), result = descriptor < 0 ? -1 : 0;
  for (int64_t round = 0; round < count && result == 0; round++)
    result = flock(descriptor, LOCK_EX) || flock(descriptor, LOCK_UN) ? -1 : 0;
  if (descriptor >= 0) close(descriptor);
  return result;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// In memory that two processes share. Only the one whose turn it is writes, but for `turn` and `is_over`.
struct bs_turns {
  _Atomic uint32_t turn;
  _Atomic int32_t processes[2];
  _Atomic int is_over;
  int side;
  int was_other_asleep;
  int64_t ended_at;
  int64_t count;
  int64_t nanoseconds[BS_MOST_TURNS];
};

void bs_stay_on_one_processor(void) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
  CPU_ZERO(&one);
  for (int processor = 0; processor < CPU_SETSIZE && !CPU_COUNT(&one); processor++)
    if (CPU_ISSET(processor, &allowed)) CPU_SET(processor, &one);
  sched_setaffinity(0, sizeof one, &one);
}

bs_turns *bs_turns_open(const char *path) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return NULL;
  void *mapping = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(bs_turns)) == 0)
    mapping = mmap(NULL, sizeof(bs_turns), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return mapping == MAP_FAILED ? NULL : mapping;
}

void bs_turns_close(bs_turns *turns) { munmap(turns, sizeof(bs_turns)); }

void bs_turns_join(bs_turns *turns, int side) { atomic_store(&turns->processes[side], getpid()); }

void bs_turns_leave(bs_turns *turns) { atomic_store(&turns->is_over, 1); }

int64_t bs_turns_handed(const bs_turns *turns, const int64_t **nanoseconds) {
  *nanoseconds = turns->nanoseconds;
  return turns->count;
}

// Whether the first thread of a process sleeps, as the kernel has it.
static int is_asleep(int32_t process) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, process);
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  text[length > 0 ? length : 0] = 0;
  const char *end = strrchr(text, ')');
  return end && end[1] == ' ' && end[2] == 'S';
}

void bs_have_turn(bs_turns *turns, int side) {
  int64_t begun_at = now();
  if (turns->was_other_asleep && turns->side != side && turns->count < BS_MOST_TURNS)
    turns->nanoseconds[turns->count++] = begun_at - turns->ended_at;
  turns->side = side;
  turns->was_other_asleep = 0;
  while (!turns->was_other_asleep && !atomic_load(&turns->is_over)) {
    int32_t other = atomic_load(&turns->processes[1 - side]);
    turns->was_other_asleep = other && is_asleep(other);
  }
  turns->ended_at = now();
}

void bs_take_turns(bs_turns *turns, int side, int64_t count) {
  uint32_t own = (uint32_t)side;
  for (int64_t done = 0; done < count; done++, own += 2) {
    uint32_t turn;
    while ((turn = atomic_load(&turns->turn)) != own)
      syscall(SYS_futex, &turns->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
    bs_have_turn(turns, side);
    atomic_store(&turns->turn, own + 1);
    syscall(SYS_futex, &turns->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

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

// Loaded like a plugin, so that it is what programs in C get, and not what this program is linked to.
typedef struct library {
  sb_breaker *breaker;
  int (*enter)(sb_breaker *, sb_permit *, sb_rejection *, uint32_t);
  int (*leave)(sb_breaker *, sb_permit *, int, const sb_details *, uint32_t);
} library;

void *bs_library_open(const char *path, const char *store_path) {
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  library *opened = calloc(1, sizeof *opened);
  if (!object || !opened) return 0;
  int (*open_store)(const char *, int64_t, const sb_options *, sb_store **) = dlsym(object, "sb_open");
  int (*open_breaker)(sb_store *, const char *, int64_t, const char *, int64_t, int, sb_breaker **) =
      dlsym(object, "sb_breaker_open");
  opened->enter = dlsym(object, "sb_enter");
  opened->leave = dlsym(object, "sb_leave");
  sb_store *store = 0;
  if (!open_store || !open_breaker || !opened->enter || !opened->leave) return 0;
  if (open_store(store_path, SB_NUL, 0, &store) != SB_OK) return 0;
  int code = open_breaker(store, "c", SB_NUL, "max-failures=5", SB_NUL, SB_FAIL, &opened->breaker);
  return code == SB_OK ? opened : 0;
}

int bs_library_trip(void *pointer) {
  library *opened = pointer;
  sb_permit permit = SB_PERMIT_INIT;
  sb_details details = SB_DETAILS_INIT;
  details.open_for_ns = INT64_C(86400) * 1000000000;
  if (opened->enter(opened->breaker, &permit, 0, 0) != SB_OK) return -1;
  return opened->leave(opened->breaker, &permit, SB_FAILURE, &details, 0) == SB_OK ? 0 : -1;
}

int64_t bs_library_rejections(void *pointer, int64_t count) {
  library *opened = pointer;
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  int64_t wrong = 0;
  for (int64_t index = 0; index < count; index++) {
    wrong += opened->enter(opened->breaker, &permit, &rejection, 0) != SB_REJECTED;
    wrong += rejection.retry_after_ns <= 0;
  }
  return wrong;
}

int64_t bs_library_calls(void *pointer, int64_t count) {
  library *opened = pointer;
  sb_permit permit = SB_PERMIT_INIT;
  int64_t wrong = 0;
  for (int64_t index = 0; index < count; index++) {
    wrong += opened->enter(opened->breaker, &permit, 0, 0) != SB_OK;
    wrong += opened->leave(opened->breaker, &permit, SB_SUCCESS, 0, 0) != SB_OK;
  }
  return wrong;
}
