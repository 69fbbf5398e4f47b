#define _GNU_SOURCE
#include "beacons.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "slots.h"
#include "waiting.h"

_Static_assert(sizeof(sb_beacon) == 64, "a beacon would not be a line");
_Static_assert(sizeof(pthread_mutex_t) <= sizeof(((sb_beacon *)0)->kept.words), "a beacon would be too short");

enum { stage_made = 2 };

// The word of a mutex that the kernel knows (robust-futex-ABI in its documentation): the thread that has it,
// whether it has ended, and whether anybody is to be woken then.
static uint32_t word_of(const sb_beacon *beacon) {
  return __atomic_load_n((const uint32_t *)&beacon->kept.mutex, __ATOMIC_SEQ_CST);
}

// Also whether the kernel would wake somebody: it would not in the moment before the mark is set.
static int is_lit(uint32_t word) {
  return word & FUTEX_TID_MASK && word & FUTEX_WAITERS && !(word & FUTEX_OWNER_DIED);
}

// Whether the kernel knows the list of this thread's mutexes; an emulator may not pass it on.
static int has_list(void) {
  void *head = NULL;
  size_t length = 0;
  return syscall(SYS_get_robust_list, 0, &head, &length) == 0 && head;
}

static int make(sb_beacon *beacon) {
  pthread_mutexattr_t kind;
  if (pthread_mutexattr_init(&kind)) return 0;
  int is_made = !pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) &&
                !pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) &&
                !pthread_mutex_init(&beacon->kept.mutex, &kind);
  pthread_mutexattr_destroy(&kind);
  return is_made;
}

uint32_t sb_number_of_file(int descriptor) {
  struct statx found;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found)) return 0;
  // Not every file system knows when a file was made.
  if (!(found.stx_mask & STATX_BTIME)) found.stx_btime.tv_sec = found.stx_btime.tv_nsec = 0;
  const uint64_t parts[] = {found.stx_ino, found.stx_dev_major, found.stx_dev_minor,
                            (uint64_t)found.stx_btime.tv_sec, found.stx_btime.tv_nsec};
  uint64_t number = 0;
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) number = (number ^ parts[i]) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(number >> 32);
}

int sb_light(sb_beacon *beacon, uint64_t owner, uint32_t file) {
  if (!has_list()) return 0;
  uint32_t stage = 0;
  // If its maker is killed meanwhile, it is never used.
  if (__atomic_compare_exchange_n(&beacon->stage, &stage, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    if (!make(beacon)) {
      __atomic_store_n(&beacon->stage, 0, __ATOMIC_SEQ_CST);
      return 0;
    }
    __atomic_store_n(&beacon->stage, stage_made, __ATOMIC_SEQ_CST);
  } else if (stage != stage_made) {
    return 0;
  }
  int code = pthread_mutex_trylock(&beacon->kept.mutex);
  if (code == EOWNERDEAD) {
    // Dark for a moment: otherwise it would be lit in the name of the one that has ended.
    pthread_mutex_consistent(&beacon->kept.mutex);
    __atomic_store_n(&beacon->owner, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&beacon->kept.mutex);
    code = pthread_mutex_trylock(&beacon->kept.mutex);
  }
  if (code) return 0;
  // In damaged memory it may have become a mutex of which the kernel knows nothing.
  int is_known = (word_of(beacon) & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid);
  __atomic_store_n(&beacon->file, file, __ATOMIC_SEQ_CST);
  __atomic_store_n(&beacon->owner, is_known ? owner : 0, __ATOMIC_SEQ_CST);
  if (!is_known) return 0;
  __atomic_fetch_or((uint32_t *)&beacon->kept.mutex, FUTEX_WAITERS, __ATOMIC_SEQ_CST);
  return 1;
}

// The owner for which it was lit in a file; 0 if there is none.
static uint64_t owner_of(const sb_beacon *beacon, uint32_t file) {
  uint64_t owner = __atomic_load_n(&beacon->owner, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&beacon->file, __ATOMIC_SEQ_CST) == file ? owner : 0;
}

int sb_is_lit(const sb_beacon *beacon, uint64_t owner, uint32_t file) {
  return is_lit(word_of(beacon)) && owner_of(beacon, file) == owner;
}

void sb_disown(sb_beacon *beacon, uint64_t owner) {
  __atomic_compare_exchange_n(&beacon->owner, &owner, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int sb_adopt(sb_beacon *beacon, uint64_t owner, uint32_t file) {
  uint64_t nobody = 0;
  if (!is_lit(word_of(beacon))) return 0;
  __atomic_compare_exchange_n(&beacon->owner, &nobody, owner, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return sb_is_lit(beacon, owner, file);
}

void sb_vigil_add(sb_vigil *vigil, const sb_beacon *beacons, int32_t count, uint64_t own, uint32_t file) {
  enum { most = sizeof vigil->owners / sizeof *vigil->owners };
  for (const sb_beacon *beacon = beacons; beacon < beacons + count; beacon++) {
    uint32_t word = word_of(beacon);
    if (!is_lit(word)) continue;
    uint64_t owner = owner_of(beacon, file);
    if (!owner || owner == own) continue;
    if (vigil->count == most) {
      vigil->is_full = 1;
      return;
    }
    vigil->owners[vigil->count] = owner;
    vigil->beacons[vigil->count] = beacon;
    vigil->seen[vigil->count++] = word;
  }
}

int sb_vigil_has(const sb_vigil *vigil, int32_t first, uint64_t owner) {
  for (int32_t i = first; i < vigil->count; i++)
    if (vigil->owners[i] == owner) return 1;
  return 0;
}

int sb_vigil_is_over(const sb_vigil *vigil) {
  for (int32_t i = 0; i < vigil->count; i++)
    if (word_of(vigil->beacons[i]) != vigil->seen[i]) return 1;
  return 0;
}

// The longest sleep between two questions. A signal that the thread handles ends a sleep at once.
enum { interruptible_for = 20000000 };

// futex_waitv(2) is younger than the headers of some systems that the library is built on.
enum { number_of_futex_waitv = 449, word_of_32_bits = 2 };
typedef struct {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t unused;
} awaited_word;

// 0 as long as nobody has asked.
static int answer;

int sb_can_keep_vigil(void) {
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known) return known > 0;
  // Waiting for nothing is an error for a kernel that knows how to wait.
  long code = syscall(number_of_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC);
  int can = code == -1 && errno == EINVAL;
  __atomic_store_n(&answer, can ? 1 : -1, __ATOMIC_RELAXED);
  return can;
}

int sb_await(uint64_t *bell, uint32_t heard, const sb_vigil *vigil, int64_t nanoseconds) {
  int64_t end = sb_next_question_within(nanoseconds, interruptible_for);
  if (end < 0) end = 0;
  struct timespec time = {end / 1000000000, end % 1000000000};
  struct timespec *until = end == INT64_MAX ? NULL : &time;
  if (!vigil->count || !sb_can_keep_vigil()) {
    long code =
        syscall(SYS_futex, (uint32_t *)bell, FUTEX_WAIT_BITSET, heard, until, NULL, FUTEX_BITSET_MATCH_ANY);
    return code == 0 || errno != ETIMEDOUT;
  }
  awaited_word words[1 + sizeof vigil->owners / sizeof *vigil->owners];
  words[0] = (awaited_word){heard, (uintptr_t)bell, word_of_32_bits, 0};
  for (int32_t i = 0; i < vigil->count; i++)
    words[i + 1] = (awaited_word){vigil->seen[i], (uintptr_t)vigil->beacons[i], word_of_32_bits, 0};
  long code = syscall(number_of_futex_waitv, words, vigil->count + 1, 0, until, CLOCK_MONOTONIC);
  if (code >= 0 || errno == EAGAIN || errno == EINTR) return 1;
  if (errno == ETIMEDOUT) return 0;
  // It is forbidden since: from now on the caller waits for its bell alone, and looks.
  __atomic_store_n(&answer, -1, __ATOMIC_RELAXED);
  return 1;
}
